"""Groups whose rewards are all equal: no policy gradient at all, wherever the definition says so, and the cases where it does not."""

from __future__ import annotations

import pytest
import torch
from objective_support import SYSTEMS, algorithm, gradient, sample

from harness.objective.advantage import group
from harness.objective.objective import Objective
from harness.objective.types import RolloutBatch
from harness.reward.shaping import reward_components, shaped_rewards

# Systems whose baseline is not the group's: the definition gives dead groups gradient.
WITHOUT_GROUP_BASELINE = {
    "reinforce", "reinforce_pp", "dr_grpo_batch_std", "ppo",
    "vapo", "sft", "sft_selected", "rft",
    "online_rft",
}  # fmt: skip


def dead_gradient(name: str) -> torch.Tensor:
    """The gradient through the tokens of one dead group among live ones (table rows that no other group visits)."""
    objective, data = Objective(algorithm(name)), sample(seed=8, drift=0.05)
    data.rewards_PG[2], data.correct_PG[2] = 0.7, True
    response_N = torch.arange(16).repeat_interleave(data.lengths_PG.reshape(-1))
    dead = response_N // 4 == 2
    data.states_N[dead], data.states_N[~dead] = 6, data.states_N[~dead] % 6
    data.reference_N, data.old_N = data.log_probs(data.table), data.log_probs(data.table)
    batch = data.batch
    data.batch = lambda o: _equal_components(batch(o))  # type: ignore[method-assign, assignment]
    return gradient(objective, data)[6]


def _equal_components(batch):  # type: ignore[no-untyped-def]
    batch.components_PGC[2] = batch.components_PGC[2, :1]
    return batch


@pytest.mark.parametrize("name", [name for name in SYSTEMS if name not in WITHOUT_GROUP_BASELINE])
def test_a_dead_group_has_exactly_zero_gradient(name: str) -> None:
    assert (dead_gradient(name) == 0).all()


@pytest.mark.parametrize("name", sorted(WITHOUT_GROUP_BASELINE))
def test_without_a_group_baseline_a_dead_group_is_pushed(name: str) -> None:
    assert (dead_gradient(name) != 0).any()


def test_whitening_around_another_mean_than_zero_gives_dead_groups_a_constant_push() -> None:
    # Group 1: rewards 1 and 0 with 1 and 3 tokens; group 2: dead. Centred rewards (0.5, -0.5, 0, 0); over tokens (1, 3, 2, 2 of them)
    # the mean is (0.5 - 1.5) / 8 = -1/8, so the dead group's advantage is +1/8 over the standard deviation.
    batch = RolloutBatch(
        rewards_PG=torch.tensor([[1.0, 0.0], [1.0, 1.0]]),
        correct_PG=torch.ones(2, 2, dtype=torch.bool),
        lengths_PG=torch.tensor([[1, 3], [2, 2]]),
        counted_PG=torch.ones(2, 2, dtype=torch.bool),
    )
    config = group.Config(scale="batch_whiten", whiten_over="tokens", ddof=0, epsilon=0.0)
    result = config.advantages(batch)
    # variance over tokens: (0.25 * 4) / 8 - 1/64 = 1/8 - 1/64 = 7/64
    assert result.tolist() == pytest.approx([x / (7 / 64) ** 0.5 for x in (5 / 8, *[-3 / 8] * 3, *[1 / 8] * 4)])
    config.whiten_over = "sequences"
    assert config.advantages(batch)[4:].tolist() == [0.0] * 4
    # Around the length-weighted mean, 1/4: (3/4, -1/4, 0, 0) with the mean 1/8 and the variance (25 + 9 + 1 + 1) / 256 over sequences.
    config.baseline = "length_weighted"
    assert config.advantages(batch).tolist() == pytest.approx([5 / 3, *[-1] * 3, *[-1 / 3] * 4])


def test_a_length_penalty_gives_an_all_right_group_gradient() -> None:
    # All right, lengths 8 and 30 of 32 with the ramp over the last quarter (8 tokens): rewards 1 and 1 - 6/8 = 0.25. Dead by accuracy,
    # not by reward: which is why DAPO's constraint is on accuracy.
    config, right, lengths = algorithm("dapo"), torch.tensor([[True, True]]), torch.tensor([[8, 30]])
    components = reward_components(right, right, lengths, 32, config.reward, config.overlong, ~right)
    rewards = shaped_rewards(components, config.overlong)
    assert rewards.tolist() == [[1.0, 0.25]]
    batch = RolloutBatch(rewards, right, lengths, right)
    assert (group.Config().advantages(batch) != 0).all()

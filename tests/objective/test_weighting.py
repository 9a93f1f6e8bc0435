"""Weights of responses against hand-worked values and enumeration, and Never Give Up's advantages over all attempts."""

from __future__ import annotations

import itertools
import math

import pytest
import torch

from harness.configuration.sections import AlgorithmConfig
from harness.objective.advantage import group
from harness.objective.objective import Objective, retry_factors
from harness.objective.types import RolloutBatch
from harness.objective.weighting import max_variance, softmax_advantage, solve_rate_band, top_fraction

#  Right: all of the first group, three of four, one of four, none.
CORRECT = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 1], [0, 0, 1, 0], [0, 0, 0, 0]], dtype=torch.bool)


def batch_of(correct: torch.Tensor, earlier: list[int] | None = None) -> RolloutBatch:
    """Rewards 1 and -1; response i of a group has i + 1 tokens."""
    lengths = torch.arange(1, correct.shape[1] + 1).repeat(len(correct), 1)
    rewards, every = torch.where(correct, 1.0, -1.0), torch.ones_like(correct)
    return RolloutBatch(rewards, correct, lengths, every, earlier_P=None if earlier is None else torch.tensor(earlier))


def objective(**settings: object) -> Objective:
    return Objective(AlgorithmConfig(advantage=group.Config(scale="none"), **settings))  # type: ignore[arg-type]


def test_a_band_keeps_groups_strictly_inside() -> None:
    weights = solve_rate_band.Config(low=0.25, high=0.8).weights(torch.zeros(4, 4).double(), batch_of(CORRECT))
    assert weights.tolist() == [[0] * 4, [1] * 4, [0] * 4, [0] * 4]


def test_the_top_fraction_ranks_advantages_and_takes_the_earlier_of_equal_ones() -> None:
    advantages = torch.tensor([[0.0, -3.0], [1.0, -1.0]]).double()
    weights = top_fraction.Config(fraction=0.5).weights(advantages, batch_of(CORRECT[:2, :2]))
    assert weights.tolist() == [[0, 1], [1, 0]]


def test_the_top_fraction_by_variance_takes_whole_groups() -> None:
    # Two right of four vary more than three of four, and those more than four of four.
    batch = batch_of(torch.tensor([[1, 1, 1, 1], [1, 1, 0, 1], [0, 1, 1, 0]], dtype=torch.bool))
    config = top_fraction.Config(by="reward_variance", fraction=2 / 3)
    assert config.weights(torch.zeros(3, 4).double(), batch).tolist() == [[0] * 4, [1] * 4, [1] * 4]


@pytest.mark.parametrize("fraction", [0.25, 0.5, 0.75, 1.0])
def test_maximum_variance_is_that_of_the_best_subset(fraction: float) -> None:
    source = torch.Generator().manual_seed(5)
    batch = batch_of(torch.zeros(6, 8, dtype=torch.bool))
    batch.rewards_PG = torch.randn(6, 8, generator=source)
    weights, number = (
        max_variance.Config(fraction=fraction).weights(torch.zeros(6, 8).double(), batch),
        round(8 * fraction),
    )
    assert weights.sum(1).tolist() == [number] * 6
    for rewards, chosen in zip(batch.rewards_PG.double(), weights > 0, strict=True):
        subsets = (rewards[list(rows)].var(correction=0) for rows in itertools.combinations(range(8), number))
        assert float(rewards[chosen].var(correction=0)) == pytest.approx(float(max(subsets)), abs=1e-12)


def test_softmax_weights_are_one_on_average() -> None:
    advantages = torch.tensor([[1.0, -1.0], [0.0, math.log(2)]]).double()
    weights = softmax_advantage.Config().weights(advantages, batch_of(CORRECT[:2, :2]))
    e = math.e  # exp of |advantage|: e, e, 1, 2
    assert weights.reshape(-1).tolist() == pytest.approx([4 * part / (2 * e + 3) for part in (e, e, 1, 2)])


def test_a_weight_multiplies_the_advantage_of_every_token() -> None:
    made = objective(weighting=solve_rate_band.Config(low=0.25, high=0.8))
    batch = batch_of(CORRECT)
    plain = objective().advantages(batch)
    inside = batch.response_N // 4 == 1
    assert torch.equal(made.advantages(batch), plain * inside)
    assert made.weighs_responses(batch)
    assert not objective().weighs_responses(batch)


def test_a_retry_keeps_what_right_responses_gain_over_all_attempts_and_sums_to_zero() -> None:
    # One of four right after two groups without: the mean of twelve rewards is -1 + 2/12, so the right one has 11/6 and each other -11/18.
    batch = batch_of(CORRECT, [0, 1, 2, 5])
    advantages = objective().advantages(batch, torch.float64)
    starts = batch.lengths_PG.reshape(-1).cumsum(0) - batch.lengths_PG.reshape(-1)
    advantages_PG = advantages[starts].view(4, 4)
    assert advantages_PG[2].tolist() == pytest.approx([-11 / 18, -11 / 18, 11 / 6, -11 / 18])
    # Three of four after one group without: the mean of eight is -1 + 6/8, so 5/4 each, and -15/4.
    assert advantages_PG[1].tolist() == pytest.approx([5 / 4, 5 / 4, -15 / 4, 5 / 4])
    assert advantages_PG.sum(1).tolist() == pytest.approx([0.0] * 4, abs=1e-12)
    assert advantages_PG[[0, 3]].tolist() == [[0.0] * 4] * 2


def test_without_earlier_attempts_nothing_changes() -> None:
    assert retry_factors(batch_of(CORRECT, [0, 0, 0, 0])).tolist() == [1.0] * 4
    plain, retried = (objective().advantages(batch_of(CORRECT, earlier)) for earlier in (None, [0, 0, 0, 0]))
    assert torch.equal(plain, retried)

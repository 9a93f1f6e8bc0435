"""What the step metrics say each mechanism touched: hand-worked values, invariances, and that saying it changes no training number."""

from __future__ import annotations

import copy
import math
from pathlib import Path

import pytest
import torch
from small_runs import Bench, small_config
from tables import table
from test_update import exact_log_probs, groups_of, updater_of

from harness.configuration.compose import compose_run
from harness.configuration.registry import AGGREGATION, member
from harness.configuration.schema import RunConfig
from harness.configuration.sections import EngineCorrectionConfig, OverlongConfig, RewardConfig
from harness.objective.kl import k1, k2, k3
from harness.objective.objective import Objective
from harness.objective.surrogate import ppo_clip
from harness.objective.types import RolloutBatch, TokenBatch
from harness.objective.weighting import top_fraction
from harness.sampling.selection import Groups, Selection
from harness.training.mechanisms import MechanismShares, sigma_weight_change
from harness.training.metrics import UpdateStats, engagement_row, groups_row

# Measures of the mechanisms that the ladder adds, and of those that none of its rungs has.
LADDER = ("masked_fraction", "clip_released_fraction", "punished_fraction", "length_penalty_mean")
LADDER += ("weight_change_response_mean", "refilled_fraction")
OFF = ("correction_moved_fraction", "correction_change_mean", "kl_share", "entropy_share", "nll_share")


def prompts_of(groups: Groups) -> list[list[int]]:
    return [[2, 3, 4, 5 + i] for i in range(len(groups))]


def updated(config: RunConfig, folder: Path, groups: Groups, updates: int = 1) -> UpdateStats:
    """One step's updates on these groups; no optimiser step is taken."""
    config.algorithm.prompts_per_step, config.algorithm.updates_per_step = len(groups), updates
    updater = updater_of(config, folder)
    updater.optimizer.step = lambda *_: None  # type: ignore[method-assign, assignment]
    return updater.update_step(1, groups, prompts_of(groups))


def row(config: RunConfig, folder: Path, groups: Groups, updates: int = 1) -> dict[str, float]:
    kept = Selection(groups, groups, 1, 0, 0, 0, len(groups))
    return engagement_row(kept, updated(config, folder, groups, updates), config)


def everything(clip_high: float, **more: object) -> RunConfig:
    """A run in which every mechanism acts."""
    config = small_config(
        algorithm__overlong__policy="mask_and_soft",
        algorithm__aggregation=member(AGGREGATION, "batch_token_mean").Config(),
        algorithm__kl=k3.Config(coefficient=0.1),
        algorithm__entropy_coefficient=0.01,
        algorithm__positive_nll_coefficient=0.1,
        **more,
    )
    config.algorithm.surrogate.clip_high = clip_high
    return config


def test_released_tokens_are_those_that_only_the_symmetric_bound_clips() -> None:
    """Released = clipped under the symmetric bound and not under the wider one, and exactly those gain a gradient."""
    generator = torch.Generator().manual_seed(0)
    log_ratio = torch.randn(2000, generator=generator, dtype=torch.float64).mul(0.3).requires_grad_()
    batch = TokenBatch(
        lengths_R=torch.ones(2000, dtype=torch.long),
        group_R=torch.zeros(2000, dtype=torch.long),
        old_logprobs_N=torch.zeros(2000),
        advantages_N=torch.randn(2000, generator=generator),
        weights_R=torch.ones(2000),
    )
    narrow, wide = ppo_clip.Config(), ppo_clip.Config(clip_high=0.28)
    slopes = [
        torch.autograd.grad(config.token_loss(log_ratio, log_ratio, batch).sum(), log_ratio)[0]
        for config in (narrow, wide)
    ]
    released = wide.released(log_ratio.detach().exp(), batch.advantages_N)
    assert 0 < int(released.sum()) < 200
    assert torch.equal(released, (slopes[0] == 0) & (slopes[1] != 0))


@table(__file__, "shares", "kind, changes")
def test_weight_changes_are_of_the_shares_of_the_update(kind: str, changes: tuple[float, ...]) -> None:
    config = small_config(algorithm__aggregation=member(AGGREGATION, kind).Config())
    objective, touched = Objective(config.algorithm), MechanismShares()
    lengths, groups = torch.tensor([2, 6, 4, 4]), torch.tensor([0, 0, 1, 1])
    counts = objective.count(lengths, groups)
    weights = objective.aggregation.response_weights(lengths, groups, counts)
    touched.add_update(objective, weights, lengths, groups, counts, torch.ones(4, dtype=torch.bool))
    others = ("response_mean", "batch_token_mean", "group_token_mean")
    found = [touched.row()[f"weight_change_{other}"] for other in others]
    assert found == pytest.approx(changes, abs=1e-12)


def test_weight_changes_are_over_responses_with_gradient_and_averaged_over_them() -> None:
    config = small_config(algorithm__aggregation=member(AGGREGATION, "batch_token_mean").Config())
    objective, touched = Objective(config.algorithm), MechanismShares()
    for lengths, live in (([2, 6, 90], [1, 1, 0]), ([5, 5, 0, 5], [1, 1, 0, 1])):
        lengths_R, group_R = torch.tensor(lengths), torch.zeros(len(lengths), dtype=torch.long)
        counts = objective.count(lengths_R, group_R)
        weights = objective.aggregation.response_weights(lengths_R, group_R, counts)
        touched.add_update(objective, weights, lengths_R, group_R, counts, torch.tensor(live).bool())
    # two responses whose shares 1/4 and 3/4 stand against 1/2 each, three without a change
    assert touched.row()["weight_change_response_mean"] == pytest.approx(2 * 0.5 / 5)
    assert math.isnan(MechanismShares().row()["weight_change_response_mean"])


def test_sigma_moves_weight_between_groups_of_unequal_spread() -> None:
    rewards = torch.tensor([[1.0, -1, -1, -1], [1.0, 1, -1, -1], [1.0, 1, 1, 1]])
    counted = torch.ones_like(rewards, dtype=torch.bool)
    batch = RolloutBatch(rewards, rewards > 0, torch.ones_like(rewards).long(), counted)
    # Σ|A| of the live groups without σ: 3 and 4; σ = 1 and √(4/3)
    scaled = 4 / math.sqrt(4 / 3)
    assert sigma_weight_change(batch) == pytest.approx(2 * abs(3 / (3 + scaled) - 3 / 7))
    batch.rewards_PG = rewards[1:2].repeat(3, 1)
    assert sigma_weight_change(batch) == pytest.approx(0.0, abs=1e-15)
    batch.rewards_PG = torch.ones_like(rewards)
    assert math.isnan(sigma_weight_change(batch))


def test_masked_responses_count_where_they_would_have_had_gradient(base_policy: Path) -> None:
    lengths = [[12, 3, 4, 5], [12, 12, 6, 7], [12, 12, 12, 12]]
    rewards = [[-1.0, 1, 1, -1], [-1.0, -1, 1, 1], [-1.0, -1, -1, -1]]  # the third group is dead
    groups = groups_of(lengths, rewards)
    found = {
        policy: row(small_config(algorithm__overlong__policy=policy), base_policy, groups)["masked_fraction"]
        for policy in ("score", "mask")
    }
    assert found == {"score": 0.0, "mask": pytest.approx(3 / 12)}
    excluding = small_config(algorithm__overlong__policy="mask", algorithm__overlong__statistics="exclude")
    assert row(excluding, base_policy, groups)["masked_fraction"] == pytest.approx(7 / 12)


def test_punished_responses_and_the_mean_penalty(base_policy: Path) -> None:
    """Cap 12, the last quarter is the ramp: 9 tokens cost nothing, 10 a third, 12 all of the penalty of 1/2."""
    groups = groups_of([[9, 10, 12, 4]], [[1.0, 1 - 0.5 / 3, -1.5, -1.0]])
    config = small_config(algorithm__overlong__policy="soft", algorithm__overlong__penalty=0.5)
    found = row(config, base_policy, groups)
    assert found["punished_fraction"] == 0.5
    assert found["length_penalty_mean"] == pytest.approx((0.5 / 3 + 0.5) / 4)
    config = small_config(
        algorithm__overlong__policy="mask_and_soft",
        algorithm__overlong__penalty=0.5,
        algorithm__overlong__statistics="exclude",
    )
    assert row(config, base_policy, groups)["punished_fraction"] == 0.25  # the excluded one teaches nobody


@pytest.mark.parametrize(
    ("shape", "function", "mean"),
    [
        ("additive", "", (0.5 / 3 + 0.5) / 4),
        ("additive", "rewards.py:graded", (0.5 / 3 + 0.5) / 4),
        ("multiplicative", "", (3 * 0.5 / 3) / 4),  # right answers earn 3, wrong ones 0
        ("multiplicative", "rewards.py:graded", math.nan),
    ],
)
def test_the_mean_penalty_of_each_shape_and_of_a_reward_function(
    base_policy: Path, shape: str, function: str, mean: float
) -> None:
    """As above; a function gives the right answers 5, which is no penalty."""
    right = 5.0 if function else 3.0
    punished = right - 0.5 / 3 if shape == "additive" else right * (1 - 0.5 / 3)
    groups = groups_of([[9, 10, 12, 4]], [[right, punished, -0.5, 0.0]])
    overlong = OverlongConfig("soft", penalty=0.5, shape=shape)
    config = small_config(
        algorithm__overlong=overlong, algorithm__reward=RewardConfig(correct=3.0, wrong=0.0, function=function)
    )
    assert row(config, base_policy, groups)["length_penalty_mean"] == pytest.approx(mean, nan_ok=True)


def test_engine_weights_that_moved(base_policy: Path) -> None:
    groups = groups_of([[4, 4, 3, 5]], [[1.0, -1, 1, -1]])
    exact = exact_log_probs(base_policy, groups, prompts_of(groups))
    shift = torch.zeros(16)
    shift[:4], shift[4] = 0.1, 2e-4  # four tokens by e^0.1, one by less than a thousandth
    groups.completions.log_probs_N = exact - shift
    config = small_config()
    config.algorithm.engine_correction = EngineCorrectionConfig("token", 2.0, "recomputed")
    found = row(config, base_policy, groups)
    assert found["correction_moved_fraction"] == pytest.approx(4 / 16)
    assert found["correction_change_mean"] == pytest.approx((4 * math.expm1(0.1) + math.expm1(2e-4)) / 16, rel=1e-4)


def test_gradient_shares_are_of_the_slopes_of_the_terms() -> None:
    """Policy w ρ|A|, k2 w β|x|, entropy w η|-log π - H|, likelihood μ v; a clipped token has none."""
    config = small_config(algorithm__kl=k2.Config(coefficient=0.5)).algorithm
    config.entropy_coefficient, config.positive_nll_coefficient = 0.01, 0.1
    log_probs = torch.tensor([-1.0, -2.0, -0.5])
    batch = TokenBatch(
        lengths_R=torch.tensor([2, 1]),
        group_R=torch.tensor([0, 0]),
        old_logprobs_N=torch.tensor([-1.0, -2.1, -1.0]),  # ratios 1, e^0.1 and e^0.5, which is clipped
        advantages_N=torch.tensor([2.0, -1.0, 3.0]),
        weights_R=torch.tensor([0.25, 0.5]),
        ref_logprobs_N=torch.tensor([-1.2, -2.0, -0.1]),
        likelihood_weights_R=torch.tensor([0.0, 1.0]),
    )
    _, stats = Objective(config)(log_probs, batch, torch.tensor([1.5, 1.5, 0.5]))
    policy = 0.25 * 2 + 0.25 * math.exp(0.1)
    kl = 0.5 * (0.25 * 0.2 + 0.5 * 0.4)
    entropy = 0.01 * (0.25 * 0.5 + 0.25 * 0.5)
    assert stats.total("policy_gradient") == pytest.approx(policy, rel=1e-6)
    assert stats.gradient_share("kl") == pytest.approx(kl / (kl + policy), rel=1e-6)
    assert stats.gradient_share("entropy") == pytest.approx(entropy / (entropy + policy), rel=1e-6)
    assert stats.gradient_share("nll") == pytest.approx(0.1 / (0.1 + policy), rel=1e-6)
    assert stats.total("clip_released") == 0


def test_a_kl_in_the_reward_is_measured_by_what_it_does_to_the_advantages(base_policy: Path) -> None:
    """At the start π is the reference, and old log-probs 0.2 above it on every token make k1 cost 0.2 β a token."""
    groups = groups_of([[2, 4]], [[1.0, -1.0]])
    exact = exact_log_probs(base_policy, groups, prompts_of(groups))
    groups.completions.log_probs_N = exact + 0.2
    config = small_config(algorithm__kl=k1.Config(coefficient=0.5, placement="reward"))
    config.algorithm.advantage.scale = "none"
    # returns 1 - 0.2 and -1 - 0.4: advantages ±1.1 instead of ±1
    assert row(config, base_policy, groups)["kl_share"] == pytest.approx(0.1 / 1.1, rel=1e-4)


def test_weights_of_responses_are_measured_by_what_they_move(base_policy: Path) -> None:
    """Two groups with advantages of one size and as many tokens, of which one is left out: each share of a half moves by a half."""
    groups = groups_of([[2, 2, 2, 2], [2, 2, 2, 2]], [[1.0, 1.0, -1.0, -1.0], [1.0, -1.0, 1.0, -1.0]])
    assert "weighting_change" not in row(small_config(), base_policy, groups)
    config = small_config(algorithm__weighting=top_fraction.Config())
    assert row(config, base_policy, groups)["weighting_change"] == pytest.approx(1.0)
    config.algorithm.weighting.fraction = 1.0
    assert row(config, base_policy, groups)["weighting_change"] == 0


def test_removed_and_replaced_groups_are_shares_of_the_first_round() -> None:
    live, dead = [1.0, -1.0], [1.0, 1.0]
    first = groups_of([[2, 2]] * 4, [live, dead, dead, dead])
    kept = groups_of([[2, 2]] * 3, [live] * 3)
    collected = Selection(first, kept, 2, 3, 0, 0, 8)
    for policy, removed, refilled in (
        ("keep", 0.0, 0.0),
        ("drop", 0.75, 0.0),
        ("refill", 0.75, 0.5),
        ("never_give_up", 0.75, 0.0),
    ):
        found = groups_row(collected, small_config(algorithm__dead_groups__policy=policy))
        assert found == {"removed_fraction": removed, "refilled_fraction": refilled}


@pytest.mark.parametrize(("rung", "acts"), [("dapo_0_naive_grpo", False), ("dapo_5_dynamic_sampling", True)])
def test_the_first_rung_touches_nothing_and_the_last_by_every_mechanism(rung: str, acts: bool, bench: Bench) -> None:
    config = small_config(training__steps=3, training__evaluate_every=3, optimizer__learning_rate=2e-3)
    config.algorithm = copy.deepcopy(compose_run([f"rung={rung}"]).algorithm)
    for name, size in {"prompts_per_step": 16, "responses_per_prompt": 8, "updates_per_step": 4}.items():
        setattr(config.algorithm, name, size)
    steps = bench.trained(config).run.steps()
    assert {name: float(steps[name].sum()) > 0 for name in LADDER} == dict.fromkeys(LADDER, acts)
    assert (float(steps["weight_change_batch_token_mean"].sum()) > 0) != acts
    assert (steps[list(OFF)] == 0).all(axis=None)

"""Values worked out by hand: the corrected arithmetic of the texts, and small cases of every formula."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
import torch
from objective_support import algorithm

from harness.configuration.algorithm import OverlongConfig, RewardConfig
from harness.configuration.compose import compose_run
from harness.configuration.error import ConfigError
from harness.configuration.registry import member
from harness.objective.advantage import best_worst, decoupled, gae, group, imitation, return_to_go
from harness.objective.covariance import token_covariance
from harness.objective.entropy_mask import high_entropy_tokens
from harness.objective.objective import Objective
from harness.objective.surrogate import (
    best_worst_dpo,
    clip_cov,
    clipped_is,
    divergence_mask,
    gamma_weight,
    geometric_mean,
    kl_cov,
    policy_gradient,
    ppo_clip,
    soft_gate,
)
from harness.objective.types import RolloutBatch, TokenBatch, TokenCounts
from harness.reward.shaping import reward_components, shaped_rewards


def one_group(rewards: list[float], lengths: list[int] | None = None, **more: Any) -> RolloutBatch:
    lengths = lengths or [1] * len(rewards)
    values = torch.tensor([rewards], dtype=torch.float64)
    return RolloutBatch(
        rewards_PG=values,
        correct_PG=more.pop("correct", values > 0.5),
        lengths_PG=torch.tensor([lengths]),
        counted_PG=more.pop("counted", torch.ones_like(values, dtype=torch.bool)),
        **more,
    )


def z_scores(rewards: list[float], ddof: int) -> list[float]:
    return group.advantages(one_group(rewards), group.Config(ddof=ddof, epsilon=0.0)).tolist()


WINNERS = [
    # rewards, population sigma and winner's advantage, sample sigma and winner's advantage
    ([1.1] * 7 + [0.0], 0.364, 0.38, 0.389, 0.35),
    ([1.1] * 3 + [0.0] * 5, 0.533, 1.29, 0.569, 1.21),
    ([1.1] * 6 + [0.1] * 2, 0.433, 0.58, 0.463, 0.54),
    ([1.1] * 3 + [0.1] * 5, 0.484, 1.29, 0.518, 1.21),
    ([1.1] * 4 + [0.0] * 4, 0.55, 1.00, 0.588, 0.94),
    ([1.10, 1.05, 1.07, 1.10, 1.04, 1.08, 1.09, 1.10], 0.022, 0.96, 0.024, 0.90),
]


@pytest.mark.parametrize(("rewards", "population", "winner0", "sample", "winner1"), WINNERS)
def test_the_texts_tables_with_one_sigma_throughout(
    rewards: list[float], population: float, winner0: float, sample: float, winner1: float
) -> None:
    # sigma^2 = mean of (r - mu)^2, times G/(G-1) for the sample form; a winner's advantage is (r - mu) / sigma
    mean = sum(rewards) / len(rewards)
    square = sum((r - mean) ** 2 for r in rewards)
    assert math.sqrt(square / len(rewards)) == pytest.approx(population, abs=6e-4)
    assert math.sqrt(square / (len(rewards) - 1)) == pytest.approx(sample, abs=6e-4)
    assert z_scores(rewards, ddof=0)[0] == pytest.approx(winner0, abs=6e-3)
    assert z_scores(rewards, ddof=1)[0] == pytest.approx(winner1, abs=6e-3)


def test_the_one_loser_of_an_easy_group_is_pushed_hard() -> None:
    # 7 of 8 right: mu = 0.9625, sigma = 0.3638; the loser gets (0 - 0.9625) / 0.3638 = -2.65
    assert z_scores([1.1] * 7 + [0.0], ddof=0)[-1] == pytest.approx(-2.65, abs=5e-3)
    # 3 of 4 right with rewards 1 and 0: sigma = sqrt(3)/4, loser -3/4 / (sqrt(3)/4) = -sqrt(3); sample sigma = 1/2: -1.5
    assert z_scores([1, 1, 1, 0], ddof=0)[-1] == pytest.approx(-math.sqrt(3))
    assert z_scores([1, 1, 1, 0], ddof=1)[-1] == pytest.approx(-1.5)


@pytest.mark.parametrize(("size", "ratio"), [(4, 1.155), (8, 1.069), (16, 1.033), (64, 1.008)])
def test_population_sigma_scales_advantages_by_sqrt_g_over_g_minus_1(size: int, ratio: float) -> None:
    rewards = [1.0] + [0.0] * (size - 1)
    assert z_scores(rewards, 0)[0] / z_scores(rewards, 1)[0] == pytest.approx(ratio, abs=5e-4)
    assert math.sqrt(size / (size - 1)) == pytest.approx(ratio, abs=5e-4)


def test_the_sigma_weight_is_symmetric_in_difficulty() -> None:
    # Rewards {0, 1}, pass rate p: sigma = sqrt(p(1-p)), so relative to centred the weight is 1 / sqrt(p(1-p)):
    # x4.13 at 1/16 and at 15/16, x2 at 1/2.
    for right, weight in ((1, 4.131), (15, 4.131), (8, 2.0)):
        rewards = [1.0] * right + [0.0] * (16 - right)
        centred = 1 - right / 16
        assert z_scores(rewards, 0)[0] / centred == pytest.approx(weight, abs=1e-3)


def test_walkthrough_group() -> None:
    # (1.1, 0.1, 0, 1.1): mu = 2.3/4 = 0.575; deviations 0.525, -0.475, -0.575, 0.525; squares sum to
    # 0.275625 + 0.225625 + 0.330625 + 0.275625 = 1.1075; population sigma sqrt(1.1075/4) = 0.526, sample sqrt(1.1075/3) = 0.608
    assert z_scores([1.1, 0.1, 0.0, 1.1], 0) == pytest.approx([0.998, -0.903, -1.093, 0.998], abs=6e-4)
    assert z_scores([1.1, 0.1, 0.0, 1.1], 1) == pytest.approx(
        [0.525 / 0.60759, -0.475 / 0.60759, -0.575 / 0.60759, 0.525 / 0.60759], abs=1e-4
    )


def test_leave_one_out_is_dr_grpo_times_g_over_g_minus_1() -> None:
    rewards = [1.0, 0.0, 0.5, 1.0]
    loo = group.advantages(one_group(rewards), group.Config(baseline="leave_one_out", scale="none")).tolist()
    # r_1 - mean(0, 0.5, 1) = 1 - 0.5
    assert loo == pytest.approx([0.5, 0 - 2.5 / 3, 0.5 - 2 / 3, 0.5])
    centred = group.advantages(one_group(rewards), group.Config(scale="none")).tolist()
    assert loo == pytest.approx([4 / 3 * a for a in centred])


def test_excluded_responses_leave_the_statistics() -> None:
    counted = torch.tensor([[True, True, True, False]])
    batch = one_group([1.0, 0.0, 0.5, 100.0], counted=counted)
    # mean of (1, 0, 0.5) = 0.5
    assert group.advantages(batch, group.Config(scale="none")).tolist() == [0.5, -0.5, 0.0, 0.0]


def test_gae_by_hand() -> None:
    # Three tokens, reward 1 at the end, V = (0.2, 0.5, 0.4), gamma 1, lambda 0.5:
    # delta = (0.5 - 0.2, 0.4 - 0.5, 1 - 0.4) = (0.3, -0.1, 0.6)
    # A_3 = 0.6; A_2 = -0.1 + 0.5 * 0.6 = 0.2; A_1 = 0.3 + 0.5 * 0.2 = 0.4
    batch = one_group([1.0], [3], values_N=torch.tensor([0.2, 0.5, 0.4], dtype=torch.float64))
    config = gae.Config(lambda_policy=0.5, lambda_value=1.0, whiten_over="none")
    assert gae.advantages(batch, config).tolist() == pytest.approx([0.4, 0.2, 0.6])
    # At lambda 1 the target is the return itself: 1 at every token.
    assert gae.value_targets(batch, config).tolist() == pytest.approx([1.0, 1.0, 1.0])


def test_gae_pays_the_kl_token_by_token() -> None:
    # No values, lambda 1: A_t is the reward to go, 1 minus the penalties from t on.
    batch = one_group([1.0], [3], values_N=torch.zeros(3), kl_penalty_N=torch.tensor([0.1, 0.2, 0.3]))
    config = gae.Config(lambda_policy=1.0, whiten_over="none")
    assert gae.advantages(batch, config).tolist() == pytest.approx([0.4, 0.5, 0.7])
    to_go = return_to_go.penalty_to_go(batch).tolist()
    assert to_go == pytest.approx([0.6, 0.5, 0.3])


@pytest.mark.parametrize(
    ("length", "expected"), [(1, 0.0), (20, 0.0), (100, 0.8), (1000, 0.98), (10000, 0.998)]
)
def test_length_adaptive_lambda_is_clamped(length: int, expected: float) -> None:
    # 1 - 1/(0.05 l): -19 at l = 1 (clamped to 0), 0 at 20, 0.8 at 100
    batch = one_group([1.0], [length])
    assert gae.policy_lambdas(batch, gae.Config(length_adaptive_alpha=0.05)).tolist() == pytest.approx(
        [expected]
    )


def test_a_truncated_response_may_earn_the_wrong_reward() -> None:
    # right and whole, right but cut off, wrong with an answer, cut off with an answer: rewards 1 and 0, 0.1 for an answer
    correct = torch.tensor([True, True, False, False])
    answered, truncated = torch.ones(4, dtype=torch.bool), torch.tensor([False, True, False, True])
    reward = RewardConfig(correct=1.0, wrong=0.0, format_credit=0.1)
    rest = (torch.tensor([5, 8, 5, 8]), 8, reward)
    for policy, expected in (("score", [1.1, 1.1, 0.1, 0.1]), ("wrong", [1.1, 0.0, 0.1, 0.0])):
        overlong = OverlongConfig(policy=policy)
        rewards = shaped_rewards(correct, answered, *rest, overlong, truncated)
        assert rewards.tolist() == pytest.approx(expected)
        parts = reward_components(correct, answered, *rest, overlong, truncated)
        assert parts.sum(-1).tolist() == pytest.approx(expected)


def test_whitening_as_the_authors_of_reinforce_pp_do_it() -> None:
    # One group, rewards 1 and 0 of 1 and 3 tokens: centred 1/2 and -1/2; over tokens mean -1/4, population variance 3/16.
    given = algorithm("reinforce_pp_baseline_openrlhf").advantage
    result = group.advantages(one_group([1.0, 0.0], [1, 3]), given).tolist()
    assert result == pytest.approx([0.75 / math.sqrt(3 / 16)] + [-0.25 / math.sqrt(3 / 16)] * 3)


def test_whitening_over_tokens_weighs_long_responses_more() -> None:
    # Returns 1 (one token) and 0 (three tokens). Tokens: mean 1/4, population variance 3/16; sequences: mean 1/2, variance 1/4.
    batch = one_group([1.0, 0.0], [1, 3])
    config = return_to_go.Config(ddof=0, epsilon=0.0)
    tokens = return_to_go.advantages(batch, config).tolist()
    assert tokens == pytest.approx([0.75 / math.sqrt(3 / 16)] + [-0.25 / math.sqrt(3 / 16)] * 3)
    config.whiten_over = "sequences"
    assert return_to_go.advantages(batch, config).tolist() == pytest.approx([1.0, -1.0, -1.0, -1.0])


def test_decoupled_rewards_keep_combinations_apart() -> None:
    # Two components; the sums (1, 1, 0, 2) make GRPO treat responses 1 and 2 alike. Component z-scores (population):
    # outcome (1, 0, 0, 1): mean 1/2, sigma 1/2 -> (1, -1, -1, 1); format (0, 1, 0, 1) -> (-1, 1, -1, 1); weights 1 and 0.5.
    components = torch.tensor([[[1.0, 0, 0], [0, 1, 0], [0, 0, 0], [1, 1, 0]]], dtype=torch.float64)
    batch = one_group([1.0, 1.0, 0.0, 2.0], components_PGC=components)
    config = decoupled.Config(format_weight=0.5, ddof=0, epsilon=1e-12, batch_normalise=False)
    assert decoupled.advantages(batch, config).tolist() == pytest.approx([0.5, -0.5, -1.5, 1.5])


def test_best_and_worst_of_a_group() -> None:
    assert best_worst.advantages(one_group([0.3, 1, 0, 1]), best_worst.Config()).tolist() == [0, 1, -1, 0]
    assert best_worst.advantages(one_group([1, 1, 1]), best_worst.Config()).tolist() == [0, 0, 0]


def test_imitation_is_one_or_the_indicator() -> None:
    batch = one_group([1.0, -1.0])
    assert imitation.advantages(batch, imitation.Config()).tolist() == [1.0, 0.0]
    assert imitation.advantages(batch, imitation.Config(imitate="all")).tolist() == [1.0, 1.0]


def tokens(ratios: list[float], advantages: list[float]) -> tuple[torch.Tensor, torch.Tensor, TokenBatch]:
    log_ratio = torch.tensor(ratios, dtype=torch.float64).log()
    batch = TokenBatch(
        response_N=torch.arange(len(ratios)),
        old_log_probs_N=torch.zeros(len(ratios)).double(),
        advantages_N=torch.tensor(advantages, dtype=torch.float64),
        weights_N=torch.ones(len(ratios)).double(),
    )
    return log_ratio.clone(), log_ratio, batch


def test_clip_higher_by_hand() -> None:
    # eps 0.2 / 0.28. A > 0: min(rho, 1.28) A; A < 0: max(rho, 0.8) A.
    log_probs, log_ratio, batch = tokens([1.25, 1.3, 0.7, 1.5, 0.7], [1, 1, 1, -1, -1])
    config = ppo_clip.Config(clip_low=0.2, clip_high=0.28)
    assert ppo_clip.token_loss(log_probs, log_ratio, batch, config).tolist() == pytest.approx(
        [-1.25, -1.28, -0.7, 1.5, 0.8]
    )
    low, high = ppo_clip.clipped(log_ratio.exp(), batch.advantages_N, config)
    assert (low.tolist(), high.tolist()) == ([False] * 4 + [True], [False, True] + [False] * 3)


def test_dual_clip_bounds_negative_advantages() -> None:
    log_probs, log_ratio, batch = tokens([5.0, 2.0, 5.0], [-1, -1, 1])
    loss = ppo_clip.token_loss(log_probs, log_ratio, batch, ppo_clip.Config(dual_clip=3.0))
    assert loss.tolist() == pytest.approx([3.0, 2.0, -1.2])


def test_bounded_weight_keeps_every_tokens_gradient() -> None:
    log_probs, _, batch = tokens([2.0, 0.5], [1, -1])
    log_probs.requires_grad_()
    config = clipped_is.Config(cap_min=0.0, cap_max=1.28)
    loss = clipped_is.token_loss(log_probs, log_probs, batch, config)
    # weights min(2, 1.28) = 1.28 and 0.5; gradient -w A
    assert torch.autograd.grad(loss.sum(), log_probs)[0].tolist() == pytest.approx([-1.28, 0.5])


def test_policy_gradient_with_and_without_the_ratio() -> None:
    log_probs, log_ratio, batch = tokens([2.0, 0.5], [1, -1])
    assert policy_gradient.token_loss(log_probs, log_ratio, batch, policy_gradient.Config()).tolist() == [
        -2.0,
        0.5,
    ]
    plain = policy_gradient.token_loss(
        log_probs, log_ratio, batch, policy_gradient.Config(importance_weighted=False)
    )
    assert plain.tolist() == pytest.approx([-math.log(2), -math.log(2)])


def test_sequence_ratio_is_the_geometric_mean() -> None:
    # Two tokens with log-ratios 0.2 and 0.4, one with -0.1: exp(0.3) for both tokens of the first, exp(-0.1).
    objective = Objective(algorithm("gspo"))
    batch = TokenBatch(torch.tensor([0, 0, 1]), torch.zeros(3), torch.ones(3), torch.ones(3))
    assert objective.log_ratio(torch.tensor([0.2, 0.4, -0.1]), batch).tolist() == pytest.approx(
        [0.3, 0.3, -0.1]
    )


@pytest.mark.parametrize(("form", "margin"), [("sum", 0.3 + 0.5 - (-0.2)), ("mean", 0.4 - (-0.2))])
def test_dpo_by_hand(form: str, margin: float) -> None:
    # Best: two tokens with log-ratios 0.3 and 0.5; worst: one with -0.2; beta 2. Loss -log sigmoid(2 margin), on the best's tokens.
    gain = torch.tensor([0.3, 0.5, -0.2, 9.0], dtype=torch.float64)
    batch = TokenBatch(
        response_N=torch.tensor([0, 0, 1, 2]),
        old_log_probs_N=torch.zeros(4),
        advantages_N=torch.tensor([1.0, 1.0, -1.0, 0.0]),
        weights_N=torch.ones(4),
        reference_log_probs_N=torch.zeros(4),
        group_N=torch.zeros(4, dtype=torch.long),
    )
    loss = best_worst_dpo.token_loss(gain, gain, batch, best_worst_dpo.Config(beta=2.0, log_prob=form))
    value = math.log(1 + math.exp(-2 * margin))
    assert loss.tolist() == pytest.approx([value, value, 0, 0])


def test_the_soft_gate_by_hand() -> None:
    # tau 1 and 1.05: at ratio 1 the gate is 4/tau * 1/2 = 2/tau; at 2 it is 4 sigmoid(1) and 4/1.05 sigmoid(1.05)
    log_probs, log_ratio, batch = tokens([1.0, 2.0, 2.0], [1, 1, -2])
    log_ratio.requires_grad_()
    loss = soft_gate.token_loss(log_probs, log_ratio, batch, soft_gate.Config())
    gates = [4 / (1 + math.exp(-1)), 4 / 1.05 / (1 + math.exp(-1.05))]
    assert loss.tolist() == pytest.approx([-2.0, -gates[0], 2 * gates[1]])
    # slope in log rho: -4 s (1 - s) rho A, which is -A at ratio 1
    s = 1 / (1 + math.exp(-1))
    slope = torch.autograd.grad(loss.sum(), log_ratio)[0].tolist()
    assert slope[:2] == pytest.approx([-1.0, -4 * s * (1 - s) * 2])


@pytest.mark.parametrize(("advantage", "mean"), [(1.0, (0.4 - 0.7) / 2), (-1.0, (0.5 - 0.4) / 2)])
def test_the_geometric_mean_clips_before_it_averages(advantage: float, mean: float) -> None:
    # log-ratios 0.5 and -0.7, bounds 0.4: for A > 0 only the first is cut (to 0.4), for A < 0 only the second (to -0.4)
    log_ratio = torch.tensor([0.5, -0.7], dtype=torch.float64, requires_grad=True)
    batch = TokenBatch(
        torch.zeros(2, dtype=torch.long), torch.zeros(2), torch.full((2,), advantage), torch.ones(2)
    )
    config = geometric_mean.Config()
    loss = geometric_mean.token_loss(log_ratio, log_ratio, batch, config)
    assert loss.tolist() == pytest.approx([-advantage * math.exp(mean)] * 2)
    low, high = geometric_mean.clipped(log_ratio.detach().exp(), batch.advantages_N, config)
    assert (low.tolist(), high.tolist()) == ([False, advantage < 0], [advantage > 0, False])
    # both tokens carry the response's loss: d/d log rho_t of 2 * loss is -A exp(mean), and 0 for the cut token
    slope = torch.autograd.grad(loss.sum(), log_ratio)[0].tolist()
    kept = 1 if advantage > 0 else 0
    assert slope[kept] == pytest.approx(-advantage * math.exp(mean))
    assert slope[1 - kept] == 0


def test_a_trust_region_in_probabilities() -> None:
    # 0.01 -> 0.05 moves 0.04 of mass though the ratio is 5; 0.5 -> 0.8 moves 0.3 at a ratio of 1.6; 0.8 -> 0.5 moves 0.3 down
    old, new = torch.tensor([0.01, 0.5, 0.8, 0.8]).double(), torch.tensor([0.05, 0.8, 0.5, 0.5]).double()
    advantages = torch.tensor([1.0, 1.0, -1.0, 1.0])
    config = divergence_mask.Config()
    kept = divergence_mask.allowed(new.log(), old.log(), advantages, config)
    assert kept.tolist() == [True, False, False, True]  # the last one moves against its advantage
    batch = TokenBatch(torch.arange(4), old.log(), advantages, torch.ones(4))
    log_probs = new.log().requires_grad_()
    loss = divergence_mask.token_loss(log_probs, log_probs - old.log(), batch, config)
    slope = torch.autograd.grad(loss.sum(), log_probs)[0].tolist()
    assert slope == pytest.approx([-5.0, 0.0, 0.0, -0.625])
    low, high = divergence_mask.stopped(new.log(), batch, config)
    assert (low.tolist(), high.tolist()) == ([False, False, True, False], [False, True, False, False])
    # KL(0.5 || 0.8) of two points: 0.5 log(0.5/0.8) + 0.5 log(0.5/0.2) = 0.2231; KL(0.01 || 0.05) = 0.0247
    for threshold, expected in ((0.05, [True, False]), (0.23, [True, True]), (0.02, [False, False])):
        kl = divergence_mask.Config(divergence="kl", threshold_high=threshold)
        assert divergence_mask.allowed(new.log(), old.log(), advantages, kl)[:2].tolist() == expected


def test_a_whole_responses_weight_falls_off_on_both_sides() -> None:
    # One response of ratios 2 and 1.5: W = 3; one of a single token of ratio 0.5. phi = W^k exp(lambda (1 - W))
    old = torch.zeros(3, dtype=torch.float64)
    log_probs = torch.tensor([2.0, 1.5, 0.5], dtype=torch.float64).log().requires_grad_()
    batch = TokenBatch(torch.tensor([0, 0, 1]), old, torch.tensor([1.0, 1.0, -1.0]), torch.ones(3))
    loss = gamma_weight.token_loss(log_probs, log_probs - old, batch, gamma_weight.Config())
    slope = torch.autograd.grad(loss.sum(), log_probs)[0].tolist()
    positive, negative = 3**2 * math.exp(3 * (1 - 3)), 0.5**3 * math.exp(2 * (1 - 0.5))
    assert slope == pytest.approx([-positive, -positive, negative])


def test_the_mean_as_a_scale_is_one_over_the_pass_rate() -> None:
    # 1 of 4 right: (1 - 1/4) / (1/4) = 3 and -1; all wrong: nothing
    config = group.Config(scale="group_mean", epsilon=0.0)
    assert group.advantages(one_group([1, 0, 0, 0]), config).tolist() == pytest.approx([3, -1, -1, -1])
    assert group.advantages(one_group([0, 0, 0, 0]), config).tolist() == [0, 0, 0, 0]
    with pytest.raises(ConfigError, match=r"set algorithm\.reward\.wrong=0"):
        compose_run(["algorithm=max_rl", "algorithm.reward.wrong=-1.0"])


def test_the_most_uncertain_tokens() -> None:
    entropy = torch.tensor([0.1, 2.0, 0.5, 1.0, 0.2, 9.0])
    loss = torch.tensor([True] * 5 + [False])
    # of the five loss tokens the two of highest entropy: the 0.6 quantile of (0.1, 0.2, 0.5, 1, 2) is 0.5 + 0.4 * 0.5 = 0.7
    assert high_entropy_tokens(entropy, loss, 0.4).tolist() == [False, True, False, True, False, False]
    assert high_entropy_tokens(entropy, loss, 1.0).tolist() == loss.tolist()
    assert not high_entropy_tokens(entropy, ~loss & False, 0.4).any()


def test_a_response_that_the_policy_has_left_is_dropped_if_it_was_bad() -> None:
    # Mean log old - log new: (0.1 + 0.2) / 2 = 0.15 for the first two responses, 0 for the third; limit 0.12 nats
    config = copy.deepcopy(algorithm("off_policy_mask"))
    config.off_policy_mask_nats = 0.12
    old = torch.tensor([-1.0, -1.0, -1.0, -1.0, -1.0], dtype=torch.float64)
    new = torch.tensor([-1.1, -1.2, -1.1, -1.2, -1.0], dtype=torch.float64, requires_grad=True)
    advantages = torch.tensor([-1.0, -1.0, 1.0, 1.0, -1.0], dtype=torch.float64)
    batch = TokenBatch(torch.tensor([0, 0, 1, 1, 2]), old, advantages, torch.ones(5).double())
    loss, stats = Objective(config)(new, batch)
    slope = torch.autograd.grad(loss, new)[0]
    assert (slope == 0).tolist() == [True, True, False, False, False]
    assert stats.total("off_policy_masked") == 2
    batch.sampler_log_probs_N = old - 0.1  # the sampler was nearer: 0.05 on average
    loss, _ = Objective(config)(new, batch)
    assert (torch.autograd.grad(loss, new)[0] != 0).all()


# Log-probabilities -1, -2, -3, -2 (mean -2) and advantages 2, 0, -2, 4 (mean 1): covariances 1·1, 0·(-1), (-1)·(-3), 0·3.
COVARIANCES = [1.0, 0.0, 3.0, 0.0]


def covariance_tokens() -> tuple[torch.Tensor, torch.Tensor]:
    return torch.tensor([-1.0, -2.0, -3.0, -2.0]).double(), torch.tensor([2.0, 0.0, -2.0, 4.0]).double()


def test_the_covariance_of_tokens_by_hand() -> None:
    log_probs, advantages = covariance_tokens()
    assert token_covariance(log_probs, advantages).tolist() == pytest.approx(COVARIANCES)
    # the population covariance is their mean
    both = torch.stack([log_probs, advantages])
    assert float(torch.cov(both, correction=0)[0, 1]) == pytest.approx(sum(COVARIANCES) / 4)


@pytest.mark.parametrize(
    ("fraction", "low", "high", "moved", "expected"),
    [
        (1.0, 0.5, 5.0, 0.0, [True, False, True, False]),  # both of the band
        (0.25, 0.5, 5.0, 0.0, [False, False, True, False]),  # one of four: the smaller draw
        (1e-6, 0.5, 5.0, 0.0, [False, False, True, False]),  # at least one
        (1.0, 1.0, 5.0, 0.0, [False, False, True, False]),  # the band's ends lie outside
        (1.0, 0.5, 3.0, 0.0, [True, False, False, False]),
        (1.0, 3.5, 5.0, 0.0, [False] * 4),
        (1.0, 0.5, 5.0, 0.8, [False, False, True, False]),  # ratio e^0.8 > 2 with A > 0 is clipped already
    ],
)
def test_clip_cov_chooses_in_the_band(
    fraction: float, low: float, high: float, moved: float, expected: list[bool]
) -> None:
    log_probs, advantages = covariance_tokens()
    old = log_probs - moved
    draws = torch.tensor([0.7, 0.1, 0.4, 0.2]).double()
    config = clip_cov.Config(fraction=fraction, low=low, high=high)
    assert clip_cov.select(log_probs, old, advantages, draws, config).tolist() == expected


def test_clip_cov_takes_the_chosen_tokens_out_of_the_gradient() -> None:
    log_probs, log_ratio, batch = tokens([1.0, 1.5, 2.5, 2.5], [1, 1, 1, -1])
    log_ratio.requires_grad_()
    batch.selected_N = torch.tensor([False, True, False, False])
    config = clip_cov.Config()
    loss = clip_cov.token_loss(log_probs, log_ratio, batch, config)
    assert loss.tolist() == pytest.approx([-1.0, 0.0, -2.0, 2.5])
    assert torch.autograd.grad(loss.sum(), log_ratio)[0].tolist() == pytest.approx([-1.0, 0.0, 0.0, 2.5])
    with pytest.raises(ValueError, match="selected_N"):
        clip_cov.token_loss(log_probs, log_ratio, tokens([1.0] * 4, [1] * 4)[2], config)
    with pytest.raises(ConfigError, match=r"algorithm\.surrogate\.low=5"):
        clip_cov.Config(low=5.0)


def test_kl_cov_penalises_the_largest_covariances() -> None:
    log_probs, advantages = covariance_tokens()
    for fraction, expected in ((0.25, [2]), (0.5, [0, 2]), (0.75, [0, 1, 2]), (1e-6, [2])):
        config = kl_cov.Config(fraction=fraction)
        chosen = kl_cov.select(log_probs, log_probs, advantages, advantages, config)
        assert chosen.nonzero()[:, 0].tolist() == expected  # of the two zeros the earlier
    _, log_ratio, batch = tokens([2.0, 0.5, 2.0], [1, -1, 0])
    log_ratio.requires_grad_()
    batch.selected_N = torch.tensor([True, True, True])
    loss = kl_cov.token_loss(log_ratio, log_ratio, batch, kl_cov.Config(coefficient=0.5))
    half = 0.5 * math.log(2)
    assert loss.tolist() == pytest.approx([-2 + half, 0.5 + half, half])
    # -ρA ± 0.5: above the old policy it pulls down, below it up, with or without an advantage
    assert torch.autograd.grad(loss.sum(), log_ratio)[0].tolist() == pytest.approx([-1.5, 0.0, 0.5])
    assert not Objective(algorithm("kl_cov")).skips_zero_advantage
    assert Objective(algorithm("clip_cov")).skips_zero_advantage


LENGTHS, GROUPS = torch.tensor([2, 4, 1, 3]), torch.tensor([0, 0, 1, 1])


@pytest.mark.parametrize(
    ("kind", "settings", "weights"),
    [
        ("response_mean", {}, [1 / 8, 1 / 16, 1 / 4, 1 / 12]),
        ("group_token_mean", {}, [1 / 12, 1 / 12, 1 / 8, 1 / 8]),  # 1/(6*2), 1/(4*2)
        ("batch_token_mean", {}, [1 / 10] * 4),
        ("constant_sum", {"constant_tokens": 5.0}, [1 / 20] * 4),
        ("token_sum", {}, [1.0] * 4),
        # at most 5 loss tokens: (2), (4, 1), (3) -> three micro-batches of 2, 5 and 3 tokens
        ("microbatch_token_mean", {"micro_batch_tokens": 5}, [1 / 6, 1 / 15, 1 / 15, 1 / 9]),
    ],
)
def test_the_denominators(kind: str, settings: dict[str, Any], weights: list[float]) -> None:
    module = member("harness.objective.aggregation", kind)
    config = module.Config(**settings)
    micro = module.micro_batches(LENGTHS, config) if hasattr(module, "micro_batches") else 1
    counts = TokenCounts(responses=4, groups=2, tokens=10, micro_batches=micro)
    assert module.response_weights(LENGTHS, GROUPS, counts, config).tolist() == pytest.approx(weights)


def test_masked_responses_open_no_micro_batch() -> None:
    module = member("harness.objective.aggregation", "microbatch_token_mean")
    config, lengths = module.Config(micro_batch_tokens=128), torch.tensor([10, 200, 0, 0])
    assert module.micro_batches(lengths, config) == 2
    counts = TokenCounts(responses=4, groups=2, tokens=210, micro_batches=2)
    weights = module.response_weights(lengths, GROUPS, counts, config)
    assert weights[:2].tolist() == pytest.approx([1 / 20, 1 / 400])


def test_positive_example_loss_has_its_own_denominator() -> None:
    # Right responses have 2 and 3 tokens: each of their tokens weighs 1/5, whatever the policy loss divides by.
    objective = Objective(algorithm("vapo"))
    right = torch.tensor([True, False, False, True])
    counts = objective.count(LENGTHS, GROUPS, right)
    weights = objective.likelihood_weights(LENGTHS, right, counts)
    assert weights is not None
    assert weights.tolist() == pytest.approx([1 / 5, 0, 0, 1 / 5])

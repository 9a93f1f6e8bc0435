"""Values worked out by hand: rewards, every estimator of advantages, and what a loss is divided by."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import pytest
import torch
from objective_support import algorithm, one_group

from harness.configuration.compose import compose_run
from harness.configuration.identity import arm_id
from harness.configuration.registry import member
from harness.configuration.sections import AlgorithmConfig, OverlongConfig, RewardConfig
from harness.objective.advantage import Advantage, best_worst, decoupled, dropout, gae, group, imitation, return_to_go
from harness.objective.objective import Objective
from harness.objective.types import TokenCounts
from harness.reward.shaping import reward_components, shaped_rewards

EXACT, LEFT_OUT = {"epsilon": 0.0}, {"baseline": "leave_one_out"}
LOSER, RIGHT_OF_16 = [1.1] * 7 + [0.0], {right: [1.0] * right + [0.0] * (16 - right) for right in (1, 8, 15)}
TOKENS = return_to_go.Config(ddof=0, epsilon=0.0)
# Estimator, rewards, lengths (1 each where none are given), and advantages a token, all or the first of them.
ADVANTAGES: list[tuple[Advantage, list[float], list[int] | None, list[float]]] = [
    # 7 of 8 right: mu = 0.9625, sigma = 0.3638; the loser gets (0 - 0.9625) / 0.3638 = -2.65, each winner a seventh of it
    (group.Config(ddof=0, **EXACT), LOSER, None, [0.3780] * 7 + [-2.6458]),
    # 3 of 4 right: sigma = sqrt(3)/4, loser -3/4 / (sqrt(3)/4) = -sqrt(3); sample sigma = 1/2: -1.5
    (group.Config(ddof=0, **EXACT), [0, 1, 1, 1], None, [-math.sqrt(3)]),
    (group.Config(ddof=1, **EXACT), [0, 1, 1, 1], None, [-1.5, 0.5, 0.5, 0.5]),
    # Pass rate p: sigma = sqrt(p(1-p)), so x4.131 relative to centred at 1/16 and at 15/16, x2 at 1/2.
    *((group.Config(ddof=0, **EXACT), RIGHT_OF_16[n], None, [(1 - n / 16) * weight]) for n, weight in ((1, 4.1312), (15, 4.1312), (8, 2))),
    # r_1 - mean(0, 0.5, 1) = 1 - 0.5: 4/3 of Dr.GRPO's
    (group.Config(scale="none", **LEFT_OUT), [1.0, 0.0, 0.5, 1.0], None, [0.5, 0 - 2.5 / 3, 0.5 - 2 / 3, 0.5]),
    (group.Config(scale="none"), [1.0, 0.0, 0.5, 1.0], None, [3 / 4 * 0.5, -3 / 4 * 2.5 / 3, -3 / 4 / 6, 3 / 4 * 0.5]),
    # 1 of 4 right: (1 - 1/4) / (1/4) = 3 and -1; all wrong: nothing
    (group.Config(scale="group_mean", **EXACT), [1, 0, 0, 0], None, [3, -1, -1, -1]),
    (group.Config(scale="group_mean", **EXACT), [0, 0, 0, 0], None, [0, 0, 0, 0]),
    # (3 * 1 + 1 * 0) / 4 = 3/4, for three tokens and one
    (group.Config(baseline="length_weighted", scale="none"), [1.0, 0.0], [3, 1], [0.25] * 3 + [-0.75]),
    (group.Config(baseline="length_weighted", scale="none"), [1.0, 1.0], [3, 1], [0.0] * 4),
    # SignBalance: one, and minus the odds
    *((group.Config(scale="group_headroom", **EXACT), [1.0] * 2 + [wrong] * 6, None, [1, 1] + [-2 / 6] * 6) for wrong in (0.0, -1.0)),
    # GPG, one right of four: centred 3/4 and -1/4, times 4
    (group.Config(scale="nonzero_share"), [1.0, 0, 0, 0], None, [3, -1, -1, -1]),
    (best_worst.Config(), [0.3, 1, 0, 1], None, [0, 1, -1, 0]),
    (best_worst.Config(), [1, 1, 1], None, [0, 0, 0]),
    (imitation.Config(), [1.0, -1.0], None, [1, 0]),
    (imitation.Config(imitate="all"), [1.0, -1.0], None, [1, 1]),
    # Returns 1 (one token) and 0 (three). Tokens: mean 1/4, population variance 3/16; sequences: mean 1/2, variance 1/4.
    (TOKENS, [1.0, 0.0], [1, 3], [0.75 / math.sqrt(3 / 16)] + [-0.25 / math.sqrt(3 / 16)] * 3),
    (dataclasses.replace(TOKENS, whiten_over="sequences"), [1.0, 0.0], [1, 3], [1, -1, -1, -1]),
]  # fmt: skip


@pytest.mark.parametrize(("estimator", "rewards", "lengths", "expected"), ADVANTAGES)
def test_advantages_by_hand(
    estimator: Advantage, rewards: list[float], lengths: list[int] | None, expected: list[float]
) -> None:
    found = estimator.advantages(one_group(rewards, lengths)).tolist()
    assert found[: len(expected)] == pytest.approx(expected, abs=1e-4)


def test_excluded_responses_leave_the_statistics() -> None:
    counted = torch.tensor([[True, True, True, False]])
    batch = one_group([1.0, 0.0, 0.5, 100.0], counted=counted)
    # mean of (1, 0, 0.5) = 0.5
    assert group.Config(scale="none").advantages(batch).tolist() == [0.5, -0.5, 0.0, 0.0]


def test_gae_by_hand() -> None:
    # Three tokens, reward 1 at the end, V = (0.2, 0.5, 0.4), gamma 1, lambda 0.5:
    # delta = (0.5 - 0.2, 0.4 - 0.5, 1 - 0.4) = (0.3, -0.1, 0.6)
    # A_3 = 0.6; A_2 = -0.1 + 0.5 * 0.6 = 0.2; A_1 = 0.3 + 0.5 * 0.2 = 0.4
    batch = one_group([1.0], [3], values_N=torch.tensor([0.2, 0.5, 0.4], dtype=torch.float64))
    config = gae.Config(lambda_policy=0.5, lambda_value=1.0, whiten_over="none")
    assert config.advantages(batch).tolist() == pytest.approx([0.4, 0.2, 0.6])
    # At lambda 1 the target is the return itself: 1 at every token.
    assert config.value_targets(batch).tolist() == pytest.approx([1.0, 1.0, 1.0])


def test_gae_pays_the_kl_token_by_token() -> None:
    # No values, lambda 1: A_t is the reward to go, 1 minus the penalties from t on.
    batch = one_group([1.0], [3], values_N=torch.zeros(3), kl_penalty_N=torch.tensor([0.1, 0.2, 0.3]))
    config = gae.Config(lambda_policy=1.0, whiten_over="none")
    assert config.advantages(batch).tolist() == pytest.approx([0.4, 0.5, 0.7])
    to_go = return_to_go.penalty_to_go(batch).tolist()
    assert to_go == pytest.approx([0.6, 0.5, 0.3])


@pytest.mark.parametrize("coefficient", [0.04, 0.001])
def test_a_small_kl_term_in_the_reward_is_all_that_a_dead_group_has(coefficient: float) -> None:
    # KL of 0.1, 0.2, 0.3, 0.2 nats: deviations (0.1, 0, -0.1, 0), sample sigma sqrt(0.02 / 3), so advantages of 1.22 at any coefficient
    rewards = [1.0 - coefficient * kl for kl in (0.1, 0.2, 0.3, 0.2)]
    found = group.Config().advantages(one_group(rewards)).tolist()
    assert found == pytest.approx([1.2247, 0.0, -1.2247, 0.0], abs=0.02)


@pytest.mark.parametrize(("length", "expected"), [(1, 0.0), (20, 0.0), (100, 0.8), (1000, 0.98), (10000, 0.998)])
def test_length_adaptive_lambda_is_clamped(length: int, expected: float) -> None:
    # 1 - 1/(0.05 l): -19 at l = 1 (clamped to 0), 0 at 20, 0.8 at 100
    batch = one_group([1.0], [length])
    lambdas = gae.Config(length_adaptive_alpha=0.05).policy_lambdas(batch)
    assert lambdas.tolist() == pytest.approx([expected])


def test_a_truncated_response_may_earn_the_wrong_reward() -> None:
    # right and whole, right but cut off, wrong with an answer, cut off with an answer: rewards 1 and 0, 0.1 for an answer
    correct = torch.tensor([True, True, False, False])
    answered, truncated = torch.ones(4, dtype=torch.bool), torch.tensor([False, True, False, True])
    reward = RewardConfig(correct=1.0, wrong=0.0, format_credit=0.1)
    rest = (torch.tensor([5, 8, 5, 8]), 8, reward)
    for policy, expected in (("score", [1.1, 1.1, 0.1, 0.1]), ("wrong", [1.1, 0.0, 0.1, 0.0])):
        overlong = OverlongConfig(policy=policy)
        parts = reward_components(correct, answered, *rest, overlong, truncated)
        assert parts.sum(-1).tolist() == pytest.approx(expected)
        assert shaped_rewards(parts, overlong).tolist() == pytest.approx(expected)


def test_decoupled_rewards_keep_combinations_apart() -> None:
    # Two components; the sums (1, 1, 0, 2) make GRPO treat responses 1 and 2 alike. Component z-scores (population):
    # outcome (1, 0, 0, 1): mean 1/2, sigma 1/2 -> (1, -1, -1, 1); format (0, 1, 0, 1) -> (-1, 1, -1, 1); weights 1 and 0.5.
    components = torch.tensor([[[1.0, 0, 0], [0, 1, 0], [0, 0, 0], [1, 1, 0]]], dtype=torch.float64)
    batch = one_group([1.0, 1.0, 0.0, 2.0], components_PGC=components)
    config = decoupled.Config(format_weight=0.5, ddof=0, epsilon=1e-12, batch_normalise=False)
    assert config.advantages(batch).tolist() == pytest.approx([0.5, -0.5, -1.5, 1.5])


@pytest.mark.parametrize(
    ("sign", "expected"), [("both", [1.0, -1.0]), ("positive", [1.0, 0.0]), ("negative", [0.0, -1.0])]
)
def test_advantages_of_one_sign(sign: str, expected: list[float]) -> None:
    config = AlgorithmConfig(advantage=group.Config(scale="none"), advantage_sign=sign)
    assert Objective(config).advantages(one_group([1.0, -1.0])).tolist() == expected


def test_likely_good_responses_are_dropped_and_the_rest_is_centred() -> None:
    # A = 1/2, 1/2, -1/2, -1/2; s = 0.1, 0.5, 0.4, 0.6, mean 0.4; h = -0.15, 0.05, 0, -0.1: out go the first and the last, which sum to
    # less than 0 with the rest; the last comes back, since A < 0. The first response has two tokens of mean log-probability -0.1.
    log_probs = torch.tensor([-0.05, -0.15, -0.5, -0.4, -0.6], dtype=torch.float64)
    config = dropout.Config(scale="none")
    found = config.advantages(one_group([1.0, 1.0, 0.0, 0.0], [2, 1, 1, 1], old_logprobs_N=log_probs)).tolist()
    w = [math.exp(-0.5), math.exp(-0.4), math.exp(-0.6)]
    mean = (w[0] - w[1] - w[2]) / 2 / sum(w)
    assert found == pytest.approx([0.0, 0.0, 0.5 - mean, -0.5 - mean, -0.5 - mean])
    # A lone right answer that is likelier than the mean goes, and equal advantages centre to nothing.
    alone = config.advantages(one_group([1.0, 0.0, 0.0], old_logprobs_N=torch.tensor([-0.1, -0.5, -0.6])))
    assert alone.tolist() == pytest.approx([0.0, 0.0, 0.0], abs=1e-12)
    # One that is not likely stays; the recentring moves all alike.
    unlikely = config.advantages(one_group([1.0, 0.0, 0.0], old_logprobs_N=torch.tensor([-0.9, -0.5, -0.6])))
    assert unlikely[0] - unlikely[1] == pytest.approx(1.0)


@pytest.mark.parametrize("engine", ["native", "transformers", "vllm"])
def test_a_head_needs_no_small_vocabulary(engine: str) -> None:
    large = ["model=pretrained", "model.path=Qwen/Qwen2.5-0.5B", f"model.revision={'0' * 40}"]
    for head, likeliest in ((0, 128), (8, 8)):
        config = compose_run(
            ["algorithm=score_centering", f"algorithm.surrogate.head={head}", f"engine={engine}", *large]
        )
        assert config.algorithm.surrogate.likeliest == likeliest


def test_a_head_is_part_of_a_runs_identity() -> None:
    heads = (compose_run(["algorithm=score_centering", f"algorithm.surrogate.head={head}"]) for head in (0, 8, 128))
    assert len(set(map(arm_id, heads))) == 3


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
        # three responses each: 7 tokens, and the last alone with 3
        ("microbatch_token_mean", {"micro_batch_responses": 3}, [1 / 14, 1 / 14, 1 / 14, 1 / 6]),
    ],
)
def test_the_denominators(kind: str, settings: dict[str, Any], weights: list[float]) -> None:
    module = member("harness.objective.aggregation", kind)
    config = module.Config(**settings)
    counts = TokenCounts(responses=4, groups=2, tokens=10)
    assert config.response_weights(LENGTHS, GROUPS, counts).tolist() == pytest.approx(weights)


def test_masked_responses_open_no_micro_batch() -> None:
    module = member("harness.objective.aggregation", "microbatch_token_mean")
    config, lengths = module.Config(micro_batch_tokens=128), torch.tensor([10, 200, 0, 0])
    counts = TokenCounts(responses=4, groups=2, tokens=210)
    weights = config.response_weights(lengths, GROUPS, counts)
    assert weights[:2].tolist() == pytest.approx([1 / 20, 1 / 400])


def test_positive_example_loss_has_its_own_denominator() -> None:
    # Right responses have 2 and 3 tokens: each of their tokens weighs 1/5, whatever the policy loss divides by.
    objective = Objective(algorithm("vapo"))
    right = torch.tensor([True, False, False, True])
    counts = objective.count(LENGTHS, GROUPS, right)
    weights = objective.likelihood_weights(LENGTHS, right, counts)
    assert weights is not None
    assert weights.tolist() == pytest.approx([1 / 5, 0, 0, 1 / 5])

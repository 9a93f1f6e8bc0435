"""Surrogate losses and their slopes, worked out by hand."""

from __future__ import annotations

import math

import pytest
import torch
from objective_support import algorithm, responses, tokens

from harness.objective.objective import Objective
from harness.objective.surrogate import (
    best_worst_dpo,
    clipped_is,
    divergence_mask,
    gamma_weight,
    geometric_mean,
    policy_gradient,
    ppo_clip,
    quadratic,
    score_centering,
    soft_gate,
)


def test_clip_higher_by_hand() -> None:
    # eps 0.2 / 0.28. A > 0: min(rho, 1.28) A; A < 0: max(rho, 0.8) A.
    log_probs, log_ratio, batch = tokens([1.25, 1.3, 0.7, 1.5, 0.7], [1, 1, 1, -1, -1])
    config = ppo_clip.Config(clip_low=0.2, clip_high=0.28)
    assert config.token_loss(log_probs, log_ratio, batch).tolist() == pytest.approx([-1.25, -1.28, -0.7, 1.5, 0.8])
    low, high = config.clipped(log_probs, log_ratio.exp(), batch)
    assert (low.tolist(), high.tolist()) == ([False] * 4 + [True], [False, True] + [False] * 3)


def test_dual_clip_bounds_negative_advantages() -> None:
    log_probs, log_ratio, batch = tokens([5.0, 2.0, 5.0], [-1, -1, 1])
    loss = ppo_clip.Config(dual_clip=3.0).token_loss(log_probs, log_ratio, batch)
    assert loss.tolist() == pytest.approx([3.0, 2.0, -1.2])


def test_bounded_weight_keeps_every_tokens_gradient() -> None:
    log_probs, _, batch = tokens([2.0, 0.5], [1, -1])
    log_probs.requires_grad_()
    config = clipped_is.Config(cap_min=0.0, cap_max=1.28)
    loss = config.token_loss(log_probs, log_probs, batch)
    # weights min(2, 1.28) = 1.28 and 0.5; gradient -w A
    assert torch.autograd.grad(loss.sum(), log_probs)[0].tolist() == pytest.approx([-1.28, 0.5])


def test_policy_gradient_with_and_without_the_ratio() -> None:
    log_probs, log_ratio, batch = tokens([2.0, 0.5], [1, -1])
    assert policy_gradient.Config().token_loss(log_probs, log_ratio, batch).tolist() == [-2.0, 0.5]
    plain = policy_gradient.Config(importance_weighted=False).token_loss(log_probs, log_ratio, batch)
    assert plain.tolist() == pytest.approx([-math.log(2), -math.log(2)])


def test_sequence_ratio_is_the_geometric_mean() -> None:
    # Two tokens with log-ratios 0.2 and 0.4, one with -0.1: exp(0.3) for both tokens of the first, exp(-0.1).
    objective = Objective(algorithm("gspo"))
    batch = responses([2, 1], torch.zeros(3), torch.ones(3))
    assert objective.log_ratio(torch.tensor([0.2, 0.4, -0.1]), batch).tolist() == pytest.approx([0.3, 0.3, -0.1])


@pytest.mark.parametrize(("form", "margin"), [("sum", 0.3 + 0.5 - (-0.2)), ("mean", 0.4 - (-0.2))])
def test_dpo_by_hand(form: str, margin: float) -> None:
    # Best: two tokens with log-ratios 0.3 and 0.5; worst: one with -0.2; beta 2. Loss -log sigmoid(2 margin), on the best's tokens.
    gain = torch.tensor([0.3, 0.5, -0.2, 9.0], dtype=torch.float64)
    advantages = torch.tensor([1.0, 1.0, -1.0, 0.0])
    batch = responses([2, 1, 1], torch.zeros(4), advantages, ref_logprobs_N=torch.zeros(4))
    loss = best_worst_dpo.Config(beta=2.0, log_prob=form).token_loss(gain, gain, batch)
    value = math.log(1 + math.exp(-2 * margin))
    assert loss.tolist() == pytest.approx([value, value, 0, 0])


def test_the_soft_gate_by_hand() -> None:
    # tau 1 and 1.05: at ratio 1 the gate is 4/tau * 1/2 = 2/tau; at 2 it is 4 sigmoid(1) and 4/1.05 sigmoid(1.05)
    log_probs, log_ratio, batch = tokens([1.0, 2.0, 2.0], [1, 1, -2])
    log_ratio.requires_grad_()
    loss = soft_gate.Config().token_loss(log_probs, log_ratio, batch)
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
    batch = responses([2], torch.zeros(2), torch.full((2,), advantage))
    config = geometric_mean.Config()
    loss = config.token_loss(log_ratio, log_ratio, batch)
    assert loss.tolist() == pytest.approx([-advantage * math.exp(mean)] * 2)
    low, high = config.clipped(log_ratio, log_ratio.detach().exp(), batch)
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
    kept = config.gradient_mask(new.log(), old.log(), advantages)
    assert kept.tolist() == [True, False, False, True]  # the last one moves against its advantage
    undirected = divergence_mask.Config(directed=False)  # which stops that, too
    assert undirected.gradient_mask(new.log(), old.log(), advantages).tolist() == [True, False, False, False]
    batch = responses([1] * 4, old.log(), advantages)
    log_probs = new.log().requires_grad_()
    loss = config.token_loss(log_probs, log_probs - old.log(), batch)
    slope = torch.autograd.grad(loss.sum(), log_probs)[0].tolist()
    assert slope == pytest.approx([-5.0, 0.0, 0.0, -0.625])
    low, high = config.clipped(new.log(), new / old, batch)
    assert (low.tolist(), high.tolist()) == ([False, False, True, False], [False, True, False, False])
    # KL(0.5 || 0.8) of two points: 0.5 log(0.5/0.8) + 0.5 log(0.5/0.2) = 0.2231; KL(0.01 || 0.05) = 0.0247
    for threshold, expected in ((0.05, [True, False]), (0.23, [True, True]), (0.02, [False, False])):
        kl = divergence_mask.Config(divergence="kl", threshold_high=threshold)
        assert kl.gradient_mask(new.log(), old.log(), advantages)[:2].tolist() == expected


def test_a_whole_responses_weight_falls_off_on_both_sides() -> None:
    # One response of ratios 2 and 1.5: W = 3; one of a single token of ratio 0.5. phi = W^k exp(lambda (1 - W))
    old = torch.zeros(3, dtype=torch.float64)
    log_probs = torch.tensor([2.0, 1.5, 0.5], dtype=torch.float64).log().requires_grad_()
    batch = responses([2, 1], old, torch.tensor([1.0, 1.0, -1.0]))
    loss = gamma_weight.Config().token_loss(log_probs, log_probs - old, batch)
    slope = torch.autograd.grad(loss.sum(), log_probs)[0].tolist()
    positive, negative = 3**2 * math.exp(3 * (1 - 3)), 0.5**3 * math.exp(2 * (1 - 0.5))
    assert slope == pytest.approx([-positive, -positive, negative])


def test_the_quadratic_pull_by_hand() -> None:
    # ratio e^0.5, A 2, beta 0.1: 0.05 * 0.25 - 2 * 0.5; slope 0.1 * 0.5 - 2, and 0.1 * 0.5 without advantage
    log_probs, _, batch = tokens([math.exp(0.5)] * 2, [2, 0])
    log_probs.requires_grad_()
    loss = quadratic.Config(coefficient=0.1).token_loss(log_probs, log_probs - batch.old_logprobs_N, batch)
    assert loss.tolist() == pytest.approx([0.0125 - 1.0, 0.0125])
    assert torch.autograd.grad(loss.sum(), log_probs)[0].tolist() == pytest.approx([0.05 - 2, 0.05])


def centred_slopes(p: list[float], q: list[float], **settings: object) -> torch.Tensor:
    """The slope in the trainer's logits for each token that might have been sampled, at A = 1, [V, V]; q falls."""
    number = len(p)
    logits = torch.tensor(p, dtype=torch.float64).log().requires_grad_()
    p_NV = logits.log_softmax(-1).expand(number, -1)
    q_NV = torch.tensor(q, dtype=torch.float64).log().expand(number, -1)
    more = {"sampler_logprobs_NK": q_NV, "logprobs_NK": p_NV}
    batch = responses([1] * number, q_NV[0], torch.ones(number).double(), **more)
    loss_N = score_centering.Config(**settings).token_loss(p_NV[0], p_NV[0] - q_NV[0], batch)  # type: ignore[arg-type]
    return torch.stack([torch.autograd.grad(loss, logits, retain_graph=True)[0] for loss in loss_N])


def test_score_centering_by_hand() -> None:
    # d log p_a = e_a - p, and sum_v q_v d log p_v = q - p: so the slope is -(e_a - q), whatever p is
    slopes = centred_slopes([0.8, 0.2], [0.5, 0.5])
    assert slopes.tolist() == [pytest.approx([-0.5, 0.5]), pytest.approx([0.5, -0.5])]
    # weights p / q = 1.6 and 0.4, neither cut: they sum to sum_v p_v d log p_v = 0, and the slope is -w (e_a - p)
    slopes = centred_slopes([0.8, 0.2], [0.5, 0.5], weight="truncated")
    assert slopes.tolist() == [pytest.approx([-1.6 * 0.2, 1.6 * 0.2]), pytest.approx([0.4 * 0.8, -0.4 * 0.8])]


@pytest.mark.parametrize("weight", ["none", "truncated", "masked"])
def test_a_constant_reward_does_not_move_a_centred_policy(weight: str) -> None:
    # the mean over the sampler of the slopes at one advantage is 0; without the centring it is -sum_v q_v w_v d log p_v
    q, p = [0.6, 0.3, 0.08, 0.02], [0.1, 0.3, 0.2, 0.4]
    mean = torch.tensor(q, dtype=torch.float64) @ centred_slopes(p, q, weight=weight, floor=0.5, cap=5.0)
    assert mean.tolist() == pytest.approx([0.0] * 4, abs=1e-12)

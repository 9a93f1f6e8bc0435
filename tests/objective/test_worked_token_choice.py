"""Which tokens an update trains, worked out by hand: by covariance, by entropy, by how far the policy has moved."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from objective_support import algorithm, responses, tokens

from harness.objective.correction import high_entropy_tokens, token_covariance
from harness.objective.objective import Objective
from harness.objective.surrogate import clip_cov, kl_cov


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
    batch = responses([2, 2, 1], old, advantages)
    loss, stats = Objective(config)(new, batch)
    slope = torch.autograd.grad(loss, new)[0]
    assert (slope == 0).tolist() == [True, True, False, False, False]
    assert stats.total("off_policy_masked") == 2
    batch.sampler_logprobs_N = old - 0.1  # the sampler was nearer: 0.05 on average
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
    assert config.select(log_probs, old, advantages, draws).tolist() == expected


def test_clip_cov_takes_the_chosen_tokens_out_of_the_gradient() -> None:
    log_probs, log_ratio, batch = tokens([1.0, 1.5, 2.5, 2.5], [1, 1, 1, -1])
    log_ratio.requires_grad_()
    batch.selected_N = torch.tensor([False, True, False, False])
    config = clip_cov.Config()
    loss = config.token_loss(log_probs, log_ratio, batch)
    assert loss.tolist() == pytest.approx([-1.0, 0.0, -2.0, 2.5])
    assert torch.autograd.grad(loss.sum(), log_ratio)[0].tolist() == pytest.approx([-1.0, 0.0, 0.0, 2.5])


def test_kl_cov_penalises_the_largest_covariances() -> None:
    log_probs, advantages = covariance_tokens()
    for fraction, expected in ((0.25, [2]), (0.5, [0, 2]), (0.75, [0, 1, 2]), (1e-6, [2])):
        config = kl_cov.Config(fraction=fraction)
        chosen = config.select(log_probs, log_probs, advantages, advantages)
        assert chosen.nonzero()[:, 0].tolist() == expected  # of the two zeros the earlier
    _, log_ratio, batch = tokens([2.0, 0.5, 2.0], [1, -1, 0])
    log_ratio.requires_grad_()
    batch.selected_N = torch.tensor([True, True, True])
    loss = kl_cov.Config(coefficient=0.5).token_loss(log_ratio, log_ratio, batch)
    half = 0.5 * math.log(2)
    assert loss.tolist() == pytest.approx([-2 + half, 0.5 + half, half])
    # -ρA ± 0.5: above the old policy it pulls down, below it up, with or without an advantage
    assert torch.autograd.grad(loss.sum(), log_ratio)[0].tolist() == pytest.approx([-1.5, 0.0, 0.5])
    assert not Objective(algorithm("kl_cov")).skips_zero_advantage
    assert Objective(algorithm("clip_cov")).skips_zero_advantage

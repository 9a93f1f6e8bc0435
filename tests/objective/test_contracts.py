"""What every member of a family must satisfy; a new member is tested by being there."""

from __future__ import annotations

import copy
import math

import pytest
import torch
from contracts import CONTRACTS
from objective_support import Sample, algorithm, responses, sample

from harness.configuration.error import ConfigError
from harness.configuration.registry import kinds, member
from harness.objective.kl import k3_ratio
from harness.objective.objective import Objective
from harness.objective.types import RolloutBatch

ADVANTAGE, SURROGATE = "harness.objective.advantage", "harness.objective.surrogate"
AGGREGATION, KL = "harness.objective.aggregation", "harness.objective.kl"
WEIGHTING = "harness.objective.weighting"


def batch_of(data: Sample) -> RolloutBatch:
    return data.batch(Objective(algorithm("grpo")))


def advantages(kind: str, batch: RolloutBatch, **settings: object) -> torch.Tensor:
    module = member(ADVANTAGE, kind)
    return module.Config(**settings).advantages(batch)


@pytest.mark.parametrize(
    ("family", "kind"),
    [(family, kind) for family in (ADVANTAGE, SURROGATE, AGGREGATION, KL, WEIGHTING) for kind in sorted(kinds(family))],
)
def test_every_member_keeps_its_contract(family: str, kind: str) -> None:
    assert list(CONTRACTS[family.rpartition(".")[2]](member(family, kind))) == []


@pytest.mark.parametrize(
    ("family", "kind", "setting"),
    [
        (ADVANTAGE, "decoupled", {"epsilon": -1.0}),
        (ADVANTAGE, "gae", {"epsilon": -1.0}),
        (ADVANTAGE, "return_to_go", {"epsilon": -1.0}),
        (SURROGATE, "clip_cov", {"low": math.nan}),
        (SURROGATE, "ppo_clip", {"dual_clip": math.nan}),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(family: str, kind: str, setting: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=r"epsilon=-1\.0|=nan"):
        member(family, kind).Config(**setting)


@pytest.mark.parametrize(
    "settings",
    [
        {"epsilon": 0.0},
        {"baseline": "none", "scale": "group_std"},
        {"baseline": "none", "scale": "batch_std"},
        {"scale": "batch_std", "epsilon": 0.0},
    ],
)
def test_nothing_is_divided_by_a_spread_of_zero(settings: dict[str, object]) -> None:
    data = sample(seed=7)
    data.rewards_PG[:] = 1.0
    assert (advantages("group", batch_of(data), **settings) == 0).all()


def test_separate_rewards_without_spread_give_zero_also_without_epsilon() -> None:
    batch = batch_of(sample(seed=8))
    batch.components_PGC[1] = 1.0  # type: ignore[index]
    result = advantages("decoupled", batch, epsilon=0.0)
    assert result.isfinite().all()
    assert (result[batch.response_N // 4 == 1] == 0).all()


@pytest.mark.parametrize("kind", sorted(kinds(KL)))
def test_a_kl_estimate_averages_to_the_divergence(kind: str) -> None:
    estimator = member(KL, kind).Config()
    policy = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    reference = torch.tensor([0.48, 0.33, 0.19], dtype=torch.float64)
    expected = float((policy * (policy / reference).log()).sum())
    estimate = float((policy * estimator.estimate(policy.log(), reference.log())).sum())
    # k1 and k3 are unbiased; k2 is so to second order in the log-ratio
    assert estimate == pytest.approx(expected, rel=1e-9 if kind != "k2" else 0.1)


def test_k3_times_the_ratio_is_unbiased_off_policy_in_value_and_gradient() -> None:
    # Tokens from another policy mu: the sum over mu of k3 misses KL(pi || ref) and its gradient; weighted by pi/mu it is both.
    reference = torch.tensor([0.48, 0.33, 0.19], dtype=torch.float64)
    mu = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)
    theta = torch.tensor([0.3, -0.2, 0.1], dtype=torch.float64, requires_grad=True)
    policy = theta.softmax(0)
    exact = (policy * (policy.log() - reference.log())).sum()
    (slope,) = torch.autograd.grad(exact, theta)
    found = {}
    for kind in ("k3", "k3_ratio"):
        config = copy.deepcopy(algorithm("grpo"))
        config.kl = member(KL, kind).Config(coefficient=1.0)
        none = torch.zeros(3, dtype=torch.float64)
        # The weights are the expectation over tokens of mu.
        batch = responses([1] * 3, mu.log(), none, weights_R=mu, ref_logprobs_N=reference.log())
        loss, _ = Objective(config)(theta.log_softmax(0), batch)
        found[kind] = (float(loss.detach()), torch.autograd.grad(loss, theta)[0])
    assert found["k3_ratio"][0] == pytest.approx(float(exact.detach()))
    torch.testing.assert_close(found["k3_ratio"][1], slope)
    assert found["k3"][0] != pytest.approx(float(exact.detach()), rel=0.01)
    assert not torch.allclose(found["k3"][1], slope, rtol=0.01)


def test_a_ratio_weighted_kl_belongs_in_the_loss() -> None:
    with pytest.raises(ConfigError, match=r"use algorithm\.kl=k3"):
        k3_ratio.Config(coefficient=0.1, placement="reward")


def test_only_k2_has_the_gradient_of_the_divergence() -> None:
    reference = torch.tensor([0.48, 0.33, 0.19], dtype=torch.float64)
    theta = torch.tensor([0.3, -0.2, 0.1], dtype=torch.float64, requires_grad=True)
    policy = theta.softmax(0)
    (exact,) = torch.autograd.grad((policy * (policy / reference).log()).sum(), theta)
    gradients = {}
    for kind in kinds(KL):
        # The expectation over sampled tokens of the estimator's gradient: samples are not differentiated through.
        theta = torch.tensor([0.3, -0.2, 0.1], dtype=torch.float64, requires_grad=True)
        log_probs = theta.log_softmax(0)
        estimate = member(KL, kind).Config().estimate(log_probs, reference.log())
        (gradients[kind],) = torch.autograd.grad((log_probs.exp().detach() * estimate).sum(), theta)
    torch.testing.assert_close(gradients["k2"], exact)
    torch.testing.assert_close(gradients["k3_k2"], exact)
    torch.testing.assert_close(gradients["k1"], torch.zeros(3).double(), atol=1e-15, rtol=0)
    assert not torch.allclose(gradients["k3"], exact)

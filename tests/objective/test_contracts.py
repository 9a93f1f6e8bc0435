"""What every member of a family must satisfy; a new member is tested by being there."""

from __future__ import annotations

import copy

import pytest
import torch
from objective_support import Sample, algorithm, responses, sample
from tables import table

from harness.configuration.registry import kinds, member
from harness.objective.objective import Objective
from harness.objective.types import RolloutBatch, TokenCounts

ADVANTAGE, SURROGATE = "harness.objective.advantage", "harness.objective.surrogate"
AGGREGATION, KL = "harness.objective.aggregation", "harness.objective.kl"
WEIGHTING = "harness.objective.weighting"


def batch_of(data: Sample) -> RolloutBatch:
    return data.batch(Objective(algorithm("grpo")))


def advantages(kind: str, batch: RolloutBatch, **settings: object) -> torch.Tensor:
    module = member(ADVANTAGE, kind)
    return module.Config(**settings).advantages(batch)


def of_every_kind(family: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("kind", sorted(kinds(family)))


@of_every_kind(ADVANTAGE)
def test_an_advantage_follows_its_response_and_is_nothing_for_what_is_not_counted(kind: str) -> None:
    """One finite float64 a token; none where a group has no contrast, unless the member says otherwise."""
    estimator, data = member(ADVANTAGE, kind).Config(), sample(seed=3)
    batch, moved = batch_of(data), [4 * group + place for group in range(4) for place in (2, 0, 3, 1)]
    advantages_N = estimator.advantages(batch)
    assert (advantages_N.shape, advantages_N.dtype) == (batch.response_N.shape, torch.float64)
    assert advantages_N.isfinite().all()
    of_response = advantages_N.split(data.lengths_PG.reshape(-1).tolist())
    other_N = estimator.advantages(batch_of(data.reordered(moved)))
    torch.testing.assert_close(other_N, torch.cat([of_response[row] for row in moved]), rtol=1e-12, atol=1e-12)
    batch.counted_PG[:, 2] = False
    assert (estimator.advantages(batch)[~batch.per_token(batch.counted_PG)] == 0).all()
    if estimator.dead_groups_vanish:  # set it to False, and say why, if dead groups are meant to be pushed
        batch = batch_of(sample(seed=6))
        batch.rewards_PG[1], batch.correct_PG[1] = 0.1 + 0.2, True  # a value whose mean is not exact in binary
        batch.components_PGC[1] = batch.components_PGC[1, :1].clone()  # type: ignore[index]
        advantages_N, dead_N = estimator.advantages(batch), batch.response_N // 4 == 1
        assert (advantages_N[dead_N] == 0).all()
        assert (advantages_N[~dead_N] != 0).any()


@of_every_kind(SURROGATE)
def test_a_surrogate_is_a_policy_gradient_at_ratio_one(kind: str) -> None:
    """One loss a token; no gradient without advantage, unless the member says otherwise."""
    surrogate = member(SURROGATE, kind).Config()

    def slope(log_prob: float, advantages: list[float]) -> torch.Tensor:
        number = len(advantages)
        old_N = torch.full((number,), -1.0, dtype=torch.float64)
        more = {"sampler_logprobs_NK": old_N[:, None].expand(-1, 2), "logprobs_NK": old_N[:, None].expand(-1, 2)}
        more |= {"ref_logprobs_N": old_N, "selected_N": torch.zeros(number, dtype=torch.bool)}
        batch = responses([1] * number, old_N, torch.tensor(advantages, dtype=torch.float64), **more)
        batch.lengths_R, batch.group_R = torch.ones(number, dtype=torch.long), torch.arange(number) // 2
        logprobs_N = torch.full((number,), log_prob, dtype=torch.float64, requires_grad=True)
        loss_N = surrogate.token_loss(logprobs_N, logprobs_N - old_N, batch)
        assert loss_N.shape == (number,)
        return torch.autograd.grad(loss_N.sum(), logprobs_N)[0]

    slope_N, target_N = slope(-1.0, [1.0, -1.0, 2.0, -2.0]), torch.tensor([-1.0, 1.0, -2.0, 2.0]).double()
    if surrogate.pairs:  # a preference loss knows only the sign
        slope_N, target_N = slope_N.sign(), target_N.sign()
    torch.testing.assert_close(slope_N, target_N)
    assert surrogate.trains_without_advantage or (slope(-0.7, [0.0] * 4) == 0).all()
    slope(-1.0, [])


@of_every_kind(AGGREGATION)
def test_every_response_with_tokens_has_a_weight(kind: str) -> None:
    lengths_R, group_R = torch.tensor([3, 0, 5, 2]), torch.tensor([7, 7, 9, 9])
    weights_R = member(AGGREGATION, kind).Config().response_weights(lengths_R, group_R, TokenCounts(4, 2, 10))
    assert (weights_R.shape, weights_R.dtype) == ((4,), torch.float64)
    assert weights_R.isfinite().all()
    assert (weights_R[lengths_R > 0] > 0).all()


@of_every_kind(WEIGHTING)
def test_weights_of_responses_are_none_below_zero_and_not_all_zero(kind: str) -> None:
    batch = batch_of(sample(seed=3))
    weights_PG = member(WEIGHTING, kind).Config().weights(batch.rewards_PG.double(), batch)
    assert (weights_PG.shape, weights_PG.dtype) == (batch.rewards_PG.shape, torch.float64)
    assert weights_PG.isfinite().all()
    assert (weights_PG >= 0).all()
    assert (weights_PG > 0).any()


@of_every_kind(KL)
def test_policies_that_agree_have_a_penalty_of_zero_that_can_be_differentiated(kind: str) -> None:
    same_N = torch.tensor([-1.0, -2.0], dtype=torch.float64, requires_grad=True)
    estimate_N = member(KL, kind).Config().estimate(same_N, same_N.detach())
    assert estimate_N.tolist() == [0.0, 0.0]
    assert estimate_N.requires_grad


@table(__file__, "no_spread", "settings")
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


@of_every_kind(KL)
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

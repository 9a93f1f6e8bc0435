"""Weights between sampler and trainer by hand, and their recorded distance."""

from __future__ import annotations

import math

import pytest
import torch
from objective_support import algorithm, responses
from small_runs import Bench, small_config
from tables import table

from harness.configuration.sections import CORRECTIONS
from harness.objective.correction import Mismatch, engine_weights
from harness.objective.objective import Objective
from harness.rollout.types import Completions
from harness.training.loop import train

# Two responses of two and three tokens; the trainer's probabilities are 2, 1, 0.5, 4 and 3 times the sampler's.
SAMPLER = torch.log(torch.tensor([0.1, 0.2, 0.4, 0.2, 0.1]))
TRAINER = torch.log(torch.tensor([0.2, 0.2, 0.2, 0.8, 0.3]))
LENGTHS = torch.tensor([2, 3])


@table(__file__, "weights", "kind, cap, floor, expected")
def test_weights_by_hand(kind: str, cap: float, floor: float, expected: list[float]) -> None:
    weights = engine_weights(TRAINER, SAMPLER, LENGTHS, kind, cap, floor)
    torch.testing.assert_close(weights, torch.tensor(expected))


@pytest.mark.parametrize("kind", ["token_mask", "sequence_mask"])
def test_a_weight_beyond_all_numbers_is_masked_like_any_other(kind: str) -> None:
    weights = engine_weights(torch.full((1000,), -0.1), torch.full((1000,), -100.0), torch.tensor([1000]), kind, 2)
    assert (weights == 0).all()


def test_the_distance_by_hand() -> None:
    seen = Mismatch.between(TRAINER, SAMPLER)
    logs = [math.log(x) for x in (2, 1, 0.5, 4, 3)]
    assert seen.gap_mean == pytest.approx(sum(map(abs, logs)) / 5, rel=1e-5)
    assert seen.gap_max == pytest.approx(math.log(4), rel=1e-5)
    assert seen.kl == pytest.approx(sum(math.exp(x) - 1 - x for x in logs) / 5, rel=1e-5)
    assert math.isnan(Mismatch.between(TRAINER[:0], SAMPLER[:0]).kl)


@pytest.mark.parametrize("kind", CORRECTIONS)
@pytest.mark.parametrize("off", [0.0, 0.3])
def test_every_kind_trains_and_a_sampler_that_is_off_is_recorded_and_said(
    bench: Bench, capsys: pytest.CaptureFixture[str], kind: str, off: float
) -> None:
    config = small_config(
        training__steps=1,
        algorithm__engine_correction__kind=kind,
        algorithm__engine_correction__old_log_probs="recomputed",
    )
    trainer = bench.trainer(config)
    plain = trainer.engine.generate

    def shifted(*arguments: object) -> Completions:
        completions = plain(*arguments)  # type: ignore[arg-type]
        completions.log_probs_N = completions.log_probs_N - off
        return completions

    trainer.engine.generate = shifted  # type: ignore[method-assign, assignment]
    assert train(trainer, lambda: False, attempt=0)
    (row,) = trainer.run.steps().to_dict("records")
    assert row["sampler_log_prob_gap_mean"] == pytest.approx(off, abs=1e-4)
    assert row["sampler_kl_nats"] == pytest.approx(math.exp(off) - 1 - off, abs=1e-4)
    said = capsys.readouterr().err
    assert ("off-policy" in said) == (off > 0)
    assert ("off-policy. The engine correction weighs it" in said) == (off > 0 and kind != "none")
    # The importance ratio starts at 1 whatever the sampler says: old log-probs are the trainer's.
    assert row["ratio_max"] < 1.5


def test_vespo_takes_the_weights_of_tokens_into_its_own_weight() -> None:
    # One response of two tokens: ratios 2 and 0.9, weights 1.5 and 0.5, so W = 1.35; A = 1, so k = 2 and lambda = 3.
    log_probs_N = torch.tensor([2.0, 0.9], dtype=torch.float64).log().requires_grad_()
    zeros, ones = torch.zeros(2, dtype=torch.float64), torch.ones(2, dtype=torch.float64)
    batch = responses([2], zeros, ones, policy_weights_N=torch.tensor([1.5, 0.5], dtype=torch.float64))
    loss, _ = Objective(algorithm("vespo"))(log_probs_N, batch)
    phi = 1.35**2 * math.exp(3 * (1 - 1.35))
    assert torch.autograd.grad(loss, log_probs_N)[0].tolist() == pytest.approx([-phi, -phi])


@pytest.mark.parametrize("name", ["grpo", "gspo", "cispo", "gmpo", "vespo", "grpo_kl"])
def test_a_ratio_beyond_all_numbers_leaves_a_finite_gradient(name: str) -> None:
    log_probs_N = torch.zeros(2, requires_grad=True)
    far = torch.tensor([-200.0, 200.0])
    batch = responses([1, 1], far, torch.tensor([1.0, -1.0]), ref_logprobs_N=-far)
    loss, stats = Objective(algorithm(name))(log_probs_N, batch)
    (gradient_N,) = torch.autograd.grad(loss, log_probs_N)
    assert torch.isfinite(loss)
    assert torch.isfinite(gradient_N).all()
    assert math.isfinite(stats.ratio_max)

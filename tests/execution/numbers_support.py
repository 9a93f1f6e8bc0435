"""Short runs in this process, intact or with one deliberate fault in the sampler or the loss."""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch

import harness.rollout.engine.native.sampler as native_sampler
from harness.configuration.identity import arm_id, run_id
from harness.configuration.schema import RunConfig
from harness.experiment.planning import RunSpec
from harness.objective.objective import Objective
from harness.objective.types import RolloutBatch, TokenBatch
from harness.store import ResultStore, RunDir
from harness.training.run import train_run

_choose, _advantages, _loss = native_sampler.choose, Objective.advantages, Objective.__call__


def hot_sampler(logits_RV: torch.Tensor, uniform_R: torch.Tensor, params: Any) -> Any:
    """Samples at temperature 1.2 and reports log-probabilities of temperature 1."""
    chosen, _, _ = _choose(logits_RV, uniform_R, dataclasses.replace(params, temperature=1.2))
    log_probs = logits_RV.float().log_softmax(-1)
    entropy = -(log_probs.exp() * log_probs).sum(-1)
    return chosen, log_probs.gather(-1, chosen[:, None])[:, 0], entropy


def flipped_negatives(self: Objective, batch: RolloutBatch, *rest: Any) -> torch.Tensor:
    """Wrong responses are pushed up like right ones."""
    return _advantages(self, batch, *rest).abs()


def one_flipped_response(self: Objective, batch: RolloutBatch, *rest: Any) -> torch.Tensor:
    """The sign of one response's advantage a step: the first that has any."""
    advantages_N = _advantages(self, batch, *rest)
    live = advantages_N.nonzero()
    if not len(live):
        return advantages_N
    response_N = batch.response_N
    return torch.where(response_N == response_N[live[0, 0]], -advantages_N, advantages_N)


def _with_weights(self: Objective, batch: TokenBatch, weights_N: torch.Tensor, *arguments: Any) -> Any:
    log_probs_N, *rest = arguments
    return _loss(self, log_probs_N, dataclasses.replace(batch, weights_N=weights_N), *rest)


def mask_without_the_last(self: Objective, log_probs_N: torch.Tensor, batch: TokenBatch, *rest: Any) -> Any:
    """The response mask ends one token early: the end token is not trained."""
    last_N = torch.cat([batch.response_N[1:] != batch.response_N[:-1], torch.ones(1, dtype=torch.bool)])
    return _with_weights(self, batch, batch.weights_N * ~last_N, log_probs_N, *rest)


def mask_without_the_first(self: Objective, log_probs_N: torch.Tensor, batch: TokenBatch, *rest: Any) -> Any:
    """The response mask begins one token late."""
    first_N = torch.cat([torch.ones(1, dtype=torch.bool), batch.response_N[1:] != batch.response_N[:-1]])
    return _with_weights(self, batch, batch.weights_N * ~first_N, log_probs_N, *rest)


FAULTS: Mapping[str, tuple[Any, str, Callable[..., Any]]] = {
    "temperature 1.2": (native_sampler, "choose", hot_sampler),
    "negative advantages flipped": (Objective, "advantages", flipped_negatives),
    "one response flipped": (Objective, "advantages", one_flipped_response),
    "mask ends early": (Objective, "__call__", mask_without_the_last),
    "mask begins late": (Objective, "__call__", mask_without_the_first),
}


def break_with(fault: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Put one fault in place (None: leave all as it is)."""
    if fault is not None:
        target, name, broken = FAULTS[fault]
        monkeypatch.setattr(target, name, broken)


def train(store: ResultStore, spec: RunSpec) -> RunDir:
    """Train a run in this process, whatever is there of it already."""
    run = store.run(spec.run_id)
    shutil.rmtree(run.path, ignore_errors=True)
    manifest = {
        "arm_id": spec.arm_id,
        "seed": spec.seed,
        "status": "finished",
        "labels": {},
        "attempts": [],
    }
    run.create(spec.config_yaml, manifest)
    assert train_run(spec.config, run, lambda: False, attempt=1)
    return run


def shorter(config: RunConfig, steps: int) -> RunSpec:
    """The same run with fewer steps and hardly any evaluation: its first steps are the same."""
    benchmarks = {
        name: dataclasses.replace(item, problems=2) for name, item in config.evaluation.benchmarks.items()
    }
    short = dataclasses.replace(
        config,
        training=dataclasses.replace(config.training, steps=steps, evaluate_every=steps),
        evaluation=dataclasses.replace(config.evaluation, benchmarks=benchmarks, samples_per_problem=1),
    )
    return RunSpec(short, run_id(short), arm_id(short), {})

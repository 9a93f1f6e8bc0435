"""An estimate in lines for `harness plan`, with everything it assumes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.configuration.gpus import GIB
from harness.experiment.duration import format_seconds
from harness.experiment.estimate.fit import Fit, billions, fit_of, listed, model_name
from harness.experiment.estimate.memory import mean_response
from harness.experiment.estimate.work import Work, estimate_work

if TYPE_CHECKING:
    from harness.configuration.schema import RunConfig

NOT_COUNTED = "loading, compiling, weight transfer to the engine, grading, checkpoints, waiting of ranks for one another, restarts"


@dataclass(frozen=True)
class Estimate:
    """Memory and work of one run, computed, not measured."""

    config: RunConfig
    fit: Fit
    work: Work

    @property
    def gpus(self) -> float:
        """GPUs that the run occupies."""
        return self.fit.plant.gpus / self.config.runtime.runs_per_gpu


def estimate_of(config: RunConfig) -> Estimate | None:
    """The estimate of a run on GPUs; None on a CPU, or where the model's sizes are not known."""
    if config.runtime.device != "cuda":
        return None
    fit = fit_of(config)
    if fit is None:
        return None
    return Estimate(config, fit, estimate_work(config, fit.shape, fit.plant, fit.rollout))


def lines(estimate: Estimate) -> Iterator[str]:
    """Machine, memory, time, assumptions."""
    config, fit, work = estimate.config, estimate.fit, estimate.work
    plant, rollout = fit.plant, fit.rollout
    where = f"{plant.gpus} x {plant.gpu}" + (
        f" on {config.runtime.nodes} nodes" if config.runtime.nodes > 1 else ""
    )
    yield f"{model_name(config)}: {billions(fit.shape.parameters)} parameters, on {where}, sharded over {plant.ranks} rank(s)"
    yield (
        f"memory of one GPU, {plant.usable / GIB:.0f} GiB usable: update {fit.update_bytes / GIB:.1f} GiB ({listed(fit.update)}); "
        f"rollout {rollout.resident / GIB:.1f} of training state + {rollout.engine / GIB:.1f} of engine weights, "
        f"{max(0.0, rollout.cache) / GIB:.1f} left for {rollout.responses:.0f} responses of mean length at once"
    )
    yield (
        f"a step: rollout {format_seconds(work.rollout_seconds)} ({work.rollout_flop:.1e} FLOP, {work.tokens_per_second:.0f} tokens/s "
        f"a GPU), update {format_seconds(work.update_seconds)} ({work.update_flop:.1e} FLOP); {work.evaluations} evaluations of "
        f"{format_seconds(work.evaluation_seconds)} ({work.evaluation_flop:.1e} FLOP)"
    )
    assumed = config.runtime.assumed
    yield (
        f"assumed (runtime.assumed): prompts of {assumed.prompt_tokens} and responses of {mean_response(config):.0f} tokens on average, "
        f"{assumed.groups_per_trained_group:g} groups generated per group trained on where dynamic sampling refills, updates at "
        f"{assumed.update_utilisation:.0%} of the GPU's peak, sampling at {assumed.sampling_utilisation:.0%} of it and "
        f"{assumed.sampling_bandwidth:.0%} of its bandwidth plus {assumed.decode_overhead_ms:g} ms a token"
    )
    left_out = f"; benchmarks of unknown size: {', '.join(work.unknown_sets)}" if work.unknown_sets else ""
    yield f"not counted: {NOT_COUNTED}{left_out}"

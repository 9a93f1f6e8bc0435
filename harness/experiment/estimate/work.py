"""Tokens, products and seconds of a run: 2 FLOP a parameter and token forward, twice that backward, attention apart (arXiv:2001.08361)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.configuration.gpus import GIB, GPUS
from harness.experiment.duration import format_seconds
from harness.experiment.estimate.fit import Fit, billions, fit_of, listed, model_name
from harness.experiment.estimate.memory import Plant, Rollout, element_bytes, mean_response
from harness.model.shapes import ModelSize

if TYPE_CHECKING:
    from harness.configuration.schema import RunConfig

# Problems of the sets under conf/benchmark, which are not read for an estimate.
_PROBLEMS = {
    "aime24": 30,
    "aime25": 30,
    "amc23": 40,
    "math500": 500,
    "minerva": 272,
    "olympiadbench": 674,
    "gsm8k": 1319,
}


@dataclass(frozen=True)
class Work:
    """One run. FLOP and seconds of the rollout and of the update are a step's, those of the evaluation one evaluation's.

    Attributes:
        generated_tokens: of all steps, discarded groups included, evaluations not.
        tokens_per_second: of one GPU while it generates.
        unknown_sets: benchmarks whose size is not known here, left out.
    """

    rollout_flop: float
    update_flop: float
    evaluation_flop: float
    rollout_seconds: float
    update_seconds: float
    evaluation_seconds: float
    steps: float
    evaluations: int
    generated_tokens: float
    tokens_per_second: float
    unknown_sets: tuple[str, ...]

    @property
    def seconds(self) -> float:
        """The whole run."""
        return (
            self.steps * (self.rollout_seconds + self.update_seconds)
            + self.evaluations * self.evaluation_seconds
        )


def forward_flop(shape: ModelSize, length: float) -> float:
    """FLOP of one token in a sequence of this length: matrices (output projection included), scores and weighted values."""
    matrices = shape.layers * shape.layer_matrices + shape.embedding
    return 2.0 * matrices + 4.0 * shape.query * shape.attended(length)


def update_passes(config: RunConfig) -> float:
    """Forward-sized passes over a trained token: forward, backward (two; with adapters one), recomputation, and passes that only score."""
    passes = 1.0 + (1.0 if config.model.lora.rank else 2.0)
    passes += config.runtime.gradient_checkpointing
    scored = (config.algorithm.engine_correction.old_log_probs == "recomputed") + bool(
        config.algorithm.kl.coefficient
    )
    return config.algorithm.epochs_per_step * passes + scored


def groups_generated(config: RunConfig) -> float:
    """Groups generated for each one trained on."""
    dead = config.algorithm.dead_groups
    if dead.policy != "refill":
        return 1.0
    return min(config.runtime.assumed.groups_per_trained_group, float(dead.max_rounds))


def estimate_work(config: RunConfig, shape: ModelSize, plant: Plant, rollout: Rollout) -> Work:
    """Tokens, FLOP and seconds of one run."""
    algorithm, assumed = config.algorithm, config.runtime.assumed
    prompt, response = assumed.prompt_tokens, mean_response(config)
    rows = algorithm.prompts_per_step * algorithm.responses_per_prompt
    rounds = groups_generated(config)
    sampled = _Sampling(config, shape, plant, rollout)
    one_round = sampled.seconds(rows, response, config.sampling.max_response_tokens)
    peak = GPUS[plant.gpu].teraflops * 1e12 * plant.gpus * plant.share
    trained = rows * (prompt + response)
    a_token = forward_flop(shape, prompt + response)
    update = trained * a_token * update_passes(config)
    samples, unknown = _evaluation_samples(config)
    cap = max(config.evaluation.caps)
    mean = min(response, float(cap))
    step_tokens = rows * response * rounds
    steps = _steps(config, step_tokens, rounds * one_round + update / (peak * assumed.update_utilisation))
    return Work(
        rollout_flop=rounds * (rows * response + algorithm.prompts_per_step * prompt) * a_token,
        update_flop=update,
        evaluation_flop=samples * mean * a_token,
        rollout_seconds=rounds * one_round,
        update_seconds=update / (peak * assumed.update_utilisation),
        evaluation_seconds=sampled.seconds(samples, mean, cap),
        steps=steps,
        evaluations=1 + math.ceil(steps / config.training.evaluate_every),
        generated_tokens=steps * step_tokens,
        tokens_per_second=rows * response / (one_round * plant.gpus),
        unknown_sets=unknown,
    )


class _Sampling:
    """Decoding is bound by reading weights and cache, or, with many rows, by products; a step of all rows yields a token each.

    Runs that share a GPU are taken to share its rates.
    """

    def __init__(self, config: RunConfig, shape: ModelSize, plant: Plant, rollout: Rollout) -> None:
        self.assumed, self.shape, self.plant = config.runtime.assumed, shape, plant
        self.width = element_bytes(config)
        gpu, assumed = GPUS[plant.gpu], self.assumed
        self.bytes_per_second = gpu.terabytes_per_second * 1e12 * assumed.sampling_bandwidth * plant.share
        self.flop_per_second = gpu.teraflops * 1e12 * assumed.sampling_utilisation * plant.share
        self.room = max(1.0, min(rollout.responses, config.runtime.rollout_rows))

    def step_seconds(self, rows: float, context: float) -> float:
        """One token for each of `rows` sequences of one engine."""
        cache = rows * self.shape.cache_bytes(context) * self.width / 2
        read = (self.width * self.shape.parameters + cache) / self.plant.engine_gpus
        products = rows * forward_flop(self.shape, 2 * context) / self.plant.engine_gpus
        overhead = self.assumed.decode_overhead_ms / 1000
        return max(read / self.bytes_per_second, products / self.flop_per_second) + overhead

    def seconds(self, samples: float, mean: float, longest: float) -> float:
        """All samples: the bulk in as large batches as fit, then the longest sample to its end alone."""
        if not samples:
            return 0.0
        rows = samples / self.plant.replicas
        together = min(max(1.0, rows), self.room)
        prompt = self.assumed.prompt_tokens
        step = self.step_seconds(together, prompt + mean / 2)
        steps = rows * mean / together
        rest = max(0.0, longest - steps)
        prefill = rows * prompt * forward_flop(self.shape, prompt) / self.plant.engine_gpus
        alone = self.step_seconds(1.0, prompt + longest / 2)
        return steps * step + rest * alone + prefill / self.flop_per_second


def _evaluation_samples(config: RunConfig) -> tuple[float, tuple[str, ...]]:
    """Samples of one evaluation, and the benchmarks of unknown size."""
    total, unknown = 0, []
    for name, benchmark in config.evaluation.benchmarks.items():
        count = getattr(benchmark, "problems", None) or _PROBLEMS.get(getattr(benchmark, "name", ""))
        if count is None:
            unknown.append(name)
            continue
        limit = getattr(benchmark, "limit", None)
        total += min(count, limit) if limit else count
    return float(total * config.evaluation.samples_per_problem), tuple(unknown)


def _steps(config: RunConfig, tokens: float, seconds: float) -> float:
    """Rollout steps until the number, or a budget of tokens or seconds, ends the run."""
    training = config.training
    steps = float(training.steps)
    if training.generated_tokens is not None:
        steps = min(steps, training.generated_tokens / tokens)
    if training.seconds is not None:
        steps = min(steps, training.seconds / seconds)
    return steps


# ---- in words for `harness plan` ----

_NOT_COUNTED = "loading, compiling, weight transfer to the engine, grading, checkpoints, waiting of ranks for one another, restarts"


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


def estimate_lines(estimates: Mapping[str, Estimate]) -> Iterator[str]:
    """The estimates of arms in lines for `harness plan`: the first arm's whole, of the others what differs."""
    told: set[str] = set()
    for name, estimate in estimates.items():
        new = [line for line in _lines(estimate) if line not in told]
        told.update(new)
        if new:
            yield f"estimate for {name}, computed, not measured:"
            yield from (f"  {line}" for line in new)


def _lines(estimate: Estimate) -> Iterator[str]:
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
    yield f"not counted: {_NOT_COUNTED}{left_out}"

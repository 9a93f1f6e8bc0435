"""Tokens, products and seconds of a run: 2 FLOP a parameter and token forward, twice that backward, attention apart (arXiv:2001.08361)."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.configuration.gpus import GIB, GPUS
from harness.experiment.duration import format_seconds
from harness.experiment.estimate.fit import Fit, billions, fit_of, listed, model_name
from harness.experiment.estimate.memory import element_bytes, mean_response
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
class RunEstimate:
    """One run, computed, not measured. FLOP and seconds of rollout and update are a step's, those of the evaluation one evaluation's.

    Attributes:
        config: the run's.
        fit: its memory.
        generated_tokens: of all steps, discarded groups included, evaluations not.
        tokens_per_second: of one GPU while it generates.
        unknown_sets: benchmarks whose size is not known here, left out.
    """

    config: RunConfig
    fit: Fit
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

    @property
    def gpus(self) -> float:
        """GPUs that the run occupies."""
        return self.fit.plant.gpus / self.config.runtime.runs_per_gpu


def forward_flop(shape: ModelSize, length: float) -> float:
    """FLOP of one token in a sequence of this length: matrices (output projection included), scores and weighted values."""
    matrices = shape.layers * shape.layer_matrices + shape.embedding
    return 2.0 * matrices + 4.0 * shape.query * shape.attended(length)


def update_passes(config: RunConfig) -> float:
    """Forward-sized passes over a trained token: forward, backward (two; with adapters one), recomputation, and passes that only score."""
    adapters = getattr(config.model, "lora", None)  # the testbed has none
    passes = 1.0 + (1.0 if adapters is not None and adapters.rank else 2.0)
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


def estimate_of(config: RunConfig) -> RunEstimate | None:
    """The estimate of a run on GPUs; None on a CPU, or where the model's sizes are not known."""
    fit = fit_of(config) if config.runtime.device == "cuda" else None
    return None if fit is None else run_estimate(config, fit)


def run_estimate(config: RunConfig, fit: Fit) -> RunEstimate:
    """Tokens, FLOP and seconds of one run with this fit."""
    algorithm, training, assumed, plant = config.algorithm, config.training, config.runtime.assumed, fit.plant
    prompt, response = assumed.prompt_tokens, mean_response(config)
    rows, rounds = algorithm.prompts_per_step * algorithm.responses_per_prompt, groups_generated(config)
    sampled = _Sampling(config, fit)
    one_round = sampled.seconds(rows, response, config.sampling.max_response_tokens)
    peak = GPUS[plant.gpu].teraflops * 1e12 * plant.gpus * plant.share
    a_token = forward_flop(fit.shape, prompt + response)
    update = rows * (prompt + response) * a_token * update_passes(config)
    update_seconds = update / (peak * assumed.update_utilisation)
    problems, unknown = problems_evaluated(config)
    samples = float(problems * config.evaluation.samples_per_problem)
    cap, step_tokens = max(config.evaluation.caps), rows * response * rounds
    mean = min(response, float(cap))
    steps = float(training.steps)  # until the number, or a budget of tokens or seconds, ends the run
    if training.generated_tokens is not None:
        steps = min(steps, training.generated_tokens / step_tokens)
    if training.seconds is not None:
        steps = min(steps, training.seconds / (rounds * one_round + update_seconds))
    return RunEstimate(
        config,
        fit,
        rollout_flop=rounds * (rows * response + algorithm.prompts_per_step * prompt) * a_token,
        update_flop=update,
        evaluation_flop=samples * mean * a_token,
        rollout_seconds=rounds * one_round,
        update_seconds=update_seconds,
        evaluation_seconds=sampled.seconds(samples, mean, cap),
        steps=steps,
        evaluations=1 + math.ceil(steps / training.evaluate_every),
        generated_tokens=steps * step_tokens,
        tokens_per_second=rows * response / (one_round * plant.gpus),
        unknown_sets=unknown,
    )


class _Sampling:
    """Decoding is bound by reading weights and cache, or, with many rows, by products; a step of all rows yields a token each.

    Runs that share a GPU are taken to share its rates.
    """

    def __init__(self, config: RunConfig, fit: Fit) -> None:
        self.assumed, self.shape, self.plant = config.runtime.assumed, fit.shape, fit.plant
        self.width, gpu = element_bytes(config), GPUS[fit.plant.gpu]
        bandwidth, peak = gpu.terabytes_per_second * 1e12, gpu.teraflops * 1e12
        self.bytes_per_second = bandwidth * self.assumed.sampling_bandwidth * fit.plant.share
        self.flop_per_second = peak * self.assumed.sampling_utilisation * fit.plant.share
        self.room = max(1.0, min(fit.rollout.responses, config.runtime.rollout_rows))

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


def problems_evaluated(config: RunConfig) -> tuple[int, tuple[str, ...]]:
    """Problems of one evaluation, and the benchmarks of unknown size."""
    total, unknown = 0, []
    for name, benchmark in config.evaluation.benchmarks.items():
        count = getattr(benchmark, "problems", None) or _PROBLEMS.get(getattr(benchmark, "name", ""))
        if count is None:
            unknown.append(name)
            continue
        limit = getattr(benchmark, "limit", None)
        total += min(count, limit) if limit else count
    return total, tuple(unknown)


# ---- in words for `harness plan` ----

_NOT_COUNTED = "loading, compiling, weight transfer to the engine, grading, checkpoints, waiting of ranks for one another, restarts"


def estimate_lines(estimates: Mapping[str, RunEstimate]) -> Iterator[str]:
    """The estimates of arms in lines for `harness plan`: the first arm's whole, of the others what differs."""
    told: set[str] = set()
    for name, estimate in estimates.items():
        new = [line for line in _lines(estimate) if line not in told]
        told.update(new)
        if new:
            yield f"estimate for {name}, computed, not measured:"
            yield from (f"  {line}" for line in new)


def _lines(work: RunEstimate) -> Iterator[str]:
    """Machine, memory, time, assumptions."""
    config, fit = work.config, work.fit
    plant, rollout, nodes = fit.plant, fit.rollout, config.runtime.nodes
    where = f"{plant.gpus} x {plant.gpu}" + f" on {nodes} nodes" * (nodes > 1)
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

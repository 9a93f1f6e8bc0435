"""The fit of a run to its machine, said before anything is launched, with the settings that would make it fit."""

from __future__ import annotations

import copy
import itertools
import math
import operator
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.configuration.gpus import GIB, host_memory_gib, visible_memory_gib
from harness.experiment.estimate.memory import (
    Plant,
    RolloutMemory,
    awake_engine,
    plant_of,
    resident,
    rollout_memory,
    rows_at_once,
    update_memory,
)
from harness.model.shapes import ModelSize, positions_of, shape_of

if TYPE_CHECKING:
    from harness.configuration.schema import RunConfig

_GPUS_PER_NODE = 8
_GPU_COUNTS = tuple(2**power for power in range(10))
_ADAPTER_RANK = 32
_FEW_ROWS = 64  # responses that the native engine decodes together; the default has room for many more
_LARGEST_MICRO_BATCH = 17  # a power of two: above 131,072 tokens nothing gets faster


@dataclass(frozen=True)
class Fit:
    """Bytes on one GPU in an update and in a rollout, against what it can hold."""

    shape: ModelSize
    plant: Plant
    update: dict[str, float]
    rollout: RolloutMemory

    @property
    def update_bytes(self) -> float:
        """All of an update's parts."""
        return sum(self.update.values())

    @property
    def update_fits(self) -> bool:
        """Say if an update fits."""
        return self.update_bytes <= self.plant.usable

    @property
    def fits(self) -> bool:
        """Say if updates and rollouts fit."""
        return self.update_fits and self.rollout.fits


def fit_of(config: RunConfig, memory_gib: float | None = None) -> Fit | None:
    """Return the fit of a run on GPUs; None where the model's sizes are not known."""
    shape = shape_of(config.model)
    if shape is None:
        return None
    plant = plant_of(config, memory_gib)
    update = update_memory(config, shape, plant.ranks)
    if engine := awake_engine(config, shape, plant):
        update["engine"] = engine
    return Fit(shape, plant, update, rollout_memory(config, shape, plant, resident(config, update)))


def misfits(config: RunConfig) -> list[str]:
    """List why the run cannot be trained on its machine, each reason with its remedy; empty where it can or the sizes are unknown.

    The machine is the GPU that the driver shows where runs are started here, else the kind in `runtime.assumed.gpu`; without
    `runtime.device=cuda` it is this computer's memory. Other backends than the built-in one place a model by their own settings: for them
    only its positions are looked at.
    """
    found = list(_too_long(config))
    shape, here = shape_of(config.model), config.runtime.launcher.kind == "local"
    if shape is None:
        return found
    if config.backend.kind == "builtin" and config.runtime.device == "cuda":
        memory = visible_memory_gib() if here else None
        fit = fit_of(config, memory)
        if fit is not None and not fit.fits:
            found.append(_too_large(config, fit, memory))
    elif config.backend.kind == "builtin" and here:
        found += _too_large_for_this_computer(config, shape)
    return found


def _too_long(config: RunConfig) -> Iterator[str]:
    cap, positions = (
        max(config.sampling.max_response_tokens, *config.evaluation.caps),
        positions_of(config.model),
    )
    # Prompts have at least one token; those of the testbed's task have as many as it says.
    prompt = max(
        getattr(one, "prompt_tokens", 1) for one in (config.task, *config.evaluation.benchmarks.values())
    )
    if positions is None or cap + prompt <= positions:
        return
    if config.model.kind == "testbed":
        keep = "harness import ... for=testbed keeps the testbed's own lengths"
        fix = f"to {positions - prompt} or less ({keep}), or name the model that they are for"
    else:
        fix = "or choose a model with more positions"
    yield (
        f"responses of up to {cap} tokens and their prompts exceed the {positions} positions of {model_name(config)}; lower "
        f"sampling.max_response_tokens and evaluation.caps{',' * fix.startswith('or')} {fix}"
    )


def _too_large_for_this_computer(config: RunConfig, shape: ModelSize) -> Iterator[str]:
    ranks = config.runtime.ranks or 1
    parts = update_memory(config, shape, ranks * config.runtime.nodes)
    needed, here = ranks * sum(parts.values()) / GIB, host_memory_gib()
    if needed > here:
        yield (
            f"training {model_name(config)} ({billions(shape.parameters)} parameters) takes about {needed:.1f} GiB ({listed(parts)}), "
            f"this computer has {here:.1f}; train on GPUs (runtime.device=cuda), or set runtime.gradient_checkpointing=true, "
            "model.lora.rank or a lower runtime.micro_batch_tokens"
        )


def _too_large(config: RunConfig, fit: Fit, memory: float | None) -> str:
    plant, rows, cache = fit.plant, rows_at_once(config), max(fit.rollout.needed, fit.rollout.cache)
    kind = f"{plant.gpu} (runtime.assumed.gpu)" if memory is None else f"GPU of {memory:.1f} GiB"
    if fit.update_fits:
        what = (
            f"rollouts of {model_name(config)} need {fit.rollout.resident / GIB:.1f} GiB of training state, "
            f"{fit.rollout.engine / GIB:.1f} GiB of engine weights and {cache / GIB:.1f} GiB of keys and values "
            f"(with room for {rows} response(s) of {config.sampling.max_response_tokens} tokens) on each of {plant.gpus} GPU(s)"
        )
    else:
        what = (
            f"an update of {model_name(config)} ({billions(fit.shape.parameters)} parameters) takes about "
            f"{fit.update_bytes / GIB:.1f} GiB on each of {plant.gpus} GPU(s) ({listed(fit.update)})"
        )
    fixes = ", or ".join(_fixes(config, memory))
    advice = f"It would fit with {fixes}" if fixes else "Nothing tried makes it fit: choose a smaller model"
    return f"{what}; {plant.usable / GIB:.1f} GiB of one {kind} can be filled. {advice}"


def _fixes(config: RunConfig, memory: float | None) -> Iterator[str]:
    """Single settings that make it fit, each with what it needs beside it, and the fewest GPUs that do."""
    yield from _works(config, memory, "", {})
    size = fitting_micro_batch(config, memory)
    if size is not None and size < config.runtime.micro_batch_tokens:
        yield f"runtime.micro_batch_tokens={size}"
    if not config.model.lora.rank:
        yield from _works(
            config, memory, f"model.lora.rank={_ADAPTER_RANK}", {"model.lora.rank": _ADAPTER_RANK}
        )
    for count in _GPU_COUNTS:
        if count > config.runtime.gpus_per_run * config.runtime.nodes:
            each, nodes = min(count, _GPUS_PER_NODE), max(1, count // _GPUS_PER_NODE)
            on_nodes = f" runtime.nodes={nodes}" if nodes > 1 else ""
            setting = f"{count} GPUs (runtime.gpus_per_run={each}{on_nodes})"
            place = {"runtime.ranks": 0, "runtime.gpus_per_run": each, "runtime.nodes": nodes}
            if works := list(_works(config, memory, setting, place)):
                yield from works
                return


def _works(config: RunConfig, memory: float | None, setting: str, changes: dict[str, Any]) -> Iterator[str]:
    """The setting with what it needs beside it to fit: nothing, fewer rows, recomputation, a smaller share for vLLM; none: no help."""
    for recompute, smaller, fewer in itertools.product((False, True), repeat=3):
        more: dict[str, Any] = {}
        if fewer and rows_at_once(config) > _FEW_ROWS:
            more["runtime.rollout_rows"] = _FEW_ROWS
        if recompute and not config.runtime.gradient_checkpointing:
            more["runtime.gradient_checkpointing"] = True
        share = _share(_changed(config, changes | more), memory) if smaller else 0.0
        if share > 0:
            more["engine.gpu_memory_utilization"] = share
        fit = fit_of(_changed(config, changes | more), memory)
        if fit is not None and fit.fits:
            beside = " and ".join(f"{key}={str(value).lower()}" for key, value in more.items())
            yield " with ".join(filter(None, [setting, beside]))
            return


def _changed(config: RunConfig, changes: dict[str, Any]) -> RunConfig:
    """A copy of the configuration with other values under dotted keys."""
    trial = copy.deepcopy(config)
    for key, value in changes.items():
        section, _, name = key.rpartition(".")
        setattr(operator.attrgetter(section)(trial), name, value)
    return trial


def fitting_micro_batch(config: RunConfig, memory_gib: float | None = None) -> int | None:
    """The largest power of two of `runtime.micro_batch_tokens` with which the run fits, or one longest sequence; None: nothing fits."""
    longest = config.sampling.max_response_tokens + config.runtime.assumed.prompt_tokens
    for size in (*(2**power for power in range(_LARGEST_MICRO_BATCH, 0, -1) if 2**power > longest), longest):
        fit = fit_of(_changed(config, {"runtime.micro_batch_tokens": size}), memory_gib)
        if fit is not None and fit.fits:
            return size
    return None


def _share(config: RunConfig, memory: float | None) -> float:
    """The part of the GPU that training leaves to vLLM, in steps of 0.05; 0 for other engines."""
    fit = fit_of(config, memory)
    if fit is None or config.engine.kind != "vllm":
        return 0.0
    return math.floor((fit.plant.usable - fit.rollout.resident) / fit.plant.memory * 20) / 20


def model_name(config: RunConfig) -> str:
    """Name the model for messages."""
    return str(getattr(config.model, "path", "") or getattr(config.model, "shape", config.model.kind))


def billions(count: float) -> str:
    """7.62B, 494M."""
    return f"{count / 1e9:.2f}B" if count >= 1e9 else f"{count / 1e6:.0f}M"


def listed(parts: dict[str, float]) -> str:
    """Parts in GiB, largest first."""
    ordered = sorted(parts.items(), key=lambda item: -item[1])
    return ", ".join(f"{name} {size / GIB:.1f}" for name, size in ordered)

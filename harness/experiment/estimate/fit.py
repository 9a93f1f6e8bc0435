"""The fit of a run to its machine, said before anything is launched, with the settings that would make it fit."""

from __future__ import annotations

import copy
import functools
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.configuration.gpus import GIB, host_memory_gib, visible_memory_gib
from harness.experiment.estimate.memory import (
    Plant,
    Rollout,
    awake_engine,
    plant_of,
    resident,
    rollout_memory,
    update_memory,
)
from harness.model.shapes import Shape, shape_of

if TYPE_CHECKING:
    from harness.configuration.schema import RunConfig

_GPUS_PER_NODE = 8
_MOST_NODES = 64
_ADAPTER_RANK = 32
_FEW_ROWS = 64  # responses that the native engine decodes together; the default has room for many more
_LARGEST_MICRO_BATCH = 17  # a power of two: above 131,072 tokens nothing gets faster


@dataclass(frozen=True)
class Fit:
    """Bytes on one GPU in an update and in a rollout, against what it can hold."""

    shape: Shape
    plant: Plant
    update: dict[str, float]
    rollout: Rollout

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
    shape = shape_of(config.model)
    if shape is None:
        return []
    found = list(_positions(config, shape))
    if config.backend.kind != "builtin":
        return found
    if config.runtime.device != "cuda":
        return found + list(_host(config, shape))
    memory = visible_memory_gib() if config.runtime.launcher.kind == "local" else None
    fit = fit_of(config, memory)
    if fit is not None and not fit.fits:
        found.append(_too_large(config, fit, memory))
    return found


def _positions(config: RunConfig, shape: Shape) -> Iterator[str]:
    cap = max(config.sampling.max_response_tokens, *config.evaluation.caps)
    if cap >= shape.positions:
        yield (
            f"responses of up to {cap} tokens and their prompts exceed the {shape.positions} positions of {model_name(config)}; lower "
            "sampling.max_response_tokens and evaluation.caps, or choose a model with more positions"
        )


def _host(config: RunConfig, shape: Shape) -> Iterator[str]:
    ranks = config.runtime.ranks or 1
    parts = update_memory(config, shape, ranks * config.runtime.nodes)
    needed, here = ranks * sum(parts.values()) / GIB, host_memory_gib()
    if config.runtime.launcher.kind == "local" and needed > here:
        yield (
            f"training {model_name(config)} ({billions(shape.parameters)} parameters) takes about {needed:.1f} GiB ({listed(parts)}), "
            f"this computer has {here:.1f}; train on GPUs (runtime.device=cuda), or set runtime.gradient_checkpointing=true, "
            "model.lora.rank or a lower runtime.micro_batch_tokens"
        )


def _too_large(config: RunConfig, fit: Fit, memory: float | None) -> str:
    plant = fit.plant
    kind = f"{plant.gpu} (runtime.assumed.gpu)" if memory is None else f"GPU of {memory:.1f} GiB"
    have = f"{plant.usable / GIB:.1f} GiB of one {kind} can be filled"
    if fit.update_fits:
        what = (
            f"rollouts of {model_name(config)} need {fit.rollout.resident / GIB:.1f} GiB of training state, "
            f"{fit.rollout.engine / GIB:.1f} GiB of engine weights and {max(0.0, fit.rollout.cache) / GIB:.1f} GiB of keys and values "
            f"(with room for one response of {config.sampling.max_response_tokens} tokens) on each of {plant.gpus} GPU(s)"
        )
    else:
        what = (
            f"an update of {model_name(config)} ({billions(fit.shape.parameters)} parameters) takes about "
            f"{fit.update_bytes / GIB:.1f} GiB on each of {plant.gpus} GPU(s) ({listed(fit.update)})"
        )
    fixes = list(_fixes(config, memory))
    return f"{what}; {have}. " + (
        "It would fit with " + ", or ".join(fixes)
        if fixes
        else "Nothing tried makes it fit: choose a smaller model"
    )


def _fixes(config: RunConfig, memory: float | None) -> Iterator[str]:
    """Single settings that make it fit, each with what it needs beside it, and how many GPUs do."""

    def works(setting: str, change: Callable[[RunConfig], None]) -> Iterator[str]:
        beside = _beside(config, memory, change)
        if beside is not None:
            yield " with ".join(part for part in (setting, " and ".join(beside)) if part)

    yield from works("", lambda trial: None)
    size = fitting_micro_batch(config, memory)
    if size is not None and size < config.runtime.micro_batch_tokens:
        yield f"runtime.micro_batch_tokens={size}"
    if not config.model.lora.rank:
        yield from works(f"model.lora.rank={_ADAPTER_RANK}", _adapted)
    more = (size for size in _sizes() if size > config.runtime.gpus_per_run * config.runtime.nodes)
    enough = (found for size in more for found in works(_placed(size), functools.partial(_widen, size=size)))
    yield from itertools.islice(enough, 1)


def _beside(config: RunConfig, memory: float | None, change: Callable[[RunConfig], None]) -> list[str] | None:
    """Settings that a change needs beside it to fit: none, fewer rows, recomputation, a smaller share for vLLM. None: it does not help."""
    for recompute, smaller, fewer in itertools.product((False, True), repeat=3):
        trial, settings = copy.deepcopy(config), []
        change(trial)
        if fewer and config.engine.kind == "native" and config.runtime.rollout_rows > _FEW_ROWS:
            trial.runtime.rollout_rows = _FEW_ROWS
            settings.append(f"runtime.rollout_rows={_FEW_ROWS}")
        if recompute and not config.runtime.gradient_checkpointing:
            trial.runtime.gradient_checkpointing = True
            settings.append("runtime.gradient_checkpointing=true")
        if smaller and (share := _share(trial, memory)) > 0:
            trial.engine.gpu_memory_utilization = share
            settings.append(f"engine.gpu_memory_utilization={share:g}")
        fit = fit_of(trial, memory)
        if fit is not None and fit.fits:
            return settings
    return None


def fitting_micro_batch(config: RunConfig, memory_gib: float | None = None) -> int | None:
    """The largest power of two of `runtime.micro_batch_tokens` with which the run fits, or one longest sequence; None: nothing fits."""
    longest = config.sampling.max_response_tokens + config.runtime.assumed.prompt_tokens
    for size in (*(2**power for power in range(_LARGEST_MICRO_BATCH, 0, -1) if 2**power > longest), longest):
        trial = copy.deepcopy(config)
        trial.runtime.micro_batch_tokens = size
        fit = fit_of(trial, memory_gib)
        if fit is not None and fit.fits:
            return size
    return None


def _share(config: RunConfig, memory: float | None) -> float:
    """The part of the GPU that training leaves to vLLM, in steps of 0.05; 0 for other engines."""
    fit = fit_of(config, memory)
    if fit is None or config.engine.kind != "vllm":
        return 0.0
    return math.floor((fit.plant.usable - fit.rollout.resident) / fit.plant.memory * 20) / 20


def _adapted(trial: RunConfig) -> None:
    trial.model.lora.rank = _ADAPTER_RANK


def _sizes() -> Iterator[int]:
    """Numbers of GPUs that one tries: 1, 2, 4, 8, then whole nodes."""
    yield from (1, 2, 4)
    nodes = 1
    while nodes <= _MOST_NODES:
        yield nodes * _GPUS_PER_NODE
        nodes *= 2


def _widen(trial: RunConfig, size: int) -> None:
    trial.runtime.ranks = 0
    trial.runtime.gpus_per_run = min(size, _GPUS_PER_NODE)
    trial.runtime.nodes = max(1, size // _GPUS_PER_NODE)


def _placed(count: int) -> str:
    if count <= _GPUS_PER_NODE:
        return f"{count} GPUs (runtime.gpus_per_run={count})"
    nodes = count // _GPUS_PER_NODE
    return f"{count} GPUs (runtime.gpus_per_run={_GPUS_PER_NODE} runtime.nodes={nodes})"


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

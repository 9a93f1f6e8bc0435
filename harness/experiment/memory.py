"""The memory of a run: bytes during an update and during rollouts, what does not fit its machine, and the settings that would make it fit.

Training: parameters, gradient sums and AdamW's two moments are float32 and sharded over all ranks (FSDP2, one rank included), as ZeRO
stage 3 counts them (arXiv:1910.02054: 16 bytes a parameter in all). A layer is gathered in the product's precision just before it is used,
the next one meanwhile; embedding and output projection stay gathered from forward to backward.
Activations are what autograd keeps of one micro-batch with attention that never writes its scores (arXiv:2205.05198 counts the same for
another layer): per token and layer the two norms in float32 and their outputs, queries, keys, values, attention's output, and the four
tensors of the gated feed-forward; with recomputation one hidden state a layer, and one layer whole.
"""

from __future__ import annotations

import copy
import itertools
import math
import operator
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.configuration.sections import GIB, GPU_MEMORY_GIB, host_memory_gib, visible_memory_gib
from harness.model.shapes import SCORES_CHUNK, ModelSize, positions_of, shape_of
from harness.model.system import processor

if TYPE_CHECKING:
    from harness.configuration.schema import RunConfig

_RESIDENT_PARTS = ("weights", "rounded weights", "gradients", "moments", "reference")  # in updates and rollouts
_LIBRARIES = 0.5e9  # a process that has loaded torch, transformers and pyarrow


@dataclass(frozen=True)
class Plant:
    """The machine of a run.

    Attributes:
        gpus: of all nodes.
        ranks: over which the model is sharded.
        engine_gpus: GPUs that hold one copy of the model for rollouts together.
        memory: bytes of one GPU.
        usable: bytes of it that tensors of this run can fill.
    """

    gpus: int
    ranks: int
    engine_gpus: int
    memory: float
    usable: float


def plant_of(config: RunConfig, memory_gib: float | None = None) -> Plant:
    """Return the machine of a run; `memory_gib` of a GPU where it is known, else the assumed kind's."""
    runtime, assumed = config.runtime, config.runtime.assumed
    gpus = runtime.gpus_per_run * runtime.nodes
    memory = GIB * (GPU_MEMORY_GIB[assumed.gpu] if memory_gib is None else memory_gib)
    return Plant(
        gpus=gpus,
        ranks=(runtime.ranks or runtime.gpus_per_run) * runtime.nodes,
        engine_gpus=min(gpus, int(getattr(config.engine, "tensor_parallel", 1))),
        memory=memory,
        usable=memory * assumed.usable_memory / runtime.runs_per_gpu,
    )


def rows_at_once(config: RunConfig) -> int:
    """Responses that the engine must hold together: the native one makes room for all of its rows at full length, others queue."""
    return config.runtime.rollout_rows if config.engine.kind == "native" else 1


def head_bytes(config: RunConfig) -> int:
    """Bytes of the likeliest tokens and their log-probabilities (int32, float32), for which the native engine makes room as well."""
    head = config.algorithm.surrogate.likeliest if config.engine.kind == "native" else 0
    return 8 * head * rows_at_once(config) * config.sampling.max_response_tokens


def longest_sequence(config: RunConfig) -> int:
    """Tokens of a prompt and the longest response."""
    return config.sampling.max_response_tokens + config.runtime.assumed.prompt_tokens


def element_bytes(config: RunConfig) -> int:
    """Bytes of an element of activations, the engine's weights and its cache; the native decoder rounds for the products alone."""
    return 2 if config.runtime.device == "cuda" and config.model.precision == "bfloat16" else 4


def update_memory(config: RunConfig, shape: ModelSize, ranks: int) -> dict[str, float]:
    """Bytes on one GPU in the middle of an update, by what they hold."""
    width, rank, size = element_bytes(config), config.model.lora.rank, shape.parameters
    trained_size = shape.adapter_parameters(rank) if rank else size  # adapters are counted as on every matrix
    recompute = config.runtime.gradient_checkpointing
    # Trained weights are float32; what is frozen under adapters has the precision of the products.
    weights = (width * size + 4 * trained_size if rank else 4 * size) / ranks
    tokens = max(config.runtime.micro_batch_tokens, longest_sequence(config))
    # Gradients that wait for their reduction.
    gradient_buffers = 0 if rank else (width + 4) * max(2 * shape.layer_parameters, shape.ends)
    chunk = SCORES_CHUNK["cuda" if config.runtime.device == "cuda" else "cpu"]
    tempered = config.sampling.temperature != 1.0
    parts = {
        "weights": weights,
        "gradients": 4 * trained_size / ranks,
        "moments": 8 * trained_size / ranks,
        "gathered": width * (shape.ends + 2 * shape.layer_parameters) + gradient_buffers,
        "activations": activation_bytes(shape, tokens, width, recompute),
        "logits": logit_bytes(shape, tokens, width, recompute, chunk=chunk, tempered=tempered, trains_head=not rank),
    }
    if config.algorithm.kl.coefficient:
        parts["reference"] = width * size / ranks
    return parts


def computer_memory(config: RunConfig, shape: ModelSize) -> dict[str, float]:
    """Bytes of a run of the built-in trainer without GPU at its peak, by what they hold: an update's, or a rollout's beside training's.

    An upper bound: rollouts are counted as the native engine makes room for them, all of its rows at full length. It samples from the
    weights that are trained. One rank gathers nothing.
    """
    ranks = config.runtime.ranks or 1
    parts = update_memory(config, shape, ranks * config.runtime.nodes)
    if ranks == 1 and (precision := config.model.precision) != "float32":
        # As the native decoder's products take them.
        size = 2 if precision == "bfloat16" and processor().bfloat16 else 4
        parts["rounded weights"] = size * (shape.parameters - shape.ends)
    update = {name: ranks * size for name, size in parts.items() if ranks > 1 or name != "gathered"}
    cache = rows_at_once(config) * shape.cache_bytes(longest_sequence(config)) * element_bytes(config) / 2
    rollout = {name: update[name] for name in _RESIDENT_PARTS if name in update} | {"keys and values": cache}
    rollout |= {"head": float(head)} if (head := head_bytes(config)) else {}
    peak = max(update, rollout, key=total)
    return peak | {"libraries": ranks * _LIBRARIES}


def awake_engine(config: RunConfig, shape: ModelSize, plant: Plant) -> float:
    """Bytes that an engine keeps during updates.

    vLLM keeps none unless it is told never to sleep. The engines of our own keep their copy of the weights.
    """
    if config.engine.kind != "vllm":
        return float(element_bytes(config) * shape.parameters)
    return 0.0 if config.engine.sleep_level else float(config.engine.gpu_memory_utilization * plant.memory)


def total(parts: Mapping[str, float]) -> float:
    """Bytes of all parts together."""
    return sum(parts.values())


def activation_bytes(shape: ModelSize, tokens: int, width: int, recompute: bool) -> float:
    """Bytes that autograd keeps of a packed micro-batch; `width` bytes an element."""
    norm_width = 2 * shape.hidden + (shape.query + shape.key_value if shape.normed_queries else 0)
    norms = (4 + 2 * width) * norm_width
    attention = width * 2 * (shape.query + shape.key_value)
    layer = norms + attention + width * 4 * shape.intermediate
    if recompute:
        return float(tokens * (shape.layers * width * shape.hidden + layer))
    return float(tokens * shape.layers * layer)


def logit_bytes(
    shape: ModelSize,
    tokens: int,
    width: int,
    recompute: bool,
    *,
    chunk: int,
    tempered: bool = False,
    trains_head: bool = True,
) -> float:
    """The scores' peak in backward: a chunk's copies in float32, and all logits, or where they are recomputed the projection's gradient.

    `tokens` of the micro-batch, `width` bytes an element of the products, `chunk` logits computed at once. `recompute`: none are kept
    from the forward. `tempered`: logits and tempered logits are two tensors. `trains_head`: the projection has a gradient in float32.
    """
    chunk = min(chunk, tokens * shape.vocabulary)
    # Logits, those over the temperature or their log-probabilities, probabilities.
    copies = 3 if tempered or width < 4 else 2
    if not recompute:
        return float(4 * copies * chunk + width * tokens * shape.vocabulary)
    scoring, head = (4 * copies + width) * chunk, shape.embedding * trains_head
    return float(max(scoring + 4 * head, (4 + width) * chunk + (4 + width) * head))


def resident_bytes(parts: Mapping[str, float]) -> float:
    """Bytes that training keeps on a GPU between updates."""
    return sum(parts.get(name, 0.0) for name in _RESIDENT_PARTS)


@dataclass(frozen=True)
class RolloutMemory:
    """Bytes on one GPU during rollouts: what training keeps, the engine's weights, its cache, and what of the cache is needed at once."""

    resident: float
    engine: float
    cache: float
    needed_cache: float
    fits: bool


def rollout_memory(config: RunConfig, shape: ModelSize, plant: Plant, resident: float) -> RolloutMemory:
    """Beside `resident` bytes of training. Precision of the engine and its cache is the trainer's."""
    width, settings = element_bytes(config), config.engine
    engine = width * shape.parameters / plant.engine_gpus
    cache = plant.usable - resident - engine
    if settings.kind == "vllm":  # it is told a share of the GPU; others take what is left
        cache = settings.kv_cache_memory_gib * GIB or settings.gpu_memory_utilization * plant.memory - engine
    row = shape.cache_bytes(longest_sequence(config)) * width / 2 / plant.engine_gpus
    needed_cache = rows_at_once(config) * row + head_bytes(config)
    fits = cache >= needed_cache and resident + engine + cache <= plant.usable
    return RolloutMemory(resident, engine, cache, needed_cache, fits)


# ---- what fits ----

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
    def update_fits(self) -> bool:
        return total(self.update) <= self.plant.usable

    @property
    def fits(self) -> bool:
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
    return Fit(shape, plant, update, rollout_memory(config, shape, plant, resident_bytes(update)))


def _fits(config: RunConfig, memory: float | None, changes: Mapping[str, Any]) -> bool:
    fit = fit_of(_apply_changes(config, changes), memory)
    return fit is not None and fit.fits


def misfits(config: RunConfig) -> list[str]:
    """List why the run cannot be trained on its machine, each reason with its remedy; empty where it can or the sizes are unknown.

    The machine is the GPU that the driver shows where runs are started here, else the kind in `runtime.assumed.gpu`; without
    `runtime.device=cuda` it is this computer's memory. Other backends than the built-in one place a model by their own settings: for them
    only its positions are looked at.
    """
    reasons = [_length_misfit(config)]
    local = not config.runtime.elsewhere
    if config.backend.kind == "builtin" and config.runtime.device == "cuda":
        memory = visible_memory_gib() if local else None
        fit = fit_of(config, memory)
        if fit is not None and not fit.fits:
            reasons.append(_gpu_misfit(config, fit, memory))
    elif config.backend.kind == "builtin" and local:
        reasons.append(_computer_misfit(config))
    return [reason for reason in reasons if reason]


def _length_misfit(config: RunConfig) -> str:
    cap, positions = max(config.sampling.max_response_tokens, *config.evaluation.caps), positions_of(config.model)
    # Prompts have at least one token; those of the testbed's task have as many as it says.
    tasks = (config.task, *config.evaluation.benchmarks.values())
    prompt = max(getattr(task, "prompt_tokens", 1) for task in tasks)
    if positions is None or cap + prompt <= positions:
        return ""
    fix = ", or choose a model with more positions"
    if config.model.kind == "testbed":
        fix = (
            f" to {positions - prompt} or less (harness import ... for=testbed keeps the testbed's own lengths), or name the model that "
            "they are for"
        )
    return (
        f"responses of up to {cap} tokens and their prompts exceed the {positions} positions of {model_name(config)}; lower "
        f"sampling.max_response_tokens and evaluation.caps{fix}"
    )


def _computer_misfit(config: RunConfig) -> str:
    """What an update takes is refused; of rollouts there is an upper bound only, which `memory_lines` tells."""
    shape, ranks, memory = shape_of(config.model), config.runtime.ranks or 1, host_memory_gib()
    if shape is None:
        return ""
    parts = update_memory(config, shape, ranks * config.runtime.nodes)
    run_gib = ranks * total(parts) / GIB
    if run_gib <= memory:
        return ""
    return (
        f"training {model_name(config)} ({billions(shape.parameters)} parameters) takes about {run_gib:.1f} GiB ({parts_text(parts)}), "
        f"this computer has {memory:.1f}; train on GPUs (runtime.device=cuda), or set runtime.gradient_checkpointing=true, "
        "model.lora.rank or a lower runtime.micro_batch_tokens"
    )


def _gpu_misfit(config: RunConfig, fit: Fit, memory: float | None) -> str:
    plant, rows, cache = fit.plant, rows_at_once(config), max(fit.rollout.needed_cache, fit.rollout.cache)
    kind = f"{config.runtime.assumed.gpu} (runtime.assumed.gpu)" if memory is None else f"GPU of {memory:.1f} GiB"
    if fit.update_fits:
        cache_parts = "keys, values and head" if head_bytes(config) else "keys and values"
        problem = (
            f"rollouts of {model_name(config)} need {fit.rollout.resident / GIB:.1f} GiB of training state, "
            f"{fit.rollout.engine / GIB:.1f} GiB of engine weights and {cache / GIB:.1f} GiB of {cache_parts} "
            f"(with room for {rows} response(s) of {config.sampling.max_response_tokens} tokens) on each of {plant.gpus} GPU(s)"
        )
    else:
        problem = (
            f"an update of {model_name(config)} ({billions(fit.shape.parameters)} parameters) takes about "
            f"{total(fit.update) / GIB:.1f} GiB on each of {plant.gpus} GPU(s) ({parts_text(fit.update)})"
        )
    fixes = ", or ".join(_fixes(config, memory))
    advice = f"It would fit with {fixes}" if fixes else "Nothing tried makes it fit: choose a smaller model"
    return f"{problem}; {plant.usable / GIB:.1f} GiB of one {kind} can be filled. {advice}"


def _fixes(config: RunConfig, memory: float | None) -> Iterator[str]:
    """Single settings that make it fit, each with what it needs beside it, and the fewest GPUs that do."""
    if fix := _repair(config, memory, "", {}):
        yield fix
    size = fitting_micro_batch(config, memory)
    if size is not None and size < config.runtime.micro_batch_tokens:
        yield f"runtime.micro_batch_tokens={size}"
    adapter = {"model.lora.rank": _ADAPTER_RANK}
    if not config.model.lora.rank and (fix := _repair(config, memory, _settings(adapter), adapter)):
        yield fix
    for count in _GPU_COUNTS:
        if count > config.runtime.gpus_per_run * config.runtime.nodes:
            gpu_settings = {"runtime.gpus_per_run": min(count, _GPUS_PER_NODE)}
            if count > _GPUS_PER_NODE:
                gpu_settings["runtime.nodes"] = count // _GPUS_PER_NODE
            setting = f"{count} GPUs ({_settings(gpu_settings, ' ')})"
            if fix := _repair(config, memory, setting, {"runtime.ranks": 0, "runtime.nodes": 1, **gpu_settings}):
                yield fix
                return


def _repair(config: RunConfig, memory: float | None, setting: str, changes: dict[str, Any]) -> str:
    """The setting with the least that it needs beside it to fit: fewer rows, a smaller share for vLLM, recomputation; empty: no help."""
    for recompute, smaller_share, fewer_rows in itertools.product((False, True), repeat=3):
        extra: dict[str, Any] = {}
        if fewer_rows and rows_at_once(config) > _FEW_ROWS:
            extra["runtime.rollout_rows"] = _FEW_ROWS
        if recompute and not config.runtime.gradient_checkpointing:
            extra["runtime.gradient_checkpointing"] = True
        if smaller_share and (share := _share(_apply_changes(config, changes | extra), memory)) > 0:
            extra["engine.gpu_memory_utilization"] = share
        if _fits(config, memory, changes | extra):
            return " with ".join(filter(None, [setting, _settings(extra)]))
    return ""


def _settings(values: Mapping[str, Any], separator: str = " and ") -> str:
    return separator.join(f"{key}={str(value).lower()}" for key, value in values.items())


def _apply_changes(config: RunConfig, changes: Mapping[str, Any]) -> RunConfig:
    trial = copy.deepcopy(config)
    for key, value in changes.items():
        section, _, name = key.rpartition(".")
        setattr(operator.attrgetter(section)(trial), name, value)
    return trial


def fitting_micro_batch(config: RunConfig, memory_gib: float | None = None) -> int | None:
    """The largest power of two of `runtime.micro_batch_tokens` with which the run fits, or one longest sequence; None: nothing fits."""
    longest = longest_sequence(config)
    powers = (2**power for power in range(_LARGEST_MICRO_BATCH, 0, -1))
    sizes = (*(size for size in powers if size > longest), longest)
    return next((n for n in sizes if _fits(config, memory_gib, {"runtime.micro_batch_tokens": n})), None)


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


def parts_text(parts: dict[str, float]) -> str:
    """Parts in GiB, largest first."""
    return ", ".join(f"{name} {parts[name] / GIB:.1f}" for name in sorted(parts, key=parts.__getitem__, reverse=True))


def memory_lines(configs: Sequence[RunConfig], runs_at_once: int) -> Iterator[str]:
    """Tell what a run without GPU takes of this computer's memory, by the arm that takes most, and the fix if `runs_at_once` do not fit."""
    local_configs = (
        config
        for config in configs
        if config.backend.kind == "builtin" and not config.runtime.elsewhere and config.runtime.device != "cuda"
    )
    estimates = [computer_memory(config, shape) for config in local_configs if (shape := shape_of(config.model))]
    if not estimates:
        return
    parts, memory = max(estimates, key=total), host_memory_gib()
    run_gib = total(parts) / GIB
    line = f"memory: a run takes up to about {run_gib:.1f} GiB ({parts_text(parts)}), this computer has {memory:.1f}"
    if runs_at_once and memory < run_gib:
        one = "runtime.workers=1 and " * (runs_at_once > 1)
        line += f"; it may not fit: set {one}a lower runtime.rollout_rows or runtime.micro_batch_tokens"
    elif memory < runs_at_once * run_gib:
        line += f"; {runs_at_once} at once take more than there is: set runtime.workers={int(memory / run_gib)}"
    yield line

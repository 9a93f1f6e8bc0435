"""Bytes on one GPU: during an update of the built-in trainer, and during rollouts beside what training keeps there.

Training (`harness.model.loading`): parameters, gradient sums and AdamW's two moments are float32 and sharded over all ranks (FSDP2, one
rank included), as ZeRO stage 3 counts them (arXiv:1910.02054: 16 bytes a parameter in all); a layer is gathered in the product's
precision just before it is used, the next one meanwhile, and embedding and output projection stay gathered from forward to backward.
Activations are what autograd keeps of one micro-batch with attention that never writes its scores (arXiv:2205.05198 counts the same for
another layer): per token and layer the two norms in float32 and their outputs, queries, keys, values, attention's output, and the four
tensors of the gated feed-forward; with recomputation one hidden state a layer, and one layer whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.configuration.gpus import GIB, GPUS
from harness.model.shapes import ModelSize

if TYPE_CHECKING:
    from harness.configuration.schema import RunConfig

# Logits that `harness.model.token_scores` computes at once (the same numbers there, where torch is).
SCORES_CHUNK = {"cpu": 2**23, "cuda": 2**27}
_KEPT = ("weights", "gradients", "moments", "reference")  # between updates
_LIBRARIES = 0.5e9  # a process that has loaded torch, transformers and pyarrow
_NO_WEIGHTS = ("openai",)  # engines that hold none on the trainer's GPUs


@dataclass(frozen=True)
class Plant:
    """The machine of a run: GPUs of a kind, ranks that shard the model, replicas of the engine.

    Attributes:
        gpu: name in `GPUS`.
        gpus: of all nodes.
        ranks: over which the model is sharded.
        engine_gpus: GPUs that hold one copy of the model for rollouts together.
        share: of each GPU that is this run's (`runtime.runs_per_gpu`).
        memory: bytes of one GPU.
        usable: bytes of it that tensors of this run can fill.
    """

    gpu: str
    gpus: int
    ranks: int
    engine_gpus: int
    share: float
    memory: float
    usable: float

    @property
    def replicas(self) -> int:
        """Engines that generate side by side."""
        return max(1, self.gpus // self.engine_gpus)


def plant_of(config: RunConfig, memory_gib: float | None = None) -> Plant:
    """Return the machine that the configuration gives a run; `memory_gib` of a GPU where it is known, else the assumed kind's."""
    runtime, assumed = config.runtime, config.runtime.assumed
    gpus = runtime.gpus_per_run * runtime.nodes
    # The built-in trainer has one engine a rank.
    sampler = runtime.verl if config.backend.kind == "verl" else config.engine
    engine_gpus = int(getattr(sampler, "tensor_parallel", 1))
    ranks = (runtime.ranks or runtime.gpus_per_run) * runtime.nodes
    memory_gib = GPUS[assumed.gpu].memory_gib if memory_gib is None else memory_gib
    memory, share = memory_gib * GIB, 1 / runtime.runs_per_gpu
    return Plant(
        gpu=assumed.gpu,
        gpus=gpus,
        ranks=ranks,
        engine_gpus=min(gpus, engine_gpus),
        share=share,
        memory=memory,
        usable=memory * share * assumed.usable_memory,
    )


def rows_at_once(config: RunConfig) -> int:
    """Responses that the engine must hold together: the native one makes room for all of its rows at full length, others queue."""
    native = config.backend.kind == "builtin" and config.engine.kind == "native"
    return config.runtime.rollout_rows if native else 1


def element_bytes(config: RunConfig) -> int:
    """Bytes of an element of the products, the engine's weights and its cache."""
    return 4 if config.model.precision in ("float32", "mixed") else 2


def update_memory(config: RunConfig, shape: ModelSize, ranks: int) -> dict[str, float]:
    """Bytes on one GPU in the middle of an update, by what they hold."""
    width, rank, size = element_bytes(config), config.model.lora.rank, shape.parameters
    trained = shape.adapter_parameters(rank) if rank else size  # adapters are counted as on every matrix
    recompute, on_gpu = config.runtime.gradient_checkpointing, config.runtime.device == "cuda"
    weights = 4 * (size + (trained if rank else 0)) / ranks
    longest = config.sampling.max_response_tokens + config.runtime.assumed.prompt_tokens
    split = config.runtime.verl.sequence_parallel if config.backend.kind == "verl" else 1
    tokens = -(-max(config.runtime.micro_batch_tokens, longest) // split)
    # Gradients that wait for their reduction.
    waiting = 0 if rank else (width + 4) * max(2 * shape.layer_parameters, shape.ends)
    chunk, tempered = SCORES_CHUNK["cuda" if on_gpu else "cpu"], config.sampling.temperature != 1.0
    parts = {
        "weights": weights,
        "gradients": 4 * trained / ranks,
        "moments": 8 * trained / ranks,
        "gathered": width * (shape.ends + 2 * shape.layer_parameters) + waiting,
        "activations": activation_bytes(shape, tokens, width, recompute),
        "logits": logit_bytes(
            shape, tokens, width, recompute, chunk=chunk, tempered=tempered, trains_head=not rank
        ),
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
    update = {name: ranks * size for name, size in parts.items() if ranks > 1 or name != "gathered"}
    longest = config.sampling.max_response_tokens + config.runtime.assumed.prompt_tokens
    cache = rows_at_once(config) * shape.cache_bytes(longest) * element_bytes(config) / 2
    rollout = {name: update[name] for name in _KEPT if name in update} | {"keys and values": cache}
    largest = max(update, rollout, key=lambda held: sum(held.values()))
    return largest | {"libraries": ranks * _LIBRARIES}


def awake_engine(config: RunConfig, shape: ModelSize, plant: Plant) -> float:
    """Bytes that an engine beside the built-in trainer keeps during updates.

    vLLM keeps none unless it is told never to sleep. The engines of our own keep their copy of the weights.
    """
    if config.backend.kind == "verl" or config.engine.kind in _NO_WEIGHTS:
        return 0.0
    if config.engine.kind != "vllm":
        return float(element_bytes(config) * shape.parameters)
    return 0.0 if config.engine.sleep_level else float(config.engine.gpu_memory_utilization * plant.memory)


def activation_bytes(shape: ModelSize, tokens: int, width: int, recompute: bool) -> float:
    """Bytes that autograd keeps of a packed micro-batch; `width` bytes an element."""
    normed = 2 * shape.hidden + (shape.query + shape.key_value if shape.normed_queries else 0)
    norms = (4 + 2 * width) * normed
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

    Args:
        shape: the model's.
        tokens: of the micro-batch.
        width: bytes of an element of the products.
        recompute: no logits are kept from the forward.
        chunk: logits that are computed at once.
        tempered: the temperature is not 1, so logits and tempered logits are two tensors.
        trains_head: the projection has a gradient, which is added up over chunks in float32.
    """
    chunk = min(chunk, tokens * shape.vocabulary)
    # Logits, those over the temperature or their log-probabilities, probabilities.
    copies = 3 if tempered or width < 4 else 2
    if not recompute:
        return float(4 * copies * chunk + width * tokens * shape.vocabulary)
    scoring, head = (4 * copies + width) * chunk, shape.embedding * trains_head
    return float(max(scoring + 4 * head, (4 + width) * chunk + (4 + width) * head))


def resident(config: RunConfig, parts: Mapping[str, float]) -> float:
    """Bytes that training keeps on a GPU between updates: none where verl moves them to the host."""
    if config.backend.kind == "verl" and config.runtime.verl.offload:
        return 0.0
    return sum(parts.get(name, 0.0) for name in _KEPT)


@dataclass(frozen=True)
class RolloutMemory:
    """Bytes on one GPU during rollouts: what training keeps, the engine's weights, its keys and values.

    Attributes:
        needed: keys and values of the longest responses that must fit at once.
        responses: that fit at once into one engine's cache, at mean length.
        fits: everything fits, and the cache holds what is needed.
    """

    resident: float
    engine: float
    cache: float
    needed: float
    responses: float
    fits: bool


def rollout_memory(config: RunConfig, shape: ModelSize, plant: Plant, kept: float) -> RolloutMemory:
    """Beside `kept` bytes of training. Precision of the engine and its cache is the trainer's."""
    width, verl = element_bytes(config), config.backend.kind == "verl"
    elsewhere = config.backend.kind == "builtin" and config.engine.kind in _NO_WEIGHTS
    engine = 0.0 if elsewhere else width * shape.parameters / plant.engine_gpus
    cache = plant.usable - kept - engine
    if verl or config.engine.kind == "vllm":  # they are told a share of the GPU; others take what is left
        share = (config.runtime.verl if verl else config.engine).gpu_memory_utilization
        cache = getattr(config.engine, "kv_cache_memory_gib", 0.0) * GIB or share * plant.memory - engine
    prompt, cap = config.runtime.assumed.prompt_tokens, config.sampling.max_response_tokens
    longest, mean = (
        shape.cache_bytes(prompt + tokens) * width / 2 / plant.engine_gpus
        for tokens in (cap, mean_response(config))
    )
    needed = rows_at_once(config) * longest
    fits = cache >= needed and kept + engine + cache <= plant.usable
    return RolloutMemory(kept, engine, cache, needed, max(0.0, cache) / mean, fits)


def mean_response(config: RunConfig) -> float:
    """The assumed mean response, within the cap."""
    cap = config.sampling.max_response_tokens
    assumed = config.runtime.assumed.response_tokens
    return float(min(cap, cap / 4 if assumed is None else assumed))

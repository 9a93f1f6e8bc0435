"""The built-in trainer: one loop for the testbed, one GPU, and several GPUs of one node under torchrun."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from harness.configuration.error import ConfigError
from harness.configuration.schema import RunConfig
from harness.configuration.sections import RuntimeConfig
from harness.store import RunDir
from harness.training.torchrun import distributed, refused_places, train_by

TRAINER = "harness.training.loop"  # where `train_run` is


@dataclass
class Config:
    """No settings."""

    kind: str = "builtin"


def check(config: RunConfig) -> list[str]:
    """See the family's contract. Most of what cannot be combined is an error when the configuration is loaded."""
    return [*refused_engines(config), *_refused_algorithm(config), *refused_places(config.runtime)]


def refused_engines(config: RunConfig) -> Iterator[str]:
    """What an engine of ours cannot do in the processes that train, whoever trains in them."""
    runtime, tensor_parallel = config.runtime, getattr(config.engine, "tensor_parallel", 1)
    if config.engine.kind == "vllm":
        yield from refused_beside_vllm(runtime, "engine=vllm")
        if runtime.device == "cuda" and config.algorithm.source.kind == "initial_policy":
            yield "algorithm.source=initial_policy with engine=vllm on a GPU: a process has one vLLM; use engine=native"
    if tensor_parallel > 1 and distributed(runtime):
        yield f"engine.tensor_parallel={tensor_parallel} shards one engine, and every rank has its own; set runtime.ranks=1"


def refused_beside_vllm(runtime: RuntimeConfig, setting: str) -> Iterator[str]:
    """Where a vLLM in the process that trains, which `setting` asks for, cannot be."""
    if runtime.device == "cuda" and runtime.runs_per_gpu > 1:
        yield f"runtime.runs_per_gpu={runtime.runs_per_gpu} with {setting}: vLLM takes what is free on the GPU; set it to 1"


def _refused_algorithm(config: RunConfig) -> Iterator[str]:
    algorithm, runtime, model = config.algorithm, config.runtime, config.model
    several, source = distributed(runtime), algorithm.source.kind
    if algorithm.advantage.needs_values and (model.kind != "testbed" or several):
        yield f"algorithm.advantage={algorithm.advantage.kind}: a critic is built for model=testbed on one rank only"
    if source == "demonstrations" and (model.kind, config.task.kind) != ("testbed", "arithmetic"):
        yield "algorithm.source=demonstrations are the testbed's own; use model=testbed and task=arithmetic"
    if source != "policy" and several:
        yield f"algorithm.source={source} trains on one rank only; set runtime.ranks=1"
    # A reference policy that moves is a copy of the native decoder's weights (`open_policy` says where that one trains).
    has_reference = algorithm.kl.coefficient > 0 or algorithm.surrogate.needs_reference
    is_native = model.kind == "testbed" or not (
        runtime.device == "cuda" or runtime.gradient_checkpointing or model.lora.rank
    )
    if algorithm.kl.reset_every_steps and has_reference and (several or not is_native):
        yield f"algorithm.kl.reset_every_steps={algorithm.kl.reset_every_steps} needs the built-in decoder: set it to null"


def train(config: RunConfig, run: RunDir, stop: Callable[[], bool], attempt: int) -> bool:
    if reasons := check(config):
        raise ConfigError("; ".join(reasons))
    return train_by(TRAINER, config, run, stop, attempt)

"""The built-in trainer: one loop for the testbed, one GPU, and several GPUs of one node under torchrun."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.configuration.error import ConfigError
from harness.training.torchrun import distributed, refused_places

if TYPE_CHECKING:
    from harness.configuration.schema import RunConfig
    from harness.store import RunDir

TRAINER = "harness.training.loop"  # where `train_run` is


@dataclass
class Config:
    """No settings."""

    kind: str = "builtin"


def check(config: RunConfig) -> list[str]:
    """See the family's contract. Most of what cannot be combined is an error when the configuration is loaded."""
    return [
        *refused_engines(config),
        *_needs_the_testbed(config),
        *_moves_the_reference(config),
        *_needs_one_place(config),
    ]


def refused_engines(config: RunConfig) -> Iterator[str]:
    """What an engine of ours cannot do in the processes that train, whoever trains in them."""
    runtime, engine = config.runtime, config.engine.kind
    if engine == "vllm" and runtime.device == "cuda" and runtime.runs_per_gpu > 1:
        yield (
            f"runtime.runs_per_gpu={runtime.runs_per_gpu} with engine=vllm: vLLM sizes its cache by what is free on the whole GPU and "
            "checks that figure at start and at sleep, while other runs take and give memory; set runtime.runs_per_gpu=1 or engine=native"
        )
    if engine == "vllm" and runtime.device == "cuda" and config.algorithm.source.kind == "initial_policy":
        yield (
            "algorithm.source=initial_policy with engine=vllm on a GPU: vLLM's allocator serves one engine a process; "
            "use engine=native or engine=transformers"
        )
    if getattr(config.engine, "tensor_parallel", 1) > 1 and distributed(runtime):
        yield (
            f"engine.tensor_parallel={config.engine.tensor_parallel} shards one engine over GPUs, and each of several ranks has an engine "
            "of its own; set runtime.ranks=1, or engine.tensor_parallel=1"
        )
    if engine == "vllm" and runtime.deterministic:
        yield (
            "runtime.deterministic=true with engine=vllm: which requests vLLM computes together changes the last bits of its samples; use "
            "engine=native or transformers"
        )


def _needs_the_testbed(config: RunConfig) -> Iterator[str]:
    algorithm, model = config.algorithm, config.model.kind
    if algorithm.advantage.needs_values and (model != "testbed" or distributed(config.runtime)):
        yield (
            f"algorithm.advantage={algorithm.advantage.kind}: a critic is built for model=testbed on one rank only; choose an advantage "
            "without values"
        )
    if algorithm.source.kind == "demonstrations" and (model, config.task.kind) != ("testbed", "arithmetic"):
        yield (
            f"algorithm.source=demonstrations: the testbed's demonstrator knows neither model={model} nor task={config.task.kind}; use "
            "algorithm.source=initial_policy"
        )


def _moves_the_reference(config: RunConfig) -> Iterator[str]:
    """A reference policy that moves is a copy of the native decoder's weights (`open_policy` says where that one trains)."""
    algorithm, runtime, model = config.algorithm, config.runtime, config.model
    has_reference = algorithm.kl.coefficient > 0 or algorithm.surrogate.needs_reference
    if algorithm.kl.reset_every_steps is None or not has_reference:
        return
    elsewhere = runtime.device == "cuda" or runtime.gradient_checkpointing
    if distributed(runtime) or (model.kind != "testbed" and (elsewhere or model.lora.rank > 0)):
        yield (
            f"algorithm.kl.reset_every_steps={algorithm.kl.reset_every_steps} copies the weights of the built-in decoder, which trains the "
            "testbed's models, and others on one CPU rank; set it to null"
        )


def _needs_one_place(config: RunConfig) -> Iterator[str]:
    runtime = config.runtime
    yield from refused_places(runtime)
    if config.algorithm.source.kind != "policy" and distributed(runtime):
        yield f"algorithm.source={config.algorithm.source.kind} trains on one rank only; set runtime.ranks=1"


def train(config: RunConfig, run: RunDir, stop: Callable[[], bool], attempt: int) -> bool:
    from harness.training.torchrun import train_on_ranks

    if reasons := check(config):
        raise ConfigError("; ".join(reasons))

    if distributed(config.runtime):
        return train_on_ranks(config.runtime, run, stop, attempt)
    from harness.training.loop import train_run

    return train_run(config, run, stop, attempt)

"""The built-in trainer: one loop for the testbed, one GPU, and several GPUs or nodes under torchrun."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.configuration.schema import RunConfig
    from harness.store import RunDir


@dataclass
class Config:
    """No settings."""

    kind: str = "builtin"


def check(config: RunConfig) -> list[str]:
    """See the family's contract. Most of what cannot be combined is an error when the configuration is loaded."""
    runtime, engine = config.runtime, config.engine.kind
    refused = []
    if engine == "openai":
        refused.append(
            "engine.kind=openai: a server's weights cannot be updated; use engine=vllm, native or transformers"
        )
    if engine == "vllm" and runtime.device == "cuda" and runtime.runs_per_gpu > 1:
        refused.append(
            f"runtime.runs_per_gpu={runtime.runs_per_gpu} with engine=vllm: vLLM sizes its cache by what is free on the whole GPU and "
            "checks that figure at start and at sleep, while other runs take and give memory; set runtime.runs_per_gpu=1 or engine=native"
        )
    if engine == "vllm" and runtime.deterministic:
        refused.append(
            "runtime.deterministic=true with engine=vllm: which requests vLLM computes together changes the last bits of its samples; use "
            "engine=native or transformers"
        )
    return refused


def train(config: RunConfig, run: RunDir, stop: Callable[[], bool], attempt: int) -> bool:
    """See the family's contract."""
    from harness.training.torchrun import distributed, train_on_ranks

    if distributed(config.runtime):
        return train_on_ranks(config.runtime, run, stop, attempt)
    from harness.training.run import train_run

    return train_run(config, run, stop, attempt)

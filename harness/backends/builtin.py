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
    if config.engine.kind == "openai":
        return [
            "engine.kind=openai: a server's weights cannot be updated; use engine=vllm, native or transformers"
        ]
    return []


def train(config: RunConfig, run: RunDir, stop: Callable[[], bool], attempt: int) -> bool:
    """See the family's contract."""
    from harness.training.torchrun import distributed, train_on_ranks

    if distributed(config.runtime):
        return train_on_ranks(config.runtime, run, stop, attempt)
    from harness.training.run import train_run

    return train_run(config, run, stop, attempt)

"""The testbed's tiny policy: randomly initialised and warmed up by supervised fine-tuning on the demonstrator."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.configuration.error import ConfigError
from harness.testbed.recipe import Config as Config


def prepare(config: Config, task: Any, cache: Path, linear_kernel: str) -> Path:
    """Warm up, or reuse the cached checkpoint of exactly this recipe; see the family's contract.

    Raises:
        ConfigError: the task is not the arithmetic one that the demonstrator knows.
    """
    from harness.testbed.warm_up import prepare_testbed

    if task.kind != "arithmetic":
        raise ConfigError(f"model=testbed knows only task=arithmetic, not {task.kind!r}")
    return prepare_testbed(config, task, cache, linear_kernel)

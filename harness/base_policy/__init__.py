"""Sources of the initial policy. A member defines `Config` and

`prepare(config, task, seed: int, cache: Path, linear_kernel: str) -> Path`: an ordinary `transformers` checkpoint folder (config,
safetensors, tokenizer) of the policy before RL of a training seed, made once and cached by the hash of everything that went into it.
It may define `check(config, task)`, which raises `ConfigError` for what `prepare` would refuse, and reads no weights.

May import: configuration, model, problems, rollout, store, testbed.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from pathlib import Path


class Member(Protocol):
    """The functions that the module of a member defines."""

    @abstractmethod
    def prepare(self, config: Any, task: Any, seed: int, cache: Path, linear_kernel: str) -> Path: ...

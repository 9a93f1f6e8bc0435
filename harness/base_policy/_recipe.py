"""What a cold start is made of, and how training seeds are crossed with several."""

import dataclasses
import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.configuration.error import Checked, ConfigError, ranged
from harness.configuration.registry import place


@dataclass
class ColdStart(Checked, key="model.cold_start"):
    """Supervised training on demonstrations before RL, of all weights. Its last bits depend on the machine (rounding).

    Attributes:
        steps: optimiser steps; 0: no cold start.
        demonstrations: how many are drawn; none is a held-out problem.
        batch: demonstrations a step; the loss is the mean over their response tokens.
        learning_rate: AdamW's, after a rise over five steps.
        seed: which demonstrations are drawn, and their order.
        path: a JSONL file of lines `{"problem", "answer", "response"}`, from which they are drawn; empty: the task writes them. The file's
            content is part of a run's identity.
    """

    steps: int = ranged(0, low=0)
    demonstrations: int = ranged(128, low=1)
    batch: int = ranged(16, low=1)
    learning_rate: float = ranged(2e-5, low=0.0)
    seed: int = 0
    path: str = place("")

    def __post_init__(self) -> None:
        super().__post_init__()
        keys = [item.name for item in dataclasses.fields(self) if getattr(self, item.name) != item.default]
        if keys and not self.steps:
            raise ConfigError(f"model.cold_start.{keys[0]} changes nothing with model.cold_start.steps=0: set steps")

    def identity(self) -> dict[str, Any]:
        """Return what a run's id holds: the content of the file instead of its path. Raises `ConfigError` where it cannot be read."""
        try:
            content = hashlib.sha256(Path(self.path).read_bytes()).hexdigest() if self.path else ""
        except OSError as error:
            raise ConfigError(f"model.cold_start.path={self.path}: {error.strerror}; give a JSONL file") from error
        return dataclasses.asdict(self) | {"path": content}


@dataclass
class Bases(Checked, key="model.bases"):
    """The cold starts that runs begin from: training seed s from number `first` + s mod `count`. Each has demonstrations of its own.

    Attributes:
        first: number of the first.
        count: how many take turns; 1: all training seeds share one.
    """

    first: int = ranged(0, low=0)
    count: int = ranged(1, low=1)

    def index(self, seed: int) -> int:
        return self.first + seed % self.count

"""A randomly initialised model of a given shape with the testbed's tokenizer: for tests and speed measurements, it knows nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.base_policy.pretrained import Lora
from harness.configuration.error import ConfigError, require
from harness.model.shapes import SHAPES


@dataclass
class Config:
    """Shape and initialisation.

    Attributes:
        shape: a name in `harness.model.shapes.SHAPES`.
        overrides: keys of the shape's `transformers` configuration to set otherwise (`num_hidden_layers: 2`).
        seed: of the initial weights.
        precision, lora: as in model=pretrained.
    """

    kind: str = "random_init"
    shape: str = "qwen2.5-0.5b"
    overrides: dict[str, Any] = field(default_factory=dict)
    seed: int = 0
    precision: str = "bfloat16"
    lora: Lora = field(default_factory=Lora)

    def __post_init__(self) -> None:
        require("model.shape", self.shape, tuple(SHAPES))
        require("model.precision", self.precision, ("bfloat16", "float16", "float32"))
        unknown = sorted(set(self.overrides) - set(SHAPES[self.shape]) - {"head_dim"})
        if unknown:
            raise ConfigError(
                f"model.overrides has unknown keys {', '.join(unknown)}; choose of: {', '.join(SHAPES[self.shape])}"
            )


def prepare(config: Config, task: Any, seed: int, cache: Path, linear_kernel: str) -> Path:
    """Write the checkpoint once; see the family's contract."""
    from harness.base_policy._random_checkpoint import random_checkpoint

    return random_checkpoint({**SHAPES[config.shape], **config.overrides}, config.seed, cache)

"""Any causal language model of `transformers`: a Hugging Face id at a pinned revision, a checkpoint's folder, or a GGUF file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.configuration.error import Checked, ConfigError, choice, ranged


@dataclass
class Lora(Checked, key="model.lora"):
    """Low-rank adapters (arXiv:2106.09685) in place of full training; `rank` 0 trains all weights.

    Attributes:
        rank: of the update of each adapted matrix.
        alpha: the update is scaled by alpha / rank.
        targets: names of the adapted modules separated by commas, or `all-linear`.
    """

    rank: int = ranged(0, low=0)
    alpha: float = ranged(32.0, low=1e-9)
    targets: str = "all-linear"


@dataclass
class Config(Checked, key="model"):
    """A pretrained policy.

    Attributes:
        path: `ORG/NAME` on the Hub, a folder, a GGUF file, or `PACKAGE:FILE.gguf` inside an installed Python package.
        revision: the commit on the Hub, 40 hexadecimal digits, needed with an `ORG/NAME`, so that a run has one meaning; of a GGUF file its
            SHA-256.
        precision: of the products: bfloat16 or float32; or mixed, for one CPU rank: bfloat16 inputs where the processor multiplies so,
            except in the product with the vocabulary. Weights, gradients and optimiser state are float32.
        lora: adapters.
    """

    kind: str = "pretrained"
    path: str = ""
    revision: str | None = None
    precision: str = choice("bfloat16", of=("bfloat16", "float32", "mixed"))
    lora: Lora = field(default_factory=Lora)


def prepare(config: Config, task: Any, seed: int, cache: Path, linear_kernel: str) -> Path:
    """The checkpoint's folder, fetched from the Hub if it is not there; see the family's contract.

    Raises:
        ConfigError: no such folder, no pinned revision, or the Hub cannot be reached.
    """
    from harness.model.hub import checkpoint_folder, unnamed

    if not config.path:
        raise ConfigError(unnamed(config.path, config.revision))
    return checkpoint_folder(config.path, config.revision, cache)

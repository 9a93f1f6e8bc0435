"""Any causal language model of `transformers`: a Hugging Face id at a pinned revision, a checkpoint's folder, or a GGUF file.

With a cold start it is first trained on demonstrations, so that RL begins with responses that end and have an answer.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.base_policy._recipe import Bases, ColdStart
from harness.configuration.error import Checked, ConfigError, choice, ranged
from harness.configuration.registry import BENCHMARK, implementation, place


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
        revision: the commit on the Hub, 40 hexadecimal digits, needed with an `ORG/NAME`; of a GGUF file its SHA-256; of a folder null.
        precision: of the products: bfloat16, float32, or for one CPU rank mixed (docs/speed.md). Weights, gradients and optimiser state are
            float32.
        lora: adapters.
        cold_start: supervised training before RL.
        bases: several cold starts, with which training seeds are crossed.
    """

    kind: str = "pretrained"
    path: str = place("")
    revision: str | None = place(None)
    precision: str = choice("bfloat16", of=("bfloat16", "float32", "mixed"))
    lora: Lora = field(default_factory=Lora)
    cold_start: ColdStart = field(default_factory=ColdStart, metadata={"neutral": True})
    bases: Bases = field(default_factory=Bases, metadata={"neutral": True})

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.bases != Bases() and not self.cold_start.steps:
            raise ConfigError("model.bases are cold starts, and there is none: set model.cold_start.steps")


def check(config: Config, task: Any) -> None:
    """Refuse a cold start that nobody writes demonstrations for. Raises `ConfigError`."""
    recipe = config.cold_start
    if recipe.steps and not recipe.path and not hasattr(implementation(BENCHMARK, task), "demonstrate"):
        raise ConfigError(f"task={task.kind} writes no demonstrations; give model.cold_start.path=FILE.jsonl")


def prepare(config: Config, task: Any, seed: int, cache: Path, linear_kernel: str) -> Path:
    """The checkpoint's folder, fetched from the Hub if it is not there, or its cold start. Raises `ConfigError`."""
    from harness.model.hub import checkpoint_folder, path_fault

    if not config.path:
        raise ConfigError(path_fault(config.path, config.revision))
    folder = checkpoint_folder(config.path, config.revision, cache)
    if not config.cold_start.steps:
        return folder
    from harness.base_policy._cold_start import prepare_cold_start

    base, bfloat16 = config.bases.index(seed), config.precision != "float32"
    return prepare_cold_start(config.cold_start, task, base, folder, cache, bfloat16)

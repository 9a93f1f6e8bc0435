"""A tiny Llama-shaped model, randomly initialised and warmed up by supervised fine-tuning on the testbed's demonstrator.

Sets of warmed-up policies ship with the package. A set is a folder under `harness/testbed/bases`: `manifest.json`, the files that all its
policies share (`config.json`, tokenizer), and `NN.safetensors` with the weights of policy NN. `benchmarks/make_bases.py` writes one.
"""

import functools
import hashlib
import json
import shutil
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from harness.configuration.error import Checked, ConfigError, ranged, require_range
from harness.configuration.identity import content_hash, flatten
from harness.configuration.registry import nearest
from harness.store.seal import ensure_folder

SETS = Path(__file__).parent / "bases"
MANIFEST = "manifest.json"
WEIGHTS = "model.safetensors"


@dataclass(frozen=True)
class BaseSet:
    """One set as its manifest tells it."""

    name: str
    folder: Path
    recipe: dict[
        str, Any
    ]  # `version`, `operations`, `modulus`, `architecture`, `demonstrator`, `warmup` (without the seed)
    files: dict[str, str]  # name → sha256 of the files that all policies share
    weights: tuple[str, ...]  # sha256 of each policy's weights file, by its place in the set

    def content(self, index: int) -> str:
        """16 hexadecimal digits that name the content of policy `index`: weights, configuration and tokenizer."""
        return content_hash(self.weights[index], self.files)

    def weights_file(self, index: int) -> Path:
        return self.folder / f"{index:02d}.safetensors"

    def checkpoint(self, index: int, cache: Path) -> Path:
        """The checkpoint folder of policy `index`, put together in `cache` at first use. Raises `ConfigError`: the package is damaged."""
        folder = cache / f"base-{self.name}-{index:02d}-{self.content(index)}"
        return ensure_folder(folder, lambda path: self._write(index, path))

    def _write(self, index: int, folder: Path) -> None:
        parts = [(self.weights_file(index), WEIGHTS, self.weights[index])]
        parts += [(self.folder / name, name, digest) for name, digest in self.files.items()]
        for source, name, digest in parts:
            if not source.exists() or file_hash(source) != digest:
                raise ConfigError(f"{source} is not the file {self.folder / MANIFEST} names; reinstall rlvr-harness")
            shutil.copyfile(source, folder / name)


def file_hash(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def base_set(name: str) -> BaseSet:
    """The shipped set of that name. Raises `ConfigError`: there is none, naming the nearest."""
    names = sorted(path.parent.name for path in SETS.glob(f"*/{MANIFEST}"))
    if name not in names:
        raise ConfigError(f"model.bases.set has no option {name!r}{nearest(name, names)}")
    return read_set(SETS / name)


@functools.cache
def read_set(folder: Path) -> BaseSet:
    manifest = json.loads((folder / MANIFEST).read_text())
    weights = tuple(entry["sha256"] for entry in manifest["bases"])
    return BaseSet(manifest["set"], folder, manifest["recipe"], manifest["files"], weights)


@dataclass
class Architecture(Checked, key="model.architecture"):
    """Sizes of the Llama-shaped decoder, with untied embeddings."""

    hidden: int = ranged(64, low=2)
    intermediate: int = ranged(176, low=1)
    layers: int = ranged(3, low=0)
    heads: int = ranged(4, low=1)
    kv_heads: int = ranged(4, low=1)
    max_positions: int = ranged(256, low=1)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.hidden % (2 * self.heads) or self.heads % self.kv_heads:
            raise ConfigError(
                f"model.architecture: hidden={self.hidden} must be a multiple of twice heads={self.heads}, and those one of "
                f"kv_heads={self.kv_heads}"
            )


@dataclass
class Demonstrator(Checked, key="model.demonstrator"):
    """The ways in which the imperfect teacher writes its solutions (see `harness.testbed.demonstrator`).

    Attributes:
        direct: share of answers without working.
        terse: share that writes each intermediate value; the rest is verbose (`7+8=5,`).
        slip: probability of an off-by-one at a verbose step.
        slip_terse: the same at a terse step.
        misconceptions: share of (operator, value, operand) facts that it mostly gets wrong.
        misconception_low: smallest probability that such a fact is still right (log-uniform).
        misconception_high: largest.
        recheck: probability of another, slip-free pass.
        babble: probability of repeating the last step until the cap.
    """

    direct: float = ranged(0.0, low=0.0, high=1.0)
    terse: float = ranged(1.0, low=0.0, high=1.0)
    slip: float = ranged(0.05, low=0.0, high=1.0)
    slip_terse: float = ranged(0.12, low=0.0, high=1.0)
    misconceptions: float = ranged(0.15, low=0.0, high=1.0)
    misconception_low: float = ranged(0.03, low=1e-9, high=1.0)
    misconception_high: float = ranged(0.4, low=1e-9, high=1.0)
    recheck: float = ranged(0.2, low=0.0, high=1.0)
    babble: float = ranged(0.03, low=0.0, high=1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.direct + self.terse > 1:
            raise ConfigError("model.demonstrator.direct + terse must not exceed 1; the rest is the verbose share")
        require_range("model.demonstrator.misconception_low", self.misconception_low, 0.0, self.misconception_high)


@dataclass
class Warmup(Checked, key="model.warmup"):
    """Supervised warm-up of a fixed number of steps. Its last bits still depend on the machine (rounding).

    Attributes:
        seed: initialisation and data of the warm-up; null: the run's seed, so that every seed has a policy of its own.
        steps: optimiser steps.
        batch: demonstrations a step.
        learning_rate: peak; linear decay to a tenth over the last half.
    """

    seed: int | None = 0
    steps: int = ranged(6400, low=0)
    batch: int = ranged(16, low=1)
    learning_rate: float = ranged(3e-3, low=0.0)


@dataclass
class Bases:
    """The shipped base policies that runs start from: training seed s from policy `first` + s mod `count` of a set.

    Attributes:
        set: folder under `harness/testbed/bases`; null: a warm-up of the run's own, by the sections beside this one.
        first: place in the set of the first policy that is used.
        count: how many take turns; 1: all training seeds share one.
    """

    set: str | None = "arithmetic-2"
    first: int = 0
    count: int = 16

    def __post_init__(self) -> None:
        if self.set is None:
            if (self.first, self.count) != (Bases.first, Bases.count):
                raise ConfigError("model.bases.set=null has no model.bases.first and count: drop them")
            return
        policies = len(base_set(self.set).weights)
        require_range("model.bases.first", self.first, 0, policies - 1)
        require_range("model.bases.count", self.count, 1, policies - self.first)

    def index(self, seed: int) -> int:
        return self.first + seed % self.count

    def identity(self) -> list[str]:
        """Return what a run's id holds of a choice among shipped policies: the content of those that take turns, in order."""
        if self.set is None:
            return []
        policies = base_set(self.set)
        return [policies.content(self.first + turn) for turn in range(self.count)]


@dataclass
class Config:
    """The source of the testbed's base policy: a shipped set, or architecture, demonstrator and warm-up of one's own."""

    kind: str = "testbed"
    bases: Bases = field(default_factory=Bases)
    architecture: Architecture = field(default_factory=Architecture)
    demonstrator: Demonstrator = field(default_factory=Demonstrator)
    warmup: Warmup = field(default_factory=Warmup)


def check(config: Config, task: Any) -> None:
    """Refuse a task that the demonstrator does not know, or a recipe that the shipped policies were not made by. Raises `ConfigError`."""
    if task.kind != "arithmetic":
        raise ConfigError(f"model=testbed is warmed up on task=arithmetic only, not on task={task.kind}")
    if config.bases.set is None:
        return
    recipe = base_set(config.bases.set).recipe
    sections = {name: asdict(getattr(config, name)) for name in ("architecture", "demonstrator", "warmup")}
    values = {f"model.{key}": value for key, value in flatten(sections).items()}
    values |= {"task.max_operations": task.max_operations, "task.modulus": task.modulus}
    shipped: dict[str, Any] = {f"model.{key}": value for key, value in flatten(recipe).items()}
    shipped |= {"model.warmup.seed": 0, "task.max_operations": recipe["operations"][1]}
    shipped["task.modulus"] = recipe["modulus"]
    for key, value in values.items():
        if value != shipped[key]:
            raise ConfigError(
                f"{key}={value}, but the shipped policies of model.bases.set={config.bases.set} were made with {shipped[key]}: set "
                "model.bases.set=null for a warm-up of the run's own, or leave the key as it is"
            )

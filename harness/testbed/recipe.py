"""A tiny Llama-shaped model, randomly initialised and warmed up by supervised fine-tuning on the testbed's demonstrator."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.configuration.error import Checked, ConfigError, ranged, require_range
from harness.configuration.registry import neutral_when
from harness.testbed.shipped import base_set


@dataclass
class Architecture:
    """Sizes of the Llama-shaped decoder (untied embeddings)."""

    hidden: int = 64
    intermediate: int = 176
    layers: int = 3
    heads: int = 4
    kv_heads: int = 4
    max_positions: int = 256


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

    direct: float = ranged(0.30, low=0.0, high=1.0)
    terse: float = ranged(0.35, low=0.0, high=1.0)
    slip: float = ranged(0.05, low=0.0, high=1.0)
    slip_terse: float = ranged(0.12, low=0.0, high=1.0)
    misconceptions: float = ranged(0.15, low=0.0, high=1.0)
    misconception_low: float = 0.03
    misconception_high: float = 0.4
    recheck: float = ranged(0.2, low=0.0, high=1.0)
    babble: float = ranged(0.03, low=0.0, high=1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.direct + self.terse > 1:
            raise ConfigError(
                "model.demonstrator.direct + terse must not exceed 1; the rest is the verbose share"
            )


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
    steps: int = ranged(3200, low=0)
    batch: int = ranged(16, low=1)
    learning_rate: float = 3e-3


@dataclass
class Bases:
    """The shipped base policies that runs start from: training seed s from policy `first` + s mod `count` of a set.

    Attributes:
        set: folder under `harness/testbed/bases`; null: a warm-up of the run's own, by the sections beside this one.
        first: place in the set of the first policy that is used.
        count: how many take turns; 1: all training seeds share one.
    """

    set: str | None = "arithmetic-1"
    first: int = 0
    count: int = 32

    def __post_init__(self) -> None:
        if self.set is None:
            if (self.first, self.count) != (Bases.first, Bases.count):
                raise ConfigError(
                    "model.bases.first and count choose among shipped policies; leave them out with model.bases.set=null"
                )
            return
        count = len(base_set(self.set).weights)
        require_range("model.bases.first", self.first, 0, count - 1)
        require_range("model.bases.count", self.count, 1, count)
        if self.first + self.count > count:
            raise ConfigError(
                f"model.bases.first={self.first} and count={self.count} reach beyond the {count} policies of model.bases.set={self.set}"
            )

    def index(self, seed: int) -> int:
        """The place in the set of a training seed's base policy."""
        return self.first + seed % self.count

    def identity(self) -> list[str]:
        """Return what a run's id holds of a choice among shipped policies: the content of those that take turns, in order."""
        assert self.set is not None
        chosen = base_set(self.set)
        return [chosen.content(self.first + turn) for turn in range(self.count)]


@dataclass
class Config:
    """The source of the testbed's base policy: a shipped set, or architecture, demonstrator and warm-up of one's own."""

    kind: str = "testbed"
    bases: Bases = neutral_when(lambda: Bases(set=None), default=Bases)
    architecture: Architecture = field(default_factory=Architecture)
    demonstrator: Demonstrator = field(default_factory=Demonstrator)
    warmup: Warmup = field(default_factory=Warmup)

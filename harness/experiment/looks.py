"""Seeds until it is decided: the declaration of a design that looks at its comparisons while seeds come in.

How wide intervals have to be then is the analysis's business (`harness/statistics/sequential.py`); here it is only numbers of seeds.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from harness.configuration.error import ConfigError
from harness.configuration.loader import load_dataclass


@dataclass
class Looks:
    """`experiment.seeds` as a mapping.

    Attributes:
        start: seeds before the first look.
        step: seeds between looks.
        most: seeds at the last look, the budget of an arm.
        first: the first seed.
        looks: the numbers of seeds themselves instead; filled from the others, the budget is always the last.
    """

    start: int = 4
    step: int = 2
    most: int = 20
    looks: list[int] | None = None
    first: int = 0

    def __post_init__(self) -> None:
        if self.first < 0:
            raise ConfigError(f"experiment.seeds.first={self.first} must be at least 0")
        if self.step < 1:
            raise ConfigError(f"experiment.seeds.step={self.step} must be at least 1")
        if self.looks is None:
            if self.most < self.start:
                raise ConfigError(
                    f"experiment.seeds.most={self.most} is below experiment.seeds.start={self.start}: no look would take place"
                )
            self.looks = sorted({*range(self.start, self.most, self.step), self.most})
        check_numbers(self.looks)


def with_looks(declared: Mapping[str, Any]) -> dict[str, Any]:
    """The declaration with a mapping under `seeds` spelled out: seeds from `first` up to the last look, and the looks.

    Raises:
        ConfigError: an unknown key or a wrong type, numbers that make no looks, or looks given twice.
    """
    values = dict(declared)
    if not isinstance(values.get("seeds"), Mapping):
        return values
    given = values["seeds"]
    if given.get("looks") is not None and given.keys() & {"start", "step", "most"}:
        raise ConfigError("experiment.seeds: give either looks, or start, step and most")
    found = load_dataclass(Looks, dict(given), "experiment.seeds")
    looks = found.looks or []
    return {**values, "seeds": list(range(found.first, found.first + looks[-1])), "looks": looks}


def replacing(override: str) -> list[str]:
    """A list or mapping for `experiment.seeds` takes the place of what the file has; Hydra would not merge one into the other."""
    key, _, value = override.partition("=")
    if key.lstrip("+") == "experiment.seeds" and value.lstrip().startswith(("{", "[")):
        return ["++experiment.seeds=null", override]
    return [override]


def check_numbers(looks: Sequence[int]) -> None:
    """Raises `ConfigError` unless the first look has at least two seeds and each has more than the one before."""
    if not looks or looks[0] < 2:
        first = looks[0] if looks else 0
        raise ConfigError(
            f"experiment.seeds: the first look is at {first} seeds; it needs at least 2 (start), one seed has no spread"
        )
    for before, after in pairwise(looks):
        if after <= before:
            raise ConfigError(f"experiment.seeds: looks must increase, but {after} seeds follow {before}")

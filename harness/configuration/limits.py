"""Limits of values, declared beside the fields that they hold for: `learning_rate: float = ranged(2e-4, low=0.0)`."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

from harness.configuration.error import require, require_range


class Checked:
    """A part of a configuration that refuses values outside of its fields' limits with a `ConfigError`; None is not looked at.

    `class Section(Checked, key="section")` gives the dotted name of the part, for messages. A class with checks of its own calls
    `super().__post_init__()` before them.
    """

    _prefix: ClassVar[str] = ""

    def __init_subclass__(cls, key: str = "") -> None:
        if key:
            cls._prefix = f"{key}."

    def __post_init__(self) -> None:
        for item in dataclasses.fields(self):  # type: ignore[arg-type]
            value = getattr(self, item.name)
            if value is not None and "limit" in item.metadata:
                item.metadata["limit"](f"{self._prefix}{item.name}", value)


def ranged(default: float | None, low: float, high: float = float("inf"), neutral: bool = False) -> Any:
    """A field that holds a finite number from `low` to `high`; `neutral` as in `harness.configuration.families.neutral`."""
    limit = partial(require_range, low=low, high=high)
    return dataclasses.field(default=default, metadata={"limit": limit, "neutral": neutral})


def choice(default: Any, of: Sequence[Any], neutral: bool = False) -> Any:
    """A field that holds one of some values; `neutral` as in `harness.configuration.families.neutral`."""
    limit = partial(require, choices=of)
    return dataclasses.field(default=default, metadata={"limit": limit, "neutral": neutral})

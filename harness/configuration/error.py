"""The configuration error and the one-line checks that raise it."""

import dataclasses
import difflib
import math
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar


class ConfigError(ValueError):
    """A configuration that cannot run; the message names the key and the fix."""


class UnknownKeyError(ConfigError):
    """A key that the configuration does not have."""


def nearest(name: str, choices: list[str]) -> str:
    """A hint for an error message: `; did you mean 'x'?`, or the sorted choices when nothing is close; there may be none."""
    if not choices:
        return "; there is none yet"
    matches = difflib.get_close_matches(name, choices, n=1, cutoff=0.6)
    return f"; did you mean {matches[0]!r}?" if matches else f"; choose one of: {', '.join(sorted(choices))}"


def require(key: str, value: Any, choices: Sequence[Any]) -> None:
    """Raise unless `value` is one of `choices`; the message names the nearest one."""
    if value in choices:
        return
    raise ConfigError(f"{key}={value!r} is not known{nearest(str(value), [str(choice) for choice in choices])}")


def require_texts(key: str, values: Sequence[str]) -> None:
    """Raise unless no value is empty: an empty string is contained in every text."""
    if not all(values):
        raise ConfigError(f"{key}={list(values)!r} contains an empty string")


def require_range(key: str, value: float, low: float, high: float = float("inf")) -> None:
    if not (low <= value <= high and math.isfinite(value)):
        bound = f"at least {low:g}" if high == float("inf") else f"between {low:g} and {high:g}"
        raise ConfigError(f"{key}={value!r} must be {bound}")


MOST_SEED = 2**63 - 1  # what a table's column holds


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
    """A field that holds a finite number from `low` to `high`; `neutral` as in `harness.configuration.registry.neutral`."""
    limit = partial(require_range, low=low, high=high)
    return dataclasses.field(default=default, metadata={"limit": limit, "neutral": neutral})


def choice(default: Any, of: Sequence[Any], neutral: bool = False) -> Any:
    """A field that holds one of some values; `neutral` as in `harness.configuration.registry.neutral`."""
    limit = partial(require, choices=of)
    return dataclasses.field(default=default, metadata={"limit": limit, "neutral": neutral})

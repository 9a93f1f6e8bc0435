"""A value with its interval, and the one word that the interval allows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from enum import StrEnum


class Verdict(StrEnum):
    """Words for what an interval says of a difference; see :attr:`Estimate.verdict` for the rule."""

    HIGHER = "higher"
    LOWER = "lower"
    HIGHER_INSIDE = "higher, by less than the margin"
    LOWER_INSIDE = "lower, by less than the margin"
    EQUIVALENT = "equivalent within the margin"
    NOT_RESOLVED = "not resolved"


@dataclass(frozen=True)
class Estimate:
    """A value with its interval at ``level``; NaN bounds where the data cannot give one.

    ``p_value`` tests the value against zero (NaN for plain means). In a column of ``family`` comparisons ``level``
    is that of the single interval, wide enough for all of them to hold together, and ``adjusted_p`` is the p-value
    of the column. ``margin`` is in the unit of the value. ``standard_error`` and ``degrees`` are kept for power
    statements. ``absent`` says why there is no value, where more is to be said than that data is missing.
    """

    value: float
    low: float = math.nan
    high: float = math.nan
    seeds: int = 0
    p_value: float = math.nan
    adjusted_p: float = math.nan
    standard_error: float = math.nan
    degrees: float = math.nan
    level: float = 0.95
    method: str = ""
    family: int = 1
    margin: float | None = None
    absent: str = ""

    @property
    def resolved(self) -> bool:
        """True where the interval excludes zero, and nothing else."""
        return self.low > 0.0 or self.high < 0.0

    @property
    def inside_margin(self) -> bool:
        """True where the whole interval lies strictly between minus and plus the margin."""
        return self.margin is not None and -self.margin < self.low and self.high < self.margin

    @property
    def verdict(self) -> Verdict:
        """The word of the interval: where it lies relative to zero and to the margin.

        Above zero: higher; below: lower; with zero in it but inside the margin: equivalent; else not resolved.
        A difference may be both resolved and inside the margin: it is there, and too small to matter. Where
        every interval of a column covers its truth, every word of the column is true.
        """
        inside = self.inside_margin
        if self.low > 0.0:
            return Verdict.HIGHER_INSIDE if inside else Verdict.HIGHER
        if self.high < 0.0:
            return Verdict.LOWER_INSIDE if inside else Verdict.LOWER
        return Verdict.EQUIVALENT if inside else Verdict.NOT_RESOLVED

    def scaled(self, scale: float) -> Estimate:
        """The same estimate in another unit: stored values times ``scale`` are shown ones."""
        ends = {name: scale * getattr(self, name) for name in ("value", "low", "high", "standard_error")}
        return replace(self, **ends, margin=None if self.margin is None else scale * self.margin)

    def words(self, scale: float = 1.0, unit: str = "") -> str:
        """The verdict with its margin as shown: ``equivalent within 3 points``.

        Args:
            scale: what values are multiplied by to be shown.
            unit: of shown values; left out in cells, whose header has it.
        """
        if self.margin is None:
            return self.verdict.value
        return self.verdict.value.replace("the margin", f"{scale * self.margin:g} {unit}".rstrip())


MISSING = Estimate(math.nan, method="no data")

"""Numbers as text: one rule for tables, sentences and figures."""

from __future__ import annotations

import math
from collections.abc import Sequence

from harness.statistics.estimate import Estimate

_MORE_DIGITS = 4


def number_text(value: float, digits: int, *, signed: bool = False, landmarks: Sequence[float] = ()) -> str:
    """Write a shown number, thousands apart by thin spaces, with a real minus sign and never ``-0.0``.

    ``landmarks`` are numbers that the reader compares it with: it gets more digits where rounding would put it
    onto or across one of them, so that what is printed and the word beside it agree.
    """
    sign = "+" if signed else ""
    text = f"{value:{sign},.{digits}f}"
    for more in range(1, _MORE_DIGITS + 1):
        if all(_side(float(text.replace(",", "")), mark) == _side(value, mark) for mark in landmarks):
            break
        text = f"{value:{sign},.{digits + more}f}" if more < _MORE_DIGITS else f"{value:{sign}.1e}"
    if float(text.replace(",", "")) == 0:
        text = text.replace("-", sign)
    return text.replace("-", "−").replace(",", "\u2009")


def bounds_text(estimate: Estimate, digits: int, *, scale: float, signed: bool = True) -> tuple[str, str]:
    """Write both ends of an interval, exact enough to be told from zero and from the margin."""
    marks = [0.0] if estimate.margin is None else [-scale * estimate.margin, 0.0, scale * estimate.margin]
    low, high = (
        number_text(scale * bound, digits, signed=signed, landmarks=marks)
        for bound in (estimate.low, estimate.high)
    )
    return low, high


def _side(value: float, landmark: float) -> float:
    return 0.0 if value == landmark else math.copysign(1.0, value - landmark)

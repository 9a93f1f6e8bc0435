"""Texts with colons: ratios, which may be cancelled, and times of day, which may not."""

from __future__ import annotations

import re

from harness.verify.read.nodes import Node

_TIME = re.compile(r"\s*(\d{1,2})\s*:\s*(\d{2})(?: ([ap]))?\s*")


def same_time(gold: Node, answer: Node) -> bool:
    """Times of day; one without a.m. and p.m. may be either, or of the 24 hours."""
    times = []
    for node in (gold, answer):
        match = _TIME.fullmatch(node.mark if node.kind == "clock" else node.text)
        if match is None:
            return False
        hour = int(match[1])
        times.append((hour % 12, match[2], match[3] or ("p" if hour > 12 else "")))
    (hour, minutes, half), (other_hour, other_minutes, other_half) = times
    return (hour, minutes) == (other_hour, other_minutes) and (
        half == other_half or not (half and other_half)
    )


def looks_like_time(node: Node) -> bool:
    """Return whether a ratio is written as a time: an hour, then pairs of digits."""
    first, *others = node.text.split(":")
    return (
        all(re.fullmatch(r"\s*\d{2}\s*", part) for part in others)
        and first.strip().isdigit()
        and int(first) < 25
    )


def same_ratio(gold: Node, answer: Node) -> bool | None:
    """Return whether two ratios of numbers have one value; None when they are times, formulas, or of different length."""
    if len(gold.items) != len(answer.items) or (looks_like_time(gold) and looks_like_time(answer)):
        return None
    left = [item.exact.value for item in gold.items if item.exact is not None]
    right = [item.exact.value for item in answer.items if item.exact is not None]
    if not (len(left) == len(right) == len(gold.items) and all(left) and all(right)):
        return None
    return len({a / b for a, b in zip(left, right, strict=True)}) == 1


def ratio_is_number(ratio: Node, number: Node) -> bool:
    """Return whether `3:5` is the number 3/5."""
    values = [item.exact.value for item in ratio.items if item.exact is not None]
    if len(values) != 2 or len(ratio.items) != 2 or not values[1] or number.exact is None:
        return False
    if looks_like_time(ratio) or number.exact.value.denominator == 1:
        return False
    return values[0] / values[1] == number.exact.value

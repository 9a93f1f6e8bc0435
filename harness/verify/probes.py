"""Answers that tell whether a gold one is read: the same value written otherwise, and values beside it."""

from __future__ import annotations

import re

from harness.verify.read.dates import days
from harness.verify.read.formulas import value_side
from harness.verify.read.nodes import Node
from harness.verify.read.numbers import parse_exact, split_unit

_LAST_NUMBER = re.compile(r"\d+(?=\D*\Z)")
_LONGEST = 12  # digits
OWN_TEXT = "own text only"
UNRELATED = "982451653"  # of no gold; only one that is not read has no verdict on it


def equal_spellings(gold: Node) -> list[str]:
    """Return answers that equal a gold one and are written otherwise; none where nothing is known of it but its text."""
    if gold.exact is not None:
        value = gold.exact.value
        fraction = rf"\frac{{{value.numerator}}}{{{value.denominator}}}"
        bare, percent, _ = split_unit(gold.text)
        number = parse_exact(bare)
        same = [bare] if number is not None and number.value == value else []  # not `5` of `5 million`
        return [] if percent or len(fraction) > 40 else [fraction, *same]
    if gold.kind in ("list", "set"):
        return [", ".join(item.text for item in reversed(gold.items))] if gold.items else []
    if gold.kind == "relation":
        side = value_side(gold, strict=True)
        return [] if side is None else [side.text]
    if gold.kind == "date" and len(days(gold.text)) == 1:
        ((year, month, day),) = days(gold.text)
        return [f"{year}-{month}-{day}"] if year else []
    return []


def wrong_neighbours(gold: Node) -> list[str]:
    """Return answers that differ from a gold one by one in its last number; none where it has none, or a letter decides."""
    match = _LAST_NUMBER.search(gold.text)
    if gold.kind == "choice" or match is None or len(match[0]) > _LONGEST:
        return []
    return [gold.text[: match.start()] + str(int(match[0]) + 1).zfill(len(match[0])) + gold.text[match.end() :]]

r"""Formulas between delimiters: `$…$`, `$$…$$`, `\(…\)` and `\[…\]`."""

from __future__ import annotations

import re
from typing import NamedTuple

from harness.verify.read.canonical import matching_brace

PERCENT_AFTER = re.compile(r"\s*\$?\s*(\\?%|percent\b|pct\b|percentage\b)", re.IGNORECASE)
JOINT = re.compile(r"[\s,;]*(?:\band\b|\bor\b|&)?[\s,;]*")
_DELIMITER = re.compile(r"\$\$|(?<!\\)\$|\\[\[\]()]")
_CLOSER = {"$$": "$$", "$": "$", r"\[": r"\]", r"\(": r"\)"}


class Formula(NamedTuple):
    """A formula: where it stands, with its delimiters, and what is between them."""

    start: int
    end: int
    inside: str


def formulas(text: str) -> list[Formula]:
    """The delimited formulas of a text, in one pass; inline ones do not span lines."""
    found: list[Formula] = []
    opened: re.Match[str] | None = None
    for token in _DELIMITER.finditer(text):
        mark = token[0]
        if opened is not None and mark == _CLOSER[opened[0]]:
            inside = text[opened.end() : token.start()]
            if inside.strip() and ("\n" not in inside or opened[0] in ("$$", r"\[")):
                found.append(Formula(opened.start(), token.end(), _out_of_box(inside.strip())))
                opened = None
                continue
        if mark in _CLOSER:
            opened = token
    return found


def _out_of_box(inside: str) -> str:
    r"""`\boxed{7` without its box: the formula ends after it, so nothing was cut off."""
    if not inside.startswith(r"\boxed{") or matching_brace(inside, 6) >= 0:
        return inside
    return inside[7:].removesuffix(r"\}")


def joined_formulas(text: str, found: list[Formula]) -> str:
    """The last formula, with those before it that are joined to it by a comma, `and` or `or`."""
    last = len(found) - 1
    while last > 0 and JOINT.fullmatch(text, found[last - 1].end, found[last].start):
        last -= 1
    percent = PERCENT_AFTER.match(text, found[-1].end)
    return ", ".join(formula.inside for formula in found[last:]) + (r"\%" if percent is not None else "")

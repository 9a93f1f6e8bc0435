r"""Quantities compared as they are written: numbers with signs and units, ratios, times of day, congruences."""

from __future__ import annotations

import re
from fractions import Fraction

from harness.verify.read.nodes import Node, parse_node
from harness.verify.read.numbers import DECIMAL_DIGITS, Exact, parse_exact
from harness.verify.read.units import CURRENCIES, unit_scale

_LEAST_DIGITS = 4
_DECIMAL_COMMA = re.compile(r"([+-]?\d+),(\d+)(?![\d,])")
_INDIAN_GROUPS = re.compile(r"[+-]?\d{1,2}(?:,\d{2})+,\d{3}(?!\d)")
_TIME = re.compile(r"\s*(\d{1,2})\s*:\s*(\d{2})(?: ([ap]))?\s*")
_LIKE_TIME = re.compile(r"\s*0*(?:1?\d|2[0-4])\s*(?::\s*\d{2}\s*)+")
_CONGRUENCE = re.compile(
    r"(?:([a-zA-Z](?:_\{?\w+\}?)?|[^=<>]{2,20}?)\s*(?:\\equiv|=)\s*)?([^=<>\\]{1,200}?)\s*,?\s*\\mod\s*\{?\s*(\d{1,40})\s*\}?"
)


def exact_equal(gold: Exact, answer: Exact, percent: str) -> bool:
    """Return whether two exact numbers are equal under a percent policy; never compared as floats (see VerifierConfig)."""
    if gold.percent != answer.percent:
        with_sign, without = (gold, answer) if gold.percent else (answer, gold)
        same_number = with_sign.value == without.value or _rounded(with_sign, without)
        same_value = with_sign.value / 100 == without.value or (
            with_sign.decimals >= 0 and without.decimals < 0 and rounds_to(without.value * 100, with_sign)
        )
        return {"either": same_number or same_value, "value": same_value, "number": same_number}[percent]
    if gold.unit and answer.unit and gold.unit != answer.unit:
        scale = scale_between(gold.unit, answer.unit)
        if scale is not None:
            return scale != 0 and gold.value * scale == answer.value
    return gold.value == answer.value or _rounded(gold, answer)


def scale_between(gold: str, answer: str) -> Fraction | None:
    """Return how many of the answer's unit are one of the gold one: 0 for other dimensions, None for words that are no units."""
    if gold[:6] == answer[:6] == "degree" and gold[6:] and answer[6:]:
        return Fraction(0)
    if ("/" in gold) != ("/" in answer):  # `3 dollars` for `3 dollars per pound`
        price, money = (gold, answer) if "/" in gold else (answer, gold)
        if money in CURRENCIES and price.startswith(f"{money}/"):
            return Fraction(1)
    left, right = unit_scale(gold), unit_scale(answer)
    if left is None or right is None:
        return None
    return left[1] / right[1] if left[0] == right[0] else Fraction(0)


def _rounded(gold: Exact, answer: Exact) -> bool:
    """Return whether one number is a decimal of enough digits and the other rounds to it."""
    decimal, exact = sorted((gold, answer), key=lambda number: (number.decimals < 0, number.decimals))
    return decimal.decimals >= 0 and rounds_to(exact.value, decimal)


def rounds_to(exact: Fraction, decimal: Exact) -> bool:
    """Return whether a decimal of at least `DECIMAL_DIGITS` decimals is another number, rounded or cut there."""
    if decimal.decimals < DECIMAL_DIGITS or len(str(abs(decimal.value.numerator))) < _LEAST_DIGITS:
        return False
    return abs(exact - decimal.value) < Fraction(1, 10**decimal.decimals)


def written_with_commas(several: str, number: Exact, percent: str) -> bool:
    """Return whether what reads as a list is one number: `1,22` against 1.22, `12,34,567` against 1234567."""
    if _INDIAN_GROUPS.match(several):
        read = parse_exact(several.replace(",", ""))
    elif _DECIMAL_COMMA.match(several):
        read = parse_exact(_DECIMAL_COMMA.sub(r"\1.\2", several, count=1))
        if read is not None and read.value.denominator == 1:
            return False
    else:
        return False
    return read is not None and exact_equal(number, read, percent)


def same_time(gold: Node, answer: Node) -> bool:
    """Return whether two times of day are one; a time without a.m. and p.m. may be either, or of the 24 hours."""
    times = []
    for node in (gold, answer):
        match = _TIME.fullmatch(node.mark if node.kind == "clock" else node.text)
        if match is None:
            return False
        hour = int(match[1])
        times.append((hour % 12, match[2], match[3] or ("p" if hour > 12 else "")))
    left, right = times
    return left[:2] == right[:2] and (left[2] == right[2] or not (left[2] and right[2]))


def same_ratio(gold: Node, answer: Node) -> bool | None:
    """Return whether two ratios of numbers have one value; None when they are times, formulas, or of different length."""
    times = _LIKE_TIME.fullmatch(gold.text) and _LIKE_TIME.fullmatch(answer.text)
    left, right = _values(gold), _values(answer)
    if len(left) != len(right) or times or not (left and all(left) and all(right)):
        return None
    return len({a / b for a, b in zip(left, right, strict=True)}) == 1


def ratio_is_number(ratio: Node, number: Node) -> bool:
    """Return whether `3:5` is the number 3/5."""
    values = _values(ratio)
    if len(values) != 2 or not values[1] or number.exact is None or _LIKE_TIME.fullmatch(ratio.text):
        return False
    return number.exact.value.denominator != 1 and values[0] / values[1] == number.exact.value


def same_congruence(gold: Node, answer: Node) -> bool | None:
    r"""Return whether `x \equiv 10 \pmod 7` and `x \equiv 3 \pmod{7}`, or one and its residue, say the same; None for other answers."""
    left, right = _congruence(gold), _congruence(answer)
    if left is not None and right is not None:
        names = {name for name, _, _ in (left, right) if name}
        if len(names) > 1 or left[2] != right[2] or not left[2]:
            return False
        return {residue % left[2] for residue in left[1]} == {residue % left[2] for residue in right[1]}
    known, other = (left, answer) if left is not None else (right, gold)
    if known is None or not known[0] or other.kind not in ("exact", "list"):
        return None
    return sorted(known[1]) == sorted(_values(other))


def _congruence(node: Node) -> tuple[str, list[Fraction], int] | None:
    """Return what is congruent, to which integers, and the modulus."""
    match = _CONGRUENCE.fullmatch(node.text) if len(node.text) < 400 else None
    residues = _values(parse_node(match[2])) if match is not None else []
    if match is None or not residues or any(residue.denominator != 1 for residue in residues):
        return None
    return re.sub(r"\s", "", match[1] or ""), residues, int(match[3])


def _values(node: Node) -> list[Fraction]:
    """Return the values of a number or of several; none where one of them is no number."""
    items = node.items or (node,)
    values = [item.exact.value for item in items if item.exact is not None]
    return values if len(values) == len(items) else []

"""Exact numbers compared as they are written: percent signs, units, roundings, commas that may be decimal or group digits."""

from __future__ import annotations

import re
from fractions import Fraction

from harness.verify.read.numbers import Exact, parse_exact
from harness.verify.read.units import CURRENCIES, unit_scale

_LEAST_DIGITS = 4
_DECIMAL_COMMA = re.compile(r"([+-]?\d+),(\d+)(?![\d,])")
_INDIAN_GROUPS = re.compile(r"[+-]?\d{1,2}(?:,\d{2})+,\d{3}(?!\d)")


def exact_equal(gold: Exact, answer: Exact, percent: str, decimal_digits: int) -> bool:
    """Return whether two exact numbers are equal under a percent policy; never compared as floats (see VerifierConfig)."""
    if gold.percent != answer.percent:
        with_sign, without = (gold, answer) if gold.percent else (answer, gold)
        same_number = with_sign.value == without.value or _rounded(with_sign, without, decimal_digits)
        same_value = with_sign.value / 100 == without.value or (
            with_sign.decimals >= 0
            and without.decimals < 0
            and rounds_to(without.value * 100, with_sign.value, with_sign.decimals, decimal_digits)
        )
        return {"either": same_number or same_value, "value": same_value, "number": same_number}[percent]
    if gold.unit and answer.unit and gold.unit != answer.unit:
        scale = scale_between(gold.unit, answer.unit)
        if scale is not None:
            return scale != 0 and gold.value * scale == answer.value
    return gold.value == answer.value or _rounded(gold, answer, decimal_digits)


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


def _rounded(gold: Exact, answer: Exact, decimal_digits: int) -> bool:
    """Return whether one number is a decimal of enough digits and the other rounds to it."""
    if gold.decimals < 0 and answer.decimals < 0:
        return False
    by_digits = sorted((gold, answer), key=lambda number: (number.decimals < 0, number.decimals))
    decimal, exact = by_digits
    return rounds_to(exact.value, decimal.value, decimal.decimals, decimal_digits)


def rounds_to(exact: Fraction, decimal: Fraction, decimals: int, digits: int) -> bool:
    """Return whether `decimal`, written with `decimals` digits after the point, is `exact` rounded or cut there."""
    if decimals < digits or len(str(abs(decimal.numerator))) < _LEAST_DIGITS:
        return False
    return abs(exact - decimal) < Fraction(1, 10**decimals)


def written_with_commas(several: str, number: Exact, percent: str, decimal_digits: int) -> bool:
    """Return whether what reads as a list is one number: `1,22` against 1.22, `12,34,567` against 1234567."""
    if _INDIAN_GROUPS.match(several):
        read = parse_exact(several.replace(",", ""))
    elif _DECIMAL_COMMA.match(several):
        read = parse_exact(_DECIMAL_COMMA.sub(r"\1.\2", several, count=1))
        if read is not None and read.value.denominator == 1:
            return False
    else:
        return False
    return read is not None and exact_equal(number, read, percent, decimal_digits)

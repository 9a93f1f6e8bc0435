r"""Exact numbers in the notations people write them in, as `Fraction`; never a float.

Integers, decimals, `a/b`, `\frac{a}{b}`, mixed numbers, scientific notation, repeating decimals, thousands
separators, a percent sign, a currency sign before and a unit after.
"""

from __future__ import annotations

import re
from fractions import Fraction
from typing import NamedTuple

from harness.verify.read.units import CURRENCIES, compound, split_unit

# A decimal with at least so many decimals and four significant digits equals an exact value that rounds to it, or a longer decimal
# that does: 0.333333 equals 1/3, 0.33 does not.
DECIMAL_DIGITS = 6
MAX_DIGITS = 2_000
MAX_EXPONENT = 400
_INTEGER = re.compile(r"[+-]?\d+")
_GROUPED = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?|[+-]?[1-9]\d{0,2}(?: \d{3})+(?:\.\d+)?")
_OTHER_GROUPS = re.compile(
    r"[+-]?[1-9]\d{0,2}(?:(?:\.\d{3}){2,}(?:,\d+)?|\.\d{3},\d{1,2}|(?:'\d{3})+(?:\.\d+)?)"
)
_DECIMAL = re.compile(r"([+-]?)(?!\.$)(\d*)\.(\d*)")
_REPEATING = re.compile(r"([+-]?)(\d*)\.(\d*)(?:\\(?:overline|bar|dot)\s*\{(\d+)\}|\((\d+)\)|\\bar\s*(\d))")
_DOTTED = re.compile(r"([+-]?\d*\.\d*?)(\d{1,6}?)\2{2,}\s*\\ldots")
_COMMA_CENTS = re.compile(r"[+-]?\d+,\d\d")
_RATIO = re.compile(r"([+-]?\s*[\d.,]+)\s*/\s*([+-]?\s*[\d.,]+)")
_FRACTION = re.compile(r"([+-]?)\s*\\frac\s*\{\s*([+-]?\s*[\d.,\s]+)\s*\}\s*\{\s*([+-]?\s*[\d.,\s]+)\s*\}")
_MIXED = re.compile(
    r"([+-]?)\s*(\d+|[1-9]\d{0,2}(?:[ ,]\d{3})+)\s*(?:\\frac\s*\{\s*(\d+)\s*\}\s*\{\s*(\d+)\s*\}"
    r"|(?:\s|\\ |-|\s+and\s+)\s*(\d+)\s*/\s*(\d+))"
)
_SCIENTIFIC = re.compile(
    r"(?:([+-]?[\d.,]+)\s*(?:\\times|\\cdot|\*)\s*)?10\s*\^\s*(?:\{\s*([+-]?\s*\d{1,6})\s*\}|\(\s*([+-]?\d{1,6})\s*\)|([+-]?\d{1,6}))"
    r"|([+-]?\d+(?:\.\d*)?|[+-]?\.\d+)[eE]([+-]?\d{1,6})"
)
_SCALES = {
    "dozen": 12, "thousand": 10**3, "lakh": 10**5, "million": 10**6, "crore": 10**7, "billion": 10**9, "trillion": 10**12
}  # fmt: skip
_SCALE = re.compile(
    r"\s*(?:\\text\s*\{\s*)?\b(dozen|thousand|lakh|million|crore|billion|trillion)s?(?: dollars)?\s*\}?$",
    re.IGNORECASE,
)
_POWER = re.compile(r"([+-]?)(\d+)\s*\^\s*(?:\{\s*(\d{1,4})\s*\}|(\d))")


class Exact(NamedTuple):
    r"""An exact number as written.

    Attributes:
        value: the value; of `50\%` it is 50.
        percent: whether a percent sign stood behind it.
        unit: the canonical unit, or the word that stood in its place, or None.
        decimals: digits after the decimal point, -1 when it was not written as a decimal.
    """

    value: Fraction
    percent: bool = False
    unit: str | None = None
    decimals: int = -1


def parse_exact(text: str) -> Exact | None:
    """The exact number that a canonical text writes, or None."""
    if not text or len(text) > MAX_DIGITS:
        return None
    value = _plain(text)
    if value is not None:
        return Exact(value[0], decimals=value[1])
    if match := _SCALE.search(text):
        value = _plain(split_unit(text[: match.start()])[0])
        return None if value is None else Exact(value[0] * _SCALES[match[1].lower()])
    if (several := compound(text)) is not None:
        return Exact(several[0], unit=several[1])
    bare, percent, unit = split_unit(text)
    if bare == text and not percent and unit is None:
        return None
    if unit in CURRENCIES and _COMMA_CENTS.fullmatch(bare):
        bare = bare.replace(",", ".")
    value = _plain(bare)
    return None if value is None else Exact(value[0], percent, unit, value[1])


def _plain(text: str) -> tuple[Fraction, int] | None:
    text = text.strip()
    while len(text) > 2 and text[0] == "(" and text[-1] == ")" and "(" not in text[1:] and "," not in text:
        text = text[1:-1].strip()
    if text.startswith(("+-", "--", "-+")):
        return None
    if text and text[0] in "+-":
        text = text[0] + text[1:].lstrip()
    if _INTEGER.fullmatch(text):
        return Fraction(int(text)), -1
    if _GROUPED.fullmatch(text):
        return _written(re.sub("[ ,]", "", text))
    if match := _DECIMAL.fullmatch(text):
        return Fraction(f"{match[1]}{match[2] or 0}.{match[3] or 0}"), len(match[3])
    if _OTHER_GROUPS.fullmatch(text):
        swiss = "'" in text
        return _written(text.replace("'", "") if swiss else text.replace(".", "").replace(",", "."))
    return _compound(text)


def _written(text: str) -> tuple[Fraction, int]:
    return Fraction(text), len(text.partition(".")[2]) if "." in text else -1


def _compound(text: str) -> tuple[Fraction, int] | None:
    if match := _FRACTION.fullmatch(text) or _RATIO.fullmatch(text):
        sign, top, bottom = match.groups() if match.re is _FRACTION else ("", *match.groups())
        return _quotient(top, bottom, -1 if sign == "-" else 1)
    if match := _MIXED.fullmatch(text):
        top, bottom = int(match[3] or match[5]), int(match[4] or match[6])
        if bottom == 0 or top >= bottom:
            return None  # `4 10/3` is no mixed number
        integer = int(re.sub("[ ,]", "", match[2]))
        return (-1 if match[1] == "-" else 1) * (integer + Fraction(top, bottom)), -1
    if match := _SCIENTIFIC.fullmatch(text):
        mantissa = _plain(match[1] or match[5] or "1")
        exponent = int((match[2] or match[3] or match[4] or match[6]).replace(" ", ""))
        if mantissa is None or abs(exponent) > MAX_EXPONENT:
            return None
        return mantissa[0] * Fraction(10) ** exponent, -1
    if match := _DOTTED.fullmatch(text):
        return _compound(rf"{match[1]}\overline{{{match[2]}}}")
    if match := _REPEATING.fullmatch(text):
        sign, whole, fixed, *cycles = match.groups()
        cycle, before = next(filter(None, cycles)), int((whole or "0") + fixed)
        value = (before + Fraction(int(cycle), 10 ** len(cycle) - 1)) / 10 ** len(fixed)
        return (-value if sign == "-" else value), -1
    if match := _POWER.fullmatch(text):
        base, exponent = int(match[2]), int(match[3] or match[4])
        if exponent * len(match[2]) > MAX_DIGITS:
            return None
        return Fraction(-(base**exponent) if match[1] == "-" else base**exponent), -1
    return None


def _quotient(top: str, bottom: str, sign: int) -> tuple[Fraction, int] | None:
    numerator, denominator = _plain(top.replace(" ", "")), _plain(bottom.replace(" ", ""))
    if numerator is None or denominator is None or denominator[0] == 0:
        return None
    return sign * numerator[0] / denominator[0], -1

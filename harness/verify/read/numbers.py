r"""Exact numbers in the notations people write them in, as `Fraction`; never a float.

Integers, decimals, `a/b`, `\frac{a}{b}`, mixed numbers, scientific notation, repeating decimals, thousands
separators, a percent sign, a currency sign before and a unit after.
"""

from __future__ import annotations

import re
import string
from fractions import Fraction
from itertools import pairwise
from typing import NamedTuple

# A decimal with at least so many decimals and four significant digits equals an exact value that rounds to it, or a longer decimal
# that does: 0.333333 equals 1/3, 0.33 does not.
DECIMAL_DIGITS = 6
MAX_DIGITS = 2_000
MAX_EXPONENT = 400
_INTEGER = re.compile(r"[+-]?\d+")
_THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+(?:\.\d+)?|[+-]?[1-9]\d{0,2}(?: \d{3})+(?:\.\d+)?")
_DECIMAL = re.compile(r"([+-]?)(?!\.$)(\d*)\.(\d*)")
_REPEATING_DECIMAL = re.compile(r"([+-]?)(\d*)\.(\d*)(?:\\(?:overline|bar|dot)\s*\{(\d+)\}|\((\d+)\)|\\bar\s*(\d))")
_RATIO = re.compile(r"([+-]?\s*[\d.,]+)\s*/\s*([+-]?\s*[\d.,]+)")
_FRACTION = re.compile(r"([+-]?)\s*\\frac\s*\{\s*([+-]?\s*[\d.,\s]+)\s*\}\s*\{\s*([+-]?\s*[\d.,\s]+)\s*\}")
_MIXED_NUMBER = re.compile(
    r"([+-]?)\s*(\d+|[1-9]\d{0,2}(?:[ ,]\d{3})+)\s*(?:\\frac\s*\{\s*(\d+)\s*\}\s*\{\s*(\d+)\s*\}"
    r"|(?:\s|\\ |\s+and\s+)\s*(\d+)\s*/\s*(\d+))"
)
_SCIENTIFIC = re.compile(
    r"(?:([+-]?[\d.,]+)\s*(?:\\times|\\cdot|\*)\s*)?10\s*\^\s*(?:\{\s*([+-]?\s*\d{1,6})\s*\}|\(\s*([+-]?\d{1,6})\s*\)|([+-]?\d{1,6}))"
    r"|([+-]?\d+(?:\.\d*)?|[+-]?\.\d+)[eE]([+-]?\d{1,6})"
)
_SCALES = {
    "dozen": 12, "hundred": 100, "thousand": 10**3, "lakh": 10**5, "million": 10**6, "crore": 10**7, "billion": 10**9, "trillion": 10**12
}  # fmt: skip
_SCALE = re.compile(
    r"\s*(?:\\text\s*\{\s*)?\b(dozen|hundred|thousand|lakh|million|crore|billion|trillion)s?(?: dollars)?\s*\}?$",
    re.IGNORECASE,
)


class Exact(NamedTuple):
    r"""An exact number as written; the value of `50\%` is 50."""

    value: Fraction
    percent: bool = False
    unit: str | None = None  # the canonical one, or the word that stood in its place
    decimals: int = -1  # digits behind the point; -1 when it was not written as a decimal


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
    if _THOUSANDS.fullmatch(text):
        text = re.sub("[ ,]", "", text)
        return Fraction(text), len(text.partition(".")[2]) if "." in text else -1
    if match := _DECIMAL.fullmatch(text):
        return Fraction(f"{match[1]}{match[2] or 0}.{match[3] or 0}"), len(match[3])
    return _compound(text)


def _compound(text: str) -> tuple[Fraction, int] | None:
    if match := _FRACTION.fullmatch(text) or _RATIO.fullmatch(text):
        sign, top, bottom = match.groups() if match.re is _FRACTION else ("", *match.groups())
        return _quotient(top, bottom, -1 if sign == "-" else 1)
    if match := _MIXED_NUMBER.fullmatch(text):
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
    if match := _REPEATING_DECIMAL.fullmatch(text):
        sign, whole, prefix, *cycles = match.groups()
        cycle, head = next(filter(None, cycles)), int((whole or "0") + prefix)
        value = (head + Fraction(int(cycle), 10 ** len(cycle) - 1)) / 10 ** len(prefix)
        return (-value if sign == "-" else value), -1
    return None


def _quotient(top: str, bottom: str, sign: int) -> tuple[Fraction, int] | None:
    numerator, denominator = _plain(top.replace(" ", "")), _plain(bottom.replace(" ", ""))
    if numerator is None or denominator is None or denominator[0] == 0:
        return None
    return sign * numerator[0] / denominator[0], -1


_LENGTH = {
    "mm": "1/1000", "millimeter": "1/1000", "cm": "1/100", "centimeter": "1/100", "dm": "1/10", "decimeter": "1/10",
    "m": "1", "meter": "1", "km": "1000", "kilometer": "1000", "inch": "127/5000", "in": "127/5000",
    "ft": "381/1250", "foot": "381/1250", "feet": "381/1250", "yd": "1143/1250", "yard": "1143/1250",
    "mi": "201168/125", "mile": "201168/125",
}  # fmt: skip
_MASS = {"mg": "1/1000", "g": "1", "gram": "1", "kg": "1000", "kilogram": "1000", "ton": "1000000", "tonne": "1000000",
         "lb": "45359237/100000", "pound": "45359237/100000", "oz": "45359237/1600000", "ounce": "45359237/1600000"}  # fmt: skip
_TIME = {"ms": "1/1000", "s": "1", "sec": "1", "second": "1", "min": "60", "minute": "60", "h": "3600", "hr": "3600",
         "hour": "3600", "day": "86400", "week": "604800", "month": "M1", "year": "M12", "yr": "M12"}  # fmt: skip
_VOLUME = {"ml": "1/1000", "milliliter": "1/1000", "l": "1", "liter": "1", "gal": "G",
           "gallon": "G"}  # fmt: skip
_MONEY = {"dollar": "D1", "usd": "D1", "cent": "D1/100", "euro": "E", "eur": "E", "yuan": "Y", "rupee": "R", "rs": "R"}
_SPEED = {"m/s": "1", "km/h": "5/18", "kmh": "5/18", "kmph": "5/18", "mph": "1397/3125", "ft/s": "381/1250"}
# Of other scripts these words alone: `3万` is no 3, and `3个半` neither.
_OTHER_SCRIPTS = {
    "元": "yuan", "块钱": "yuan", "人民币": "yuan", "美元": "dollar", "欧元": "euro", "厘米": "cm", "公分": "cm", "毫米": "mm",
    "分米": "dm", "米": "m", "公尺": "m", "千米": "km", "公里": "km", "克": "g", "公克": "g", "千克": "kg", "公斤": "kg", "毫克": "mg",
    "吨": "ton", "升": "l", "毫升": "ml", "秒": "s", "秒钟": "s", "分钟": "min", "小时": "h", "天": "day", "周": "week", "年": "year",
    "度": "degree",
    "平方厘米": "cm^2", "平方米": "m^2", "平方千米": "km^2", "立方厘米": "cm^3", "立方米": "m^3",
    "円": "yen", "センチ": "cm", "メートル": "m",
    "グラム": "g", "時間": "h", "원": "won", "см": "cm", "мм": "mm", "м": "m", "км": "km", "г": "g", "кг": "kg", "л": "l",
    "ч": "h", "мин": "min", "с": "s", "руб": "rouble", "рублей": "rouble", "градусов": "degree",
}  # fmt: skip
_OTHER_SCRIPTS |= dict.fromkeys(
    "个個人只隻本次名条條张張件辆輛颗棵头頭位家种種倍枚匹冊冊組组层層双雙套杯瓶包根支把朵幅封页頁岁歲歳", "thing"
)
_OTHER_UNIT = re.compile(
    r"(?<=[\d})!\s])\s*(?:\\text\s*\{\s*)?(" + "|".join(sorted(_OTHER_SCRIPTS, key=len, reverse=True)) + r")\.?\s*\}?$"
)
_CLOCK = {"am": "P", "pm": "Q"}
_ANGLE = {"degree": "A", "deg": "A", "radian": "B", "rad": "B"}
# Words that make another number of the one before them: `5 squared`, `3 quarters`. Any other word is a thing that is counted.
_OPERATION = (
    r"plus|minus|over|less|negative|factorial|squared|cubed|half|halves|thirds?|quarters?"
    r"|[a-z]*(?:four|fif|six|seven|eigh|nin|ten|lf|tie|red|and)ths?|tens|score|gross"
)
_NO_COUNTED_THING = re.compile(rf"and|but|for|mod|base|choose|where|with|wait|instead|the|pi|infinity|{_OPERATION}")
# Three letters behind a number are a product, but for these things and units.
_SHORT_THING = re.compile(
    r"bag|box|boy|bus|can|car|cat|cow|cup|dog|egg|hat|hen|jar|key|kid|lap|man|map|men|pen|pie|pig|row|set|tie|toy|van|way|win|won|yen"
    r"|bed|bit|job|leg|nut|pot|atm|bar|bps|cal|ghz|khz|kpa|kph|kwh|mhz|mmhg|mol|mpa|ohm|pcs|ppm|psi|pts|qts|rev|rpm|tbsp|tsp"
)
_VOWELS = frozenset("aeiouy")
_DIMENSIONS = {
    "length": _LENGTH, "mass": _MASS, "time": _TIME, "volume": _VOLUME, "money": _MONEY, "angle": _ANGLE, "length/time": _SPEED,
    "clock": _CLOCK,
}  # fmt: skip
_TABLE: dict[str, tuple[str, Fraction]] = {}
for _name, _units in _DIMENSIONS.items():
    for _unit, _scale in _units.items():
        _letter = _scale[0] if _scale[0].isalpha() else ""
        _TABLE[_unit] = _name + _letter, Fraction(_scale[len(_letter) :] or 1)

_CURRENCY = re.compile(
    r"^([+-]?)\s*(?:\\text\s*\{\s*)?(\\?\$|€|£|¥|₹|Rs\.?|USD|US\\?\$|\\text\s*\{\s*(?:USD|Rs\.?)\s*\}|\\pounds|\\euro)\s*(?=[\d.(\\+-])"
)
_CURRENCY_UNIT = {
    "$": "dollar", "¢": "cent", "US$": "dollar", "USD": "dollar", "€": "euro", "\\euro": "euro", "£": "pound_money",
    "\\pounds": "pound_money",
}  # fmt: skip
_PERCENT = re.compile(
    r"\s*(?:\\?%|\\text\s*\{\s*\\?%?\s*(?:percent|pct|percentage|per cent)?\s*\}|(?:\b|(?<=\d))(?:per ?cent|pct|percentage)(?: points?)?)$",
    re.IGNORECASE,
)
_DEGREE = re.compile(r"\s*\^\\circ\s*(?:\\text\s*\{\s*([CF])\s*\}|([CF]))?\s*$")
_TEXT_UNIT = re.compile(
    r"\s*(?:\\cdot\s*)?\\text\s*\{([^{}]*)\}\s*(?:\^\s*(?:\{\s*(\d)\s*\}|(\d)))?(?:\s*\\text\s*\{([^{}]*)\})?$"
)
_HEDGE = re.compile(  # no counted thing
    rf"\b(?:is|or|if|not?|but|wait|instead|maybe|perhaps|wrong|incorrect|{_OPERATION})\b|[!=+]|(?<!\^)\b\d",
    re.IGNORECASE,
)
_WORD_UNIT = re.compile(
    r"(?:(?<=[\d})!])\s*(?=[A-Za-z]{2})|\s+)((?:(?:square|cubic|sq\.?|cu\.?)\s+)?[A-Za-z]+(?:\s*/\s*[A-Za-z]+|\s+per\s+[A-Za-z]+)?)\.?\s*(?:\^\s*(?:\{\s*(\d)\s*\}|(\d)))?$"
)
_PARTS = re.compile(
    r"(\d+(?:\.\d+)?)\s*(?:\\text\s*\{\s*)?([A-Za-z]+)\.?\s*(?:,?\s*and\b)?\s*\}?\s*,?\s*(?:and\b\s*)?(?=\d|$)"
)
_MOST_PARTS = 4
_PREFIX = {"square": 2, "sq": 2, "cubic": 3, "cu": 3}


def split_unit(text: str) -> tuple[str, bool, str | None]:
    """(text without percent sign, currency and unit; whether percent; canonical unit or None)."""
    bare, unit = text.strip(), None
    if match := _CURRENCY.match(bare):
        mark = match[2].lstrip("\\") if match[2] != "\\euro" else match[2]
        bare, unit = match[1] + bare[match.end() :], _CURRENCY_UNIT.get(mark, mark)
    if match := _PERCENT.search(bare):
        if match.start() > 0:
            return bare[: match.start()].rstrip(), True, unit
        return text, False, None
    bare, name = _split_last(bare)
    return bare, False, name or unit


def _split_last(bare: str) -> tuple[str, str | None]:
    """(text without the unit or the currency at its end, that unit)."""
    if not bare.isascii() and (match := _OTHER_UNIT.search(bare)):
        return bare[: match.start()].rstrip(), _OTHER_SCRIPTS[match[1]]
    if match := _DEGREE.search(bare):
        scale = match[1] or match[2]
        return bare[: match.start()], f"degree{scale}" if scale else "degree"
    if (match := _TEXT_UNIT.search(bare)) and match.start() > 0 and not _HEDGE.search(f"{match[1]} {match[4] or ''}"):
        word = canonical_unit(match[1], match[2] or match[3]) or canonical_unit(match[4] or "", None)
        return bare[: match.start()].rstrip(), word or match[1].strip().lower()
    if match := _WORD_UNIT.search(bare):
        word = canonical_unit(match[1], match[2] or match[3])
        # `6xyz` is a product: without a space only a unit of the table is one.
        if word is not None and (match[0][0].isspace() or unit_scale(word) is not None):
            return bare[: match.start()].rstrip(), word
    return bare, None


def compound(text: str) -> tuple[Fraction, str] | None:
    """`3 hours and 20 minutes` as 200 minutes; None for other texts."""
    parts: list[tuple[Fraction, str, tuple[str, Fraction]]] = []
    position = 0
    while position < len(text):
        part = _PARTS.match(text, position)
        unit = canonical_unit(part[2], None) if part is not None else None
        size = unit_scale(unit) if unit is not None else None
        if part is None or unit is None or size is None or len(parts) == _MOST_PARTS:
            return None
        parts.append((Fraction(part[1]), unit, size))
        position = part.end()
    if len(parts) < 2 or len({size[0] for _, _, size in parts}) > 1:
        return None
    scales = [size[1] for _, _, size in parts]
    if any(scale <= next_scale for scale, next_scale in pairwise(scales)):
        return None
    total = sum((number * scale for (number, _, _), scale in zip(parts, scales, strict=True)), Fraction(0))
    return total / scales[-1], parts[-1][1]


def canonical_unit(words: str, power: str | None) -> str | None:
    """`square cm` and `cm` with power 2 are `cm^2`; the word itself for a counted thing, None for others."""
    name = words.strip().lower().rstrip(".").replace("\\", "").replace("metre", "meter").replace("litre", "liter")
    exponent = int(power) if power else 1
    if name in ("a.m", "p.m"):
        name = name.replace(".", "")
    name = re.sub(r"\s*(?:/|\bper\b)\s*", "/", name)
    parts = name.split()
    if len(parts) == 2 and parts[0].rstrip(".") in _PREFIX:
        exponent, name = _PREFIX[parts[0].rstrip(".")], parts[1]
    if name[-1:] in "23" and name[:-1] in _TABLE:
        exponent, name = int(name[-1]), name[:-1]
    if name.count("/") == 1 and name not in _TABLE:
        above, below = (canonical_unit(part, None) for part in name.split("/"))
        return f"{above}/{below}" if above in _TABLE and below in _TABLE else None
    for candidate in (name, name.removesuffix("s"), name.removesuffix("es")):
        if candidate in _TABLE:
            return candidate if exponent == 1 else f"{candidate}^{exponent}"
    counted_thing = (_SHORT_THING.fullmatch(name) or is_word(name)) and not _NO_COUNTED_THING.fullmatch(name)
    return name.removesuffix("s") if counted_thing else None


def is_word(letters: str) -> bool:
    """Return whether small letters are a word and no product: four at least, with a vowel, and no stretch of the alphabet."""
    return (
        len(letters) > 3
        and letters.isalpha()
        and not _VOWELS.isdisjoint(letters)
        and letters not in string.ascii_lowercase
    )


def is_unit(word: str) -> bool:
    """Return whether a word, in the singular or plural, is a unit of measure."""
    return word in _TABLE or word.removesuffix("s") in _TABLE


def unit_scale(unit: str) -> tuple[str, Fraction] | None:
    """(dimension, size in its base unit) of a canonical unit, None for counted things and unknown words."""
    name, _, power = unit.partition("^")
    if "/" in name and name not in _TABLE:
        above, below = (unit_scale(part) for part in name.split("/"))
        if above is None or below is None:
            return None
        return f"{above[0].removesuffix('^1')}/{below[0]}", above[1] / below[1]
    if name not in _TABLE:
        return None
    dimension, scale = _TABLE[name]
    exponent = int(power or 1)
    return f"{dimension}^{exponent}", scale**exponent

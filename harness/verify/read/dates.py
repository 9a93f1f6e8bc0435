"""Days and times of day as they are written: what they are, never arithmetic with their numbers."""

from __future__ import annotations

import datetime
import re

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = (
    r"(jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?"
    r"|dec(?:ember)?)\b\.?"
)
_DAY = r"(\d{1,2})(?:\s*\^?\s*\{?\s*(?:st|nd|rd|th)\s*\}?)?"
_WORDS = re.compile(r"\\text\s*\{([^{}]*)\}")
_FORMS = (  # the order of the parts, and how they are written
    ("ymd", re.compile(r"([12]\d{3})\s*([-/.])\s*(\d{1,2})\s*\2\s*(\d{1,2})")),
    ("ymd", re.compile(r"([12]\d{3})\s*年()\s*(\d{1,2})\s*月\s*(\d{1,2})\s*日")),
    ("either", re.compile(r"(\d{1,2})\s*([-/.])\s*(\d{1,2})\s*\2\s*([12]\d{3})")),
    ("mdy", re.compile(rf"{_MONTH}()\s*(?:the\s+)?{_DAY}(?:\s*,?\s*([12]\d{{3}}))?")),
    ("dmy", re.compile(rf"(?:the\s+)?{_DAY}\s*(?:of\s+)?(){_MONTH}(?:\s*,?\s*([12]\d{{3}}))?")),
)
_LONGEST = 60
_ANY_LEAP_YEAR = 2000
_TIME = re.compile(
    r"\s*(\d{1,2})\s*:\s*(\d{2})\s*(?::\s*(\d{2})\s*)?(?:\\text\s*\{\s*)?(?:([ap])\s*\.?\s*m\s*\.?\s*\}?\s*)?",
    re.IGNORECASE,
)
_HALF_DAY = 12


def days(text: str) -> frozenset[tuple[int | None, int, int]]:
    """Return (year, month, day) of a date, both readings of `3/4/2025`; empty for other texts. A date may lack its year."""
    if len(text) > _LONGEST:
        return frozenset()
    plain = " ".join(_WORDS.sub(r" \1 ", text).lower().split())
    for order, form in _FORMS:
        if (match := form.fullmatch(plain)) is not None:
            a, _, b, c = match.groups()
            orders = ("mdy", "dmy") if order == "either" else (order,)
            return frozenset(filter(None, (_day(dict(zip(one, (a, b, c), strict=True))) for one in orders)))
    return frozenset()


def _day(parts: dict[str, str | None]) -> tuple[int | None, int, int] | None:
    year, month, day = parts["y"], parts["m"] or "", parts["d"] or ""
    number = int(month) if month.isdigit() else _MONTHS.index(month[:3]) + 1
    try:
        datetime.date(int(year or _ANY_LEAP_YEAR), number, int(day))
    except ValueError:
        return None
    return None if year is None else int(year), number, int(day)


def same_day(gold: str, answer: str) -> bool:
    """Return whether two texts are one day. `3/4/2025` is two days: it equals itself, and no date in words."""
    gold_days, answer_days = days(gold), days(answer)
    if len(gold_days) > 1 or len(answer_days) > 1:
        return gold_days == answer_days and _numbers(gold) == _numbers(answer)
    return bool(gold_days) and gold_days == answer_days


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]


def same_time(gold: str, answer: str) -> bool:
    """Return whether two texts are one time of day; one of at most 12:59 without a.m. and p.m. may be either."""
    return bool(_seconds(gold) & _seconds(answer))


def _seconds(text: str) -> set[int]:
    """Seconds from midnight that a time may mean; none where it is no time."""
    match = _TIME.fullmatch(text)
    if match is None or max(int(match[2]), int(match[3] or 0)) > 59 or int(match[1]) > (_HALF_DAY if match[4] else 24):
        return set()
    hour, rest = int(match[1]), 60 * int(match[2]) + int(match[3] or 0)
    if match[4]:
        hours = {hour % _HALF_DAY + _HALF_DAY * (match[4].lower() == "p")}
    else:
        hours = {hour} if hour > _HALF_DAY else {hour, hour % _HALF_DAY, hour % _HALF_DAY + _HALF_DAY}
    return {3600 * one + rest for one in hours}

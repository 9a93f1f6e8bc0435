r"""A second grader: an answer that only the first one takes can then be seen.

It shares no extraction with the first. Where the gold is one numeral, the last numeral of the response must have its value; other golds
go to plain Math-Verify, in a process of the pool. It is strict and short on purpose, and nothing is trained against it.
"""

from __future__ import annotations

import collections
import re
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

from harness.verify.pool import WorkerPool

_MOST_DIGITS = 400
_LAST_CHARACTERS = 16_000  # of a response, for Math-Verify

_THOUSANDS = re.compile(r"(?<=[0-9])(?:\{,\}|\\,|,\\!)(?=[0-9]{3}(?![0-9]))")
_SCRIPT = re.compile(r"(?<=[A-Za-z0-9)\]}])\s*[\^_]\s*(?:\{(?:[^{}]|\{[^{}]*\})*\}|\\[A-Za-z]+|[+-]?[0-9]+|\w)")
_DEGREES = re.compile(r"\^\s*\{?\s*\\circ\s*\}?|°")
_COMMAND = re.compile(r"\\(?![dtc]?frac(?![A-Za-z]))[A-Za-z]+")
_NUMERAL = re.compile(
    r"(?<![A-Za-z0-9])(?:"
    r"(?:(?P<with_frac>[0-9]+)\s*)?\\[dtc]?frac\s*(?:\{\s*(?P<a>-?[0-9]+)\s*\}\s*\{\s*(?P<b>[0-9]+)\s*\}|(?P<c>[0-9])\s*(?P<d>[0-9]))"
    r"|(?:(?P<with_slash>[0-9]+)\s+)?(?P<e>[0-9]+)\s*/\s*(?P<f>[0-9]+)"
    r"|(?P<decimal>(?:[0-9]{1,3}(?:,[0-9]{3})+(?![0-9])|[0-9]+)(?:\.[0-9]+)?|\.[0-9]+)(?:[eE](?P<exponent>[+-]?[0-9]{1,2})(?![0-9A-Za-z]))?\s*(?P<percent>\\?%)?"
    r")"
)
_SCIENTIFIC = re.compile(
    r"(?<![0-9.,])(?P<size>[1-9](?:\.[0-9]+)?)\s*(?:\\times|\\cdot|[×·*x])\s*10\s*(?:\^|\*\*)\s*"
    r"[{(]?\s*(?P<power>[+−-]?[0-9]{1,2})(?![0-9])\s*[)}]?"
)
_CONTEXT_CHARS = 12  # characters in which the sign of a numeral is looked for
_Value = tuple[Fraction, bool]  # the number that a numeral writes, and whether a percent sign is behind it


def cross_verdicts(
    pairs: Sequence[tuple[str, str]], pool: WorkerPool, numerals_only: bool = False
) -> list[bool | None]:
    """Return whether the second grader confirms each (response, gold), in order; None where it has no verdict.

    It has none where Math-Verify cannot read the gold, or runs out of its time. `numerals_only`: no verdict on golds that are no numerals,
    which take a process of the pool and a thousand times as long.
    """
    distinct = dict.fromkeys(pairs)
    others = [pair for pair in distinct if not is_numeral(pair[1])]
    verdicts: dict[tuple[str, str], bool | None] = dict.fromkeys(others)
    verdicts |= {pair: last_numeral_is(*pair) for pair in distinct if pair not in verdicts}
    cases = {} if numerals_only else {pair: (pair[1], pair[0][-_LAST_CHARACTERS:]) for pair in others}
    answers = pool.answers(cases.values())
    for pair, case in cases.items():
        verdicts[pair] = {"right": True, "wrong": False}.get(answers[case][0])
    return [verdicts[pair] for pair in pairs]


def is_numeral(gold: str) -> bool:
    """Return whether a gold is one numeral, which is graded without Math-Verify."""
    return _gold_value(gold) is not None


def last_numeral_is(response: str, gold: str) -> bool:
    r"""Return whether the last numeral of a response has the value of a gold that is one numeral.

    Numerals are integers, decimals, thousands, `3e5`, `3 \times 10^5`, `a/b`, `\frac{a}{b}` and mixed numbers, with a leading minus and a
    percent sign, compared as exact fractions; `50\%` is 0.5 and 50. Exponents and subscripts are none, nor is what stands in a word.
    A quotient that comes out even (`12/4`) is left to do: it equals nothing.
    """
    text = _COMMAND.sub(" ", _SCRIPT.sub(" ", _scientific_as_e(_THOUSANDS.sub(",", response))))
    last = collections.deque(_NUMERAL.finditer(text), maxlen=1)
    value, gold_value = _value(last[0]) if last else None, _gold_value(gold)
    return value is not None and gold_value is not None and _equal(value, gold_value)


@lru_cache(50_000)
def _gold_value(gold: str) -> _Value | None:
    """Return the value of a gold that is one numeral, with a frame, a currency or a degree sign at most; else None."""
    text = gold.rpartition("####")[2].strip()
    if box := re.fullmatch(r"\$*\s*\\boxed\s*\{(.*)\}\s*\$*\.?", text, re.DOTALL):
        text = box[1]
    text = (
        _DEGREES.sub("", _scientific_as_e(_THOUSANDS.sub(",", text)))
        .replace("\\$", "")
        .strip(" $\n")
        .removesuffix(".")
        .rstrip(" $")
    )
    sign = text[:1] in ("-", "−", "+")
    match = _NUMERAL.fullmatch(text, int(sign))
    return None if match is None else _value(match)


def _scientific_as_e(text: str) -> str:
    r"""Return a text with `3 \times 10^{5}` as `3e5`."""
    return _SCIENTIFIC.sub(lambda match: f"{match['size']}e{match['power'].replace('−', '-')}", text)


def _value(match: re.Match[str]) -> _Value | None:
    """Return the value of a numeral with the sign before it; None for a division by zero or without rest, and for huge numbers."""
    if len(match[0]) > _MOST_DIGITS:
        return None
    if match["decimal"] is not None:
        value = Fraction(match["decimal"].replace(",", "")) * Fraction(10) ** int(match["exponent"] or 0)
    else:
        above, below = (match[a] or match[c] or match[e] for a, c, e in (("a", "c", "e"), ("b", "d", "f")))
        if int(below) == 0 or int(above) % int(below) == 0:
            return None
        value = Fraction(int(above), int(below)) + int(match["with_frac"] or match["with_slash"] or 0)
    return (-value if _negative(match.string, match.start()) else value), match["percent"] is not None


def _negative(text: str, start: int) -> bool:
    """Return whether a minus before a numeral is its sign, not a subtraction or a hyphen."""
    context = text[max(0, start - _CONTEXT_CHARS) : start]
    minus = context.rstrip()
    if not minus.endswith(("-", "−")):
        return False
    prefix = minus[:-1].rstrip()
    if prefix[-1:].isalpha():  # "is -4", not "x - 4" or "day-4"
        return prefix != minus[:-1] and minus == context
    return not prefix or not (prefix[-1].isdigit() or prefix[-1] in ")]}%!")


def _equal(value: _Value, gold: _Value) -> bool:
    if value[1] == gold[1]:
        return value[0] == gold[0]
    percent, number = (value[0], gold[0]) if value[1] else (gold[0], value[0])
    return number in (percent, percent / 100)

r"""A second grader: an answer that only the first one takes can then be seen.

It shares no extraction and no grammar with the first. Where the gold is one numeral, the last numeral of the response must have its value;
other golds go to plain Math-Verify, in a process of the pool. It is strict and short on purpose, and nothing is trained against it.
"""

import collections
import re
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache

from harness.verify.pool import WorkerPool
from harness.verify.read.expressions import expression, is_numeral
from harness.verify.read.tokens import NUMBER, tokenize
from harness.verify.read.values import constant

_LAST_CHARACTERS = 16_000  # of a response, for Math-Verify
_FRACTION = r"\\[dtc]?frac\s*(?:\{\s*-?\d+\s*\}\s*\{\s*\d+\s*\}|\d\s*\d)|\d+\s*/\s*\d+(?!\d)"
# Exponents, subscripts, other commands and a minus behind an operand are no part of a numeral, nor is what stands in a word.
_PIECE = re.compile(
    r"(?P<other>(?<=[A-Za-z0-9)\]}])\s*[\^_]\s*(?:\{(?:[^{}]|\{[^{}]*\})*\}|\\[A-Za-z]+|[+-]?[0-9]+|\w)|\\(?![dtc]?frac(?![A-Za-z]))[A-Za-z]+"
    r"|(?<=[0-9)\]}%!])[^\S\n]*\n?[-−]|(?<=[A-Za-z])(?:[-−]|[^\S\n]+[-−](?=\s)))"
    rf"|(?P<minus>[-−]\s*)?(?<![A-Za-z0-9])(?P<numeral>{_FRACTION}|{NUMBER})(?P<percent>\s*\\?%)?",
    re.ASCII,
)
_FRAMED_GOLD = re.compile(
    r"[\s$]*(?:\\boxed\s*\{(?P<boxed>.*)\}|(?P<bare>.*?))(?:\^\s*\{?\s*\\circ\s*\}?|°)?[\s$.]*", re.DOTALL
)
_Value = tuple[Fraction, bool]  # the number that a numeral writes, and whether a percent sign is behind it


def cross_verdicts(pairs: Sequence[tuple[str, str]], pool: WorkerPool) -> list[bool | None]:
    """Return whether the second grader confirms each (response, gold), in order; None where it has no verdict.

    It has none where Math-Verify cannot read the gold, or runs out of its time.
    """
    cases = {pair: (pair[1], pair[0][-_LAST_CHARACTERS:]) for pair in pairs if gold_value(pair[1]) is None}
    answers = pool.answers(cases.values())
    words = {"right": True, "wrong": False}
    return [words.get(answers[cases[pair]][0]) if pair in cases else last_numeral_is(*pair) for pair in pairs]


def last_numeral_is(response: str, gold: str) -> bool:
    r"""Return whether the last numeral of a response has the value of a gold that is one numeral.

    A numeral is a number as written (`1,234`, `3 \times 10^5`, `\frac{3}{4}`, `2 1/2`), with a minus and a percent sign;
    `50\%` is 0.5 and 50. A quotient that comes out even (`12/4`) is left to do: it equals nothing.
    """
    last = collections.deque((match for match in _PIECE.finditer(response) if match["other"] is None), maxlen=1)
    value, gold_number = _value(last[0]) if last else None, gold_value(gold)
    return value is not None and gold_number is not None and _equal(value, gold_number)


@lru_cache(50_000)
def gold_value(gold: str) -> _Value | None:
    """Return the value of a gold that is one numeral, with a frame, a currency or a degree sign at most; else None."""
    framed = _FRAMED_GOLD.fullmatch(gold.rpartition("####")[2].replace(r"\$", ""))
    text = "" if framed is None else (framed["boxed"] or framed["bare"] or "").strip(" $")
    match = _PIECE.fullmatch(text.removeprefix("+"))
    return None if match is None or match["other"] else _value(match)


def _value(match: re.Match[str]) -> _Value | None:
    """Return the value of a numeral with the sign before it; None for a division by zero or without rest, and for huge numbers."""
    value = _number(match["numeral"])
    return None if value is None else (-value if match["minus"] else value, match["percent"] is not None)


@lru_cache(50_000)
def _number(numeral: str) -> Fraction | None:
    try:
        tree = expression(tokenize(numeral))
        value = constant(tree) if tree is not None and is_numeral(tree) else None
    except RecursionError:
        return None
    return value if isinstance(value, Fraction) else None


def _equal(value: _Value, gold: _Value) -> bool:
    if value[1] == gold[1]:
        return value[0] == gold[0]
    percent, number = (value[0], gold[0]) if value[1] else (gold[0], value[0])
    return number == percent / 100 or (number == percent and not 0 < abs(number) < 1)  # `0.5%` is not 0.5

"""A reader of short answers with whole numbers, which shares no code with the verifier.

It says what an answer claims, or that it claims nothing. Its rules, in this order:

* The last box counts.
* Questions say nothing. Nor does an end that is cut off: words behind the last full stop that make no whole statement.
* A text that ends with `That is wrong.` claims nothing.
* The last answer line counts, whatever it says (`Answer: F`), unless a later statement corrects it or works out something else.
* Without an answer line the last statement with a number counts.

A statement has sides, with `=`, `is` and their like between them. A side is a number, a calculation or words.

* A number on the last side is claimed. Another number alone before it, or before a calculation that is not worth it,
  says that the two are the same, and claims nothing: `12 is 26`, `13 = 1 + 6 = 12`.
* A calculation on the last side has to come to the number before it: `30 is 3 x 10`.
* The smallest or largest of a list has to be that; so has `17 more than 25` or `the sum of 17 and 25`. `42, not 43` claims 42.
* `not`, `or`, two numbers side by side, an operation without its number and characters of no language are torn: nothing is claimed.
* `=` with nothing on one side is torn. What stands on the left of the last one may be torn where it has words: `16 - x = 7` claims 7.
  Not so numbers side by side: `We5 17 + 17 = 30`.
* A letter with a number (`T, 4.`) is two things, and `A is 10.` chooses A.
* A statement that begins with `Or` doubts what was said. Dollar signs that do not pair are torn.
* A point glued to a number, and words glued together, are torn: `it is.18`, `NoIt comes to 20.`, `17 + to17`
* Marks of Markdown that do not pair (`**30*`) and heading marks inside a line (`# wait## 1`) are torn.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from fractions import Fraction

_BOX = re.compile(r"\\boxed\{([^{}]*)\}")
_ENDS = re.compile(r"(?<=[.!?])(?=\s|$)|\n")
_LINE = re.compile(r"####|\b[Aa]nswer(?: [^.\n]*?)??(?: is\b|:| =)")
_TAKEN_BACK = re.compile(r"(?:That|that|it|It|this) is wrong\W*$")
_CORRECTION = re.compile(r"\b(?:No wait|Actually|actually|I mean|[Oo]r rather|wait)\b")
_MARKS = re.compile(r"=|\b(?:is|are|equals|makes|comes to|get)\b")
_TOKEN = re.compile(r"\d+|[A-Za-z']+|[-+*/×]|\S")
_GLUED = re.compile(
    r"\b(?:is|are|was|to|and|or|of|the|equals|makes|get|which|that|it|not)\d|\w[A-Z][a-z]|\d[A-Za-z]|\b[A-Za-z]\d|\d[.,]\d|[^\W\d]\.\d|(?<!\d)\s\.\d|\b(?:and|or)$"
)
_OPEN_EQUATION = re.compile(r"^\s*=|=\s*(?:=|$)")
_LETTER = re.compile(r"[A-J] (?:is )?\d+\b|\W?[A-Za-z]?, \d+[.!]?$")
_TIMES = re.compile(r"\d\s*\*\s*(?=\d)")
_INNER_HEADING = re.compile(r"(?<!^)(?<![# ])#|\S +#")
_EXTREME = re.compile(r"(\d+) is the (smallest|largest) (?:number )?of ([\d, and]+)[.!]?$")
_TOLD = re.compile(
    r"(\d+) is (?:(\d+) (more|less|fewer) than (\d+)|the (sum|product|difference) of (\d+) and (\d+))[.!]?$"
)
_NOT_THAT = re.compile(r"(?:.*\bis )?(\d+),? not \d+[.!]?$")
_DOUBT = re.compile(r"Or\b(?! rather)")
_EQUATION_OF_WORDS = re.compile(r"(?!.*(?:\bor\b|\d\s+\d|[A-Za-z]\d))[^=]*[A-Za-z][^=]*=[\s$]*\d+[\s$.!]*$")
_OPERATIONS = {"x": "*", "×": "*", "times": "*", "plus": "+", "minus": "-"}
_EXTREMES = {"smallest": min, "largest": max}
_HARMLESS = frozenset(".,:;!$*#()'")
_TEARING = frozenset(("not", "or", "between"))


@dataclass(frozen=True)
class Side:
    """A side of a statement: its value, None for words alone; whether it is a number alone, a calculation, and whether it is torn."""

    value: Fraction | None = None
    bare: bool = False
    calculation: bool = False
    torn: bool = False


def claim(response: str, extraction: str) -> tuple[int | None, str]:
    """Return the number that a response claims, None where it claims none, and the rule that says so."""
    if boxes := _BOX.findall(response):
        return statement(boxes[-1]), "the last box"
    if extraction == "boxed":
        return None, "no box"
    whole = _whole(response)
    if not whole or _TAKEN_BACK.search(whole[-1]):
        return None, "taken back, or nothing whole"
    lines = [i for i, text in enumerate(whole) if _LINE.search(text)]
    if lines:
        return _after_line(whole, lines[-1])
    if extraction == "answer_line":
        return None, "no answer line"
    said = [text for text in whole if re.search(r"\d", text)]
    return (statement(said[-1]) if said else None), "the last statement"


def _whole(response: str) -> list[str]:
    """Return the statements of a response without questions and without an end that is cut off."""
    texts = [text.strip() for text in _ENDS.split(response)]
    texts = [text for text in texts if text and not text.endswith("?")]
    cut_off = texts and not response.rstrip().endswith((".", "!")) and statement(texts[-1]) is None
    if cut_off and any(map(str.isalnum, "".join(_LINE.split(texts[-1])[1:]))):
        return texts  # an answer line counts, whatever it says
    return texts[:-1] if cut_off and len(texts) > 1 else texts


def _after_line(whole: list[str], at: int) -> tuple[int | None, str]:
    said = statement(_LINE.split(whole[at])[-1])
    for text in reversed(whole[at + 1 :]):
        if _TAKEN_BACK.search(text):
            return None, "taken back"
        later = statement(text)
        if later is None:
            continue
        if _CORRECTION.search(text) or (_calculates(text) and str(said) not in re.findall(r"\d+", text)):
            return later, "a correction or calculation after the answer line"
        if _calculates(text) and later == said:
            break
    return said, "the answer line"


def statement(text: str) -> int | None:
    """Return the number that one statement claims, None where it claims none."""
    if (
        _LETTER.match(text)
        or _GLUED.search(text)
        or _OPEN_EQUATION.search(text)
        or _INNER_HEADING.search(text)
        or _DOUBT.match(text)
        or text.count("$") % 2
        or not _paired(text)
    ):
        return None
    if extreme := _EXTREME.match(text):
        listed = [int(number) for number in re.findall(r"\d+", extreme[3])]
        return int(extreme[1]) if listed and int(extreme[1]) == _EXTREMES[extreme[2]](listed) else None
    if told := _TOLD.match(text):
        return int(told[1]) if int(told[1]) == _told(told) else None
    if not_that := _NOT_THAT.match(text):
        return int(not_that[1])
    sides = [_side(part) for part in _MARKS.split(text)]
    sides = [side for side in sides if side.value is not None or side.torn]
    last = sides[-1] if sides else Side(torn=True)
    if last.torn or any(side.torn for side in sides[:-1] if not _EQUATION_OF_WORDS.match(text)):
        return None
    if last.calculation:
        numbers = {side.value for side in sides if not side.calculation}
        same = len(sides) > 1 and {side.value for side in sides} == {last.value} and numbers == {last.value}
        return int(last.value) if same and last.value is not None else None
    if any(one.bare and one.value != two.value for one, two in itertools.pairwise(sides)):
        return None
    return None if last.value is None else int(last.value)


def _told(told: re.Match[str]) -> int:
    """Return the number that `N more than M` or `the sum of N and M` tells."""
    n, m = int(told[2] or told[6]), int(told[4] or told[7])
    how = told[3] or told[5]
    return {"more": n + m, "sum": n + m, "product": n * m, "difference": abs(n - m)}.get(how, m - n)


def _paired(text: str) -> bool:
    """Return whether the stars of bold and italic type come in pairs."""
    stars = re.findall(r"\*+", _TIMES.sub("", text))
    return stars[::2] == stars[1::2]


def _calculates(text: str) -> bool:
    return any(_side(part).calculation for part in _MARKS.split(text)) or "result" in text or "sum of" in text


def _side(text: str) -> Side:
    """Return what one side of a statement says."""
    tokens = _TOKEN.findall(text)
    if tokens.count("x") == 1 and not re.search(r"\d", text):
        tokens.remove("x")  # a name
    tokens = [_OPERATIONS.get(token, token) for token in tokens]
    formula = _without_stars(text, [token for token in tokens if token.isdigit() or token in "+-*/"])
    words = [token for token in tokens if token[0].isalpha()]
    strange = [
        token for token in tokens if token not in formula and token not in words and token not in _HARMLESS
    ]
    if strange or _TEARING & set(words):
        return Side(torn=True)
    if not formula:
        return Side()
    value = _worth(formula)
    if value is None:
        return Side(torn=True)
    return Side(value, not words and len(formula) == 1, len(formula) > 1)


def _without_stars(text: str, formula: list[str]) -> list[str]:
    """Return a formula without the stars of bold type."""
    return [token for token in formula if token != "*"] if "**" in text else formula


def _worth(formula: list[str]) -> Fraction | None:
    """Return the value of numbers with operations between them, None where it is no such formula or divides by zero."""
    if re.fullmatch(r"-?\d+(?:[-+*/]\d+)*", written := "".join(formula)) is None or " " in written:
        return None
    if any(one.isdigit() and two.isdigit() for one, two in itertools.pairwise(formula)):
        return None
    total = Fraction(0)
    for sign, product in re.findall(r"([-+]?)((?:\d+[*/])*\d+)", written):
        value, operation = Fraction(1), "*"
        for token in re.findall(r"\d+|[*/]", product):
            if token in "*/":
                operation = token
            elif operation == "/" and int(token) == 0:
                return None
            else:
                value = value * int(token) if operation == "*" else value / int(token)
        total += -value if sign == "-" else value
    return total

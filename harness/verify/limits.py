"""Static limits, checked before any parser sees a text: what exceeds them gets the verdict `over_limit`."""

from __future__ import annotations

import re

MAX_DEPTH = 24
MAX_OPERATORS = 400
MAX_ITEMS = 1_000
MAX_DIGITS_RUN = 400
MAX_EXPONENT_DIGITS = 4
MAX_FACTORIAL = 3_000
_CODE = re.compile(
    r"__\w+__|(?<!\\)\blambda\b[^:\n]{0,60}:|\bimport\s+[a-z_.]+\s*(?:;|$|as\b|\n)|\bopen\s*\(\s*f?['\"]"
    r"|\b(?:exec|eval|getattr|setattr|globals|locals|compile|subprocess|sympify|os\.system|print|return)\s*\("
    r"|\.\s*(?:__|mro\b|subs\b|doit\b|system\b|popen\b|read\b|write\b)"
)
_DIGITS = re.compile(rf"\d{{{MAX_DIGITS_RUN + 1},}}")
_TOWER = re.compile(r"\^\s*\{?\s*\(?\s*[\w\\]+\s*\}?\s*\^")
_EXPONENT = re.compile(r"\^\s*\{?\s*\(?\s*[+-]?\s*(\d+)")
_FACTORIAL = re.compile(r"(\d+)\s*\)?\s*!|\\Gamma\s*\(?\s*\{?\s*(\d+)")
_BINOMIAL = re.compile(r"\\[dt]?binom\s*\{?\s*(\d+)|\\choose")
_NESTED_FACTORIAL = re.compile(r"(?:!\s*\)?\s*){3}")
_BOUND = re.compile(r"\\(?:sum|prod)(?:_\s*\{[^{}]*\})?\s*\^\s*\{?\s*(\d+)")
_NUMERIC_TOWER = re.compile(r"\d\s*\}?\s*\^\s*\{?\s*\(?\s*-?\d+\s*\}?\s*\^")
_EAGER = re.compile(r"\\operatorname\s*\{\s*(?:SVD|eig|rref)|\\xRightarrow|\\(?:det|SVD|rref)\b")


def over_limit(text: str, max_chars: int) -> str | None:
    """Return why a text must not reach a parser, or None when it may."""
    if len(text) > max_chars:
        return f"{len(text)} characters, the limit is {max_chars}"
    if _DIGITS.search(text):
        return f"a number of more than {MAX_DIGITS_RUN} digits"
    if _depth(text) > MAX_DEPTH:
        return f"nesting deeper than {MAX_DEPTH}"
    if text.count(",") + text.count(";") + text.count("&") > MAX_ITEMS:
        return f"more than {MAX_ITEMS} items"
    if sum(map(text.count, "+-*/^=<>!")) > MAX_OPERATORS:
        return f"more than {MAX_OPERATORS} operators"
    if _CODE.search(text):
        return "program code, not mathematics"
    return _size_limit(text)


def looks_like_code(text: str) -> bool:
    """Return whether a text is program code, of which no part may be taken for an answer."""
    return _CODE.search(text) is not None


def _size_limit(text: str) -> str | None:
    if "^" in text:
        if _NUMERIC_TOWER.search(text) or (_TOWER.search(text) and text.count("^") > 3):
            return "a tower of powers"
        if any(len(match[1].lstrip("0")) > MAX_EXPONENT_DIGITS for match in _EXPONENT.finditer(text)):
            return f"an exponent of more than {MAX_EXPONENT_DIGITS} digits"
    if "!" in text or "Gamma" in text:
        largest = max((int((m[1] or m[2])[:9]) for m in _FACTORIAL.finditer(text)), default=0)
        if largest > MAX_FACTORIAL or _NESTED_FACTORIAL.search(text):
            return f"a factorial beyond {MAX_FACTORIAL}!"
    if "binom" in text and any(m[1] and int(m[1][:9]) > MAX_FACTORIAL for m in _BINOMIAL.finditer(text)):
        return f"a binomial coefficient beyond {MAX_FACTORIAL}"
    if ("sum" in text or "prod" in text) and any(len(m[1]) > 4 for m in _BOUND.finditer(text)):
        return "a sum or product of more than 9999 terms"
    return "an eager matrix operation" if _EAGER.search(text) else None


def _depth(text: str) -> int:
    depth = deepest = 0
    for char in text:
        if char in "({[":
            depth += 1
            deepest = max(deepest, depth)
        elif char in ")}]":
            depth = max(0, depth - 1)
    return deepest

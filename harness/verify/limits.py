"""Static limits, checked before any parser sees a text: what exceeds them gets the verdict `over_limit`."""

from __future__ import annotations

import re

MAX_CHARS = 4_096
MAX_DEPTH = 24
MAX_OPERATORS = 400
MAX_ITEMS = 1_000
MAX_DIGITS_RUN = 400
_CODE = re.compile(
    r"__\w+__|(?<!\\)\blambda\b[^:\n]{0,60}:|\bimport\s+[a-z_.]+\s*(?:;|$|as\b|\n)|\bopen\s*\(\s*f?['\"]"
    r"|\b(?:exec|eval|getattr|setattr|globals|locals|compile|subprocess|sympify|os\.system|print)\s*\(|\breturn\("
)
_MEMBER = re.compile(r"\.\s*(?:__|mro\b|subs\b|doit\b|system\b|popen\b|read\b|write\b)")
_DIGITS = re.compile(rf"\d{{{MAX_DIGITS_RUN + 1},}}")
_EXPONENT = r"(?:\{[^{}]*\}|\d+|\\[a-zA-Z]+|\w)"  # one brace group, number, command or letter
_TOWER = re.compile(rf"\^\s*{_EXPONENT}\s*\^|\^\s*[{{(]\s*{_EXPONENT}\s*\^")
_NESTED_FACTORIAL = re.compile(r"(?:!\s*\)?\s*){3}")
_NUMERIC_TOWER = re.compile(r"\d\s*\}?\s*\^\s*\{?\s*\(?\s*-?\d+\s*\}?\s*\^")
_EAGER = re.compile(r"\\operatorname\s*\{\s*(?:SVD|eig|rref)|\\xRightarrow|\\(?:det|SVD|rref)\b")
_LARGEST = (
    ("^", re.compile(r"\^\s*\{?\s*\(?\s*[+-]?\s*(\d+)"), 9_999),
    ("!", re.compile(r"(\d+)\s*\)?\s*!"), 3_000),
    ("Gamma", re.compile(r"\\Gamma\s*\(?\s*\{?\s*(\d+)"), 3_000),
    ("binom", re.compile(r"\\[dt]?binom\s*\{?\s*(\d+)"), 3_000),
    ("\\", re.compile(r"\\(?:sum|prod)(?:_\s*\{[^{}]*\})?\s*\^\s*\{?\s*(\d+)"), 9_999),
)


def over_limit(text: str) -> bool:
    """Return whether a text must not reach a parser: too long, nested too deeply, beyond a size, or program code."""
    return (
        len(text) > MAX_CHARS
        or _DIGITS.search(text) is not None
        or _depth(text) > MAX_DEPTH
        or sum(map(text.count, ",;&")) > MAX_ITEMS
        or sum(map(text.count, "+-*/^=<>!")) > MAX_OPERATORS
        or looks_like_code(text)
        or _too_large(text)
    )


def looks_like_code(text: str) -> bool:
    """Return whether a text is program code, of which no part may be taken for an answer."""
    may_be = "(" in text or "__" in text or "import" in text or "lambda" in text
    return (may_be and _CODE.search(text) is not None) or _MEMBER.search(text) is not None


def _too_large(text: str) -> bool:
    towers = _NUMERIC_TOWER.search(text) or (text.count("^") > 3 and _TOWER.search(text))
    if towers or _NESTED_FACTORIAL.search(text) or _EAGER.search(text):
        return True
    return any(
        int(match[1].lstrip("0")[:9] or 0) > most
        for mark, pattern, most in _LARGEST
        if mark in text
        for match in pattern.finditer(text)
    )


def _depth(text: str) -> int:
    depth = deepest = 0
    for char in text:
        if char in "({[":
            depth += 1
            deepest = max(deepest, depth)
        elif char in ")}]":
            depth = max(0, depth - 1)
    return deepest

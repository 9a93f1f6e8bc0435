"""Garbled text, which says no number: `20Therefore`, `is5`, `+ =`, `23.+ 10`, `12 9`.

A policy that is paid for parting two graders learns to say such things around the right number; people and language models hardly do
(experiments/grader_hunt/README.md).
"""

from __future__ import annotations

import re

_OPENING = r"(?:The|That|There|Therefore|This|It|So|We|What|Answer|No|Or|Here|Actually|Then|Thus)\b"
_FUNCTION = r"(?:is|are|was|to|and|or|of|the|equals|makes|get|which|that|it|not)"
_GARBLED = re.compile(
    rf"[a-z\d](?={_OPENING})"  # a sentence begins inside a word
    rf"|\d(?={_FUNCTION}\b)"
    rf"|\b{_FUNCTION}(?=\d)"
    r"|[+=×]\s*(?=[?!,;:=×+]|\.(?!\.))"  # a sign without its number
    r"|(?<!\.)[.?!;](?=\s*[+×=])(?<!\d!)"
    r"|[.?!](?=[^(\s\w\"'”’)\]}*_$,.!?…:;-])(?<!\d!)|\?(?=\w)"  # a sentence goes on behind its end
    r"|(?<![\d,.])\d(?:[.,]?\d)*+ +(?!\d{3}\b)\d++(?!\s*/|[.,]?\d)"  # two numbers, not `1 000` or `2 1/2`
)

# For speed: where this finds nothing, the slow pattern has no match.
_MAY_BE = re.compile(r"[a-z\d][A-Z]|\d[a-z]|[a-z]\d|[+=×.?!;]\s*[^\s\w]|[.?!;]\w|\d +\d")


def is_garbled(sentence: str) -> bool:
    """Return whether a sentence without LaTeX has words, numbers, signs or marks stuck together that nobody writes so."""
    return (
        "\\" not in sentence
        and _MAY_BE.search(sentence) is not None
        and _GARBLED.search(sentence) is not None
    )

r"""Claims of sentences: `3 + 27 is 27`, `10 * 9 ≈ 98` and `8 + 16, which equals 14` claim 27, 98 and 14.

A formula is never the answer of a sentence that says what it comes to. Where a sentence offers several values, or says what the
answer is not, it offers none.
"""

from __future__ import annotations

import re
from itertools import pairwise

_VALUE = r"[-−+]?(?:\\?[$€£¥₹]\s?)?(?:\d++(?:,\d{3})*+(?:\.\d+)?+|\.\d++)"
_STRONG = (
    r"(?<![<>!=:])=(?!=)|->|=>|→|⇒|≈|\\approx(?![a-z])|\b(?:equals?|equal(?:ling|ing)?\s+to|makes?|making|comes?\s+(?:out\s+)?(?:to|as|at)|totals?|gives?|giving"
    r"|yields?|leaves|leaving|amounts?\s+to|results?\s+in|works?\s+out\s+(?:to|as|at)|which\s+(?:is|are)|that\s+is|that's|becomes?|adds?\s+up\s+to)\b"
)
_CLAIM = re.compile(rf"(?P<strong>{_STRONG})|\b(?:is|are|was|were|be)\b|:(?=\s)", re.IGNORECASE)
_FILLER = re.compile(
    r"(?:[\s:*_~≈]|\\(?:approx|text|mathrm)\b|\b(?:is|are|be|equals?|equal|to|about|approximately|roughly|around|exactly|just|only|simply|a|an|"
    r"the|total|sum|answer|result|value|number|of|now|then|still|therefore|thus|indeed|also|us|you|him|her|them|me|at|out)\b)*",
    re.IGNORECASE,
)
_OPERATION = re.compile(
    r"[\d)}%]\s*(?:[-+*/×·÷−^!]|[xX](?=\s*\d)|\\(?:times|cdot|div)|\b(?:plus|minus|times|multiplied by|divided by|over|less)\b)"
    r"(?:\s*[\d({$\\.-]|(?<=!))|\\(?:sqrt|sum|prod|binom)|√|∑|\b(?:sum|product|difference|quotient) of\b",
    re.IGNORECASE,
)
_FRACTION = re.compile(r"[-−+]?\d+\s*/\s*\d+|\\[dt]?frac\s*\{?-?\d+\}?\s*\{?\d+\}?")
_CLAUSE_END = re.compile(
    r"[;!?。]|,(?!\d)|\.(?!\d)|\b(?:because|since|as|so|but|while|where|if|when|with|and|for|in|after|before|by|which)\b|$"
)
_NOT = re.compile(
    r"(?:\bnot|\bcannot|n['’]t|\bnever|\banything but|\bother than|\b(?:less|more|fewer|greater|higher|lower|larger|smaller) than|\bbelow"
    r"|\babove|\bfar from|\binstead of|\brather than|\bno longer|\bneither|\bnor|\bexcept)\s*"
    r"(?:\b(?:be|is|equal|to|exactly|really|just|a|an|the|of|quite|always|have|been)\b\s*)*[\s$\\(\[*{]*$",
    re.IGNORECASE,
)
_NUMBER = re.compile(rf"(?<![\w.,\\^]){_VALUE}(?:\s*/\s*\d+)?%?(?![\w])")
_ALTERNATIVE = re.compile(
    r"[^.;=<>]{0,40}\b(?:or|versus|vs|else|otherwise|alternatively|maybe|perhaps|possibly|unless|failing that|if not)\b[^.;=<>]{0,30}",
    re.IGNORECASE,
)
_RANGE = re.compile(r"\s*(?:-|–|—|to|through|until|up to|\.\.+|…)\s*\$?", re.IGNORECASE)
_LIST = re.compile(r"\s*[,;](?:\s|\$)*|\s*,?\s*and\s*\$?|\s+(?!\d{3}\b|\d+/)")
_BETWEEN = re.compile(
    rf"\b(?:between|from|somewhere)\s+\\?\$?{_VALUE}[^.;=\d]{{0,25}}\b(?:and|to)\s+\\?\$?{_VALUE}",
    re.IGNORECASE,
)
_AMONG = re.compile(
    rf"\bof\s+{_VALUE}(?:\s*,\s*{_VALUE})+(?:,?\s*(?:and|or)\s*{_VALUE})?\W*$|\bone of\b.*", re.IGNORECASE
)
_DOUBT = re.compile(
    r"\s*[*_]*(?:or|maybe|perhaps|possibly|alternatively|otherwise|unless|else)\b(?!\s+rather)", re.IGNORECASE
)
_OFFER = re.compile(
    r"(?:\b(?:is|are|was|were|be|equals?|either|answers?|say|have|has|get|find|gives?)|[=:≈])[\s:*_$]*$|^[\s*_$]*$",
    re.IGNORECASE,
)


def is_operation(text: str) -> bool:
    """Return whether a text has an operation on numbers left to do; a fraction of integers is a number."""
    return _OPERATION.search(_FRACTION.sub("1", text)) is not None


def claimed(sentence: str) -> str | None:
    """Return the value that a sentence claims last, None for a sentence without such a claim.

    `is` and its like claim only what an operation on numbers before them comes to; of `40, which is 36 + 4` the number is claimed.
    """
    marks = [
        mark for mark in _CLAIM.finditer(sentence) if mark["strong"] or _comes_to(sentence[: mark.start()])
    ]
    for mark in reversed(marks):
        start = _FILLER.match(sentence, mark.end()).end()  # type: ignore[union-attr]
        end = _end_of_clause(sentence, start)
        value = sentence[start:end].strip(" *_")
        if any(char.isdigit() or char == "\\" for char in value) and not is_operation(value):
            return value
    before = sentence[: marks[0].start()] if marks else ""
    numbers = _NUMBER.findall(before)
    return numbers[-1] if numbers and not is_operation(before) else None


def _comes_to(text: str) -> bool:
    """Return whether a text before `is` is something to work out, a division included."""
    return is_operation(text) or _FRACTION.search(text) is not None


def is_denied(sentence: str, at: int) -> bool:
    """Return whether a sentence says that the answer is not the value that begins at a position."""
    return _NOT.search(sentence, max(0, at - 60), at) is not None


def is_offered(said: str, value: str) -> bool:
    """Return whether a sentence offers a value as the only one: not as one of several, and not as what the answer is not."""
    at = said.rfind(value) if value else -1
    if (at >= 0 and is_denied(said, at)) or said.rstrip(" *_\"'$)").endswith("?"):
        return False
    span = _BETWEEN.search(said) or _AMONG.search(said)
    if _DOUBT.match(said) or (
        span is not None and at < span.end() and not _gives(said[: span.start()], value)
    ):
        return False
    numbers = list(_NUMBER.finditer(said))
    for first, second in pairwise(numbers):
        if first[0].strip("$ ") == second[0].strip("$ "):
            continue
        between = said[first.end() : second.start()]
        if _ALTERNATIVE.fullmatch(between):
            return False
        offered = _OFFER.search(said[: first.start()]) is not None
        listed = _RANGE.fullmatch(between) or _listed(said, first.end(), second.start())
        if offered and listed and not is_operation(said[first.start() : second.end()]):
            return False
    return True


def _gives(said: str, value: str) -> bool:
    """Return whether a text before a choice of values has given one of them already."""
    return re.search(rf"(?:^|\bis\s|=\s?){re.escape(value)}(?!\d)", said) is not None


def _listed(said: str, start: int, end: int) -> bool:
    """Return whether what stands between two numbers makes them items of a list; `1 000` and `2 1/2` are one number."""
    match = _LIST.match(said, start)
    return match is not None and match.end() == end


def _end_of_clause(sentence: str, start: int) -> int:
    """Return where the clause of a value that begins at `start` ends; a full stop or a comma inside a number ends none."""
    end = _CLAUSE_END.search(sentence, start)
    following = _CLAIM.search(sentence, start)
    stops = [match.start() for match in (end, following) if match is not None]
    return min(stops, default=len(sentence))

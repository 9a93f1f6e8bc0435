r"""Claims of sentences: `3 + 27 is 27`, `10 * 9 ≈ 98` and `8 + 16, which equals 14` claim 27, 98 and 14.

A formula is never the answer of a sentence that says what it comes to. Where a sentence offers several values, or says what the
answer is not, it offers none.
"""

from __future__ import annotations

import re
from itertools import pairwise

from harness.verify.extract.garbled import is_garbled
from harness.verify.extract.named import SUPERLATIVE, named_otherwise, stands_beside_another
from harness.verify.extract.worth import VALUE, is_worth, same_value
from harness.verify.read.units import is_unit

_STRONG = (
    r"(?<![<>!=:])=(?!=)|->|=>|→|⇒|≈|\\approx(?![a-z])|\b(?:equals?|equal(?:ling|ing)?\s+to|makes?|making|comes?\s+(?:out\s+)?(?:to|as|at)"
    r"|(?<!\bis the )totals?|gives?|giving|yields?|leaves|leaving|amounts?\s+to|results?\s+in|works?\s+out\s+(?:to|as|at)"
    r"|which\s+(?:is|are)|that\s+is|that's|becomes?|adds?\s+up\s+to)\b"
)
_CLAIM = re.compile(  # what it can begin with stands first: most characters are passed over at once
    rf"(?=[-=→⇒≈\\:abcegilmrtwy])(?:(?P<strong>{_STRONG})|\b(?:is|are|was|were|be)\b|:(?=\s))", re.IGNORECASE
)
_FILLER = re.compile(
    r"(?:[\s:*_~≈]|\\(?:approx|text|mathrm)\b|\b(?:is|are|be|equals?|equal|to|about|approximately|roughly|around|exactly|actually|just|only|simply|a|an|"
    r"the|total|sum|answer|result|value|number|of|now|then|still|therefore|thus|indeed|also|us|you|him|her|them|me|at|out)\b)*",
    re.IGNORECASE,
)
_OPERATION = re.compile(
    r"[\d)}%]\s*(?:[-+*/×·÷−^!]|[xX](?=\s*\d)|\\(?:times|cdot|div)|\b(?:plus|minus|times|multiplied by|divided by|over|less)\b)"
    r"(?:\s*[\d({$\\.-]|(?<=!))|\\(?:sqrt|sum|prod|binom)|√|∑|\b(?:sum|product|difference|quotient) of\b",
    re.IGNORECASE,
)
_FRACTION = re.compile(r"[-−+]?\d+\s*/\s*\d+|\\[dt]?frac\s*\{?-?\d+\}?\s*\{?\d+\}?")
_BOTH = re.compile(rf"(?:^|\b(?:of|is|that|so|then|because),?\s){VALUE} and {VALUE}\s*$", re.IGNORECASE)
_GIVEN_AWAY = re.compile(
    rf"\s+(?:[a-z]+\s+)?{VALUE}(?:\s+[a-z]+){{0,3}}?\s+(?:to|away|back|up)\b", re.IGNORECASE
)
_SEVERAL = re.compile(r"\d,?\s+and\s+$")
_ARE = re.compile(r"[\s*_$]*(?:are|were)\b")
_SIGN = re.compile(r"(?:[-−+*/×·÷x]|\b(?:plus|minus|times|over)\b)", re.IGNORECASE)
_WORKED = re.compile(
    rf"(?:[\s*_~≈$]|about|roughly|approximately|exactly|just)*(?P<left>{VALUE}%?(?P<operation>(?:\s*{_SIGN.pattern})+\s*(?:\\boxed\{{)?{VALUE}%?)*)"
    r"(?=(?P<claim>\s*(?:=|\b(?:is|are|equals?)\b))?)",
    re.IGNORECASE,
)
_CLAUSE_END = re.compile(
    rf"{_CLAIM.pattern}|[;!?。]|,(?!\d)|\.(?!\d)"
    r"|\b(?:because|since|as|so|but|while|where|if|when|with|and|for|in|after|before|by|which)\b|$",
    re.IGNORECASE,
)
_NOT = re.compile(
    r"(?:\b(?:not|cannot|never|anything but|other than|(?:less|more|fewer|greater|higher|lower|larger|smaller) than|below|above|far from"
    r"|instead of|rather than|no longer|neither|nor|except)|n['’]t)\s*"
    r"(?:\b(?:be|is|equal|to|exactly|really|just|a|an|the|of|quite|always|have|been)\b\s*)*[\s$\\(\[*{]*$",
    re.IGNORECASE,
)
_DENYING = (
    "not", "n't", "never", "anything", "than", "below", "above", "far", "instead", "longer", "neither", "nor", "except",
)  # fmt: skip
_NUMBER = re.compile(rf"(?=[-−+\\$€£¥₹.\d])(?<![\w.,\\^]){VALUE}(?:\s*/\s*\d+)?%?(?![\w])")
_ALTERNATIVE = re.compile(
    r"[^.;=<>]{0,40}\b(?:or(?! rather)|versus|vs|else|otherwise|alternatively|maybe|perhaps|possibly|unless|failing that|if not)\b"
    r"[^.;=<>]{0,30}",
    re.IGNORECASE,
)
_RANGE = re.compile(r"\s*(?:-|–|—|to|through|until|up to|\.\.+|…)\s*\$?", re.IGNORECASE)
_LIST = re.compile(r"\s*[,;](?:\s|\$)*|\s*,?\s*and\s*\$?|\s+(?!\d{3}\b|\d+/)")
_BETWEEN = re.compile(
    rf"\b(?:between|from|somewhere)\s+\\?\$?{VALUE}[^.;=\d]{{0,25}}\b(?:and|to)\s+\\?\$?{VALUE}",
    re.IGNORECASE,
)
_AMONG = re.compile(
    rf"\bof\s+{VALUE}(?:\s*,\s*{VALUE})+(?:,?\s*(?:and|or)\s*{VALUE})?\W*$|\bone of\b.*", re.IGNORECASE
)
_DOUBT = re.compile(
    r"\s*[*_]*(?:or|maybe|perhaps|possibly|alternatively|otherwise|unless|else)\b(?!\s+rather)", re.IGNORECASE
)
_OPEN_ENDED = re.compile(
    r"(?:\s[a-z]+)?[\s,]*\b(?:or|and)\s+(?:more|less|fewer|up|above|below|higher|lower|something)\b",
    re.IGNORECASE,
)
_LEFT_TO_DO = re.compile(  # `5 apples + 3 apples`: an operation that is left to do
    rf"\s[a-z]+(?:\s*(?:[-−+*/×·÷]|x\b)\s*{VALUE}(?:\s[a-z]+)?)+[\s.!$*_]*$", re.IGNORECASE
)
_OF_A_LIST = re.compile(rf"(?:the\s+)?{SUPERLATIVE}[^.;=]*?\b(?:of|in|among|from)\b", re.IGNORECASE)
_CORRECTED = re.compile(
    r"(?:\b(?:(?:or|but) rather|I mean|I meant|make (?:that|it)|scratch that|correction)"
    r"|(?:^\W*|[,.;:!…—–(-]\s*|\b(?:no|wait|oh|well|hmm|but|and|or)\W+)"
    r"(?:actually|no|wait|hold on|sorry|oops|instead|rather))\b(?:[\s,.:;!…—–]|-(?=\s))*+"
    r"(?:(?:no|wait|it|that|this|the|correct|answer|is|was|be|should|must|actually|to)\b[\s,:'’s]*){0,8}+"
    rf"(?P<value>{VALUE}%?(?:\s*[-+*/×÷]\s*{VALUE}%?)*)(?=\$?(?:\s+[a-z]+)?[\s,!)*_$]*(?:[.;!]+\s|[.;!]*$))",
    re.IGNORECASE,
)
_CORRECTING = (
    "rather", "mean", "make", "scratch", "correction", "actually", "no", "wait", "hold", "sorry", "oops", "instead",
)  # fmt: skip
_TURN = re.compile(r"\W*(?:but|however|actually|no|wait|sorry|oops|hmm|correction|instead)\b", re.IGNORECASE)
_RESULT = re.compile(
    r"\W*(?:(?:so|thus|hence|therefore|then|and)\b\W*)?the (?:(?:final|correct|right|real|true|actual) )?(?:result|value|number|total)"
    r" (?:is|was|equals|should be|must be) \W*\d",
    re.IGNORECASE,
)
_RETRACTED = re.compile(
    r"(?:\b(?:that|this|it|which|I)(?:['’]s| is| was| am| must be)?|\d[}*_$]* (?:is|was)|(?=\bisn)) ?(?:all )?"
    r"(?:wrong|incorrect|mistaken|a mistake|(?:not|isn['’]t) (?:right|correct|true|it|the (?:right |correct )?answer))\W*$|\?\W*no\W*$",
    re.IGNORECASE,
)
_RETRACTING = ("wrong", "incorrect", "mistake", "not ", "isn", "? no")
_SIGNS = "\\$€£¥₹% "
_JUST_SAID = re.compile(r"\d%?[\s*$]*,?\s*(?:(?:which|that)\s*)?$")
_TO_WORK = re.compile(rf"{_FILLER.pattern}[#=\s]*", re.IGNORECASE)
_CALCULATION = re.compile(rf"[\s$]*{VALUE}(?:\s*[-+*/×x]\s*{VALUE})+[\s.$]*")
_CUT_BRACKET = re.compile(r"(?<=\d)\s+\([^()]*$")  # `7 times 8 (7 * 8`
_DOLLAR_BEHIND = re.compile(r"\d\s?\$(?:\s+[A-Za-z]+)*\s*$")
_GLUED_BEHIND = re.compile(r"\d([A-Za-z\\`{]+)\s*$")  # `45 is 9 x 5x`
_SYMBOL = re.compile(r"(?<![A-Za-z])[-−+*/×·÷xX](?![A-Za-z])")
_NO_SIGN = re.compile(
    r"(?:(?<=\w)-)?(?!\b(?:plus|minus|times|over|x)\b)[A-Za-z]+(?:-[A-Za-z]+)*|\*\*|[\\#=${}_]", re.IGNORECASE
)
_EQUATED = re.compile(
    rf"(?:^|(?<=[=:(])|(?<=, )|(?<=\bis))[\s$*_]*({VALUE}(?:\s*/\s*\d+)?\\?%?)[\s$]*(?:=|\bequals\b)"
    rf"(?=[\s$*_]*({VALUE}(?:\s*/\s*\d+)?\\?%?)[\s$*_]*(?:$|[=.,;)](?!\d)))",
    re.IGNORECASE,
)
_OFFER = re.compile(
    r"(?:\b(?:is|are|was|were|be|equals?|either|answers?|say|have|has|get|find|gives?"
    r"|makes?|totals?|yields?|leaves?|becomes?|comes to|amounts to)|[=:≈])[\s:*_$]*$|^[\s*_$]*$",
    re.IGNORECASE,
)


def mentions(text: str, words: tuple[str, ...]) -> bool:
    """Return whether a text may hold one of some words in lower case, without which a slow pattern has no match.

    Only ASCII has one lower case for a letter, so that other texts always may.
    """
    if not text.isascii():
        return True
    text = text.lower()
    for word in words:  # noqa: SIM110 - `any` costs as much again
        if word in text:
            return True
    return False


def is_operation(text: str) -> bool:
    """Return whether a text has an operation on numbers left to do; a fraction of integers is a number."""
    if "/" in text or "frac" in text:
        text = _FRACTION.sub("1", text)
    return _OPERATION.search(text) is not None


def claimed(sentence: str) -> str | None:
    """Return the value that a sentence claims last, None for a sentence without such a claim.

    `is` and its like claim only what an operation on numbers beside them comes to; of `40, which is 36 + 4` the number is claimed.
    """
    every = list(_CLAIM.finditer(sentence))
    marks = [mark for mark in every if _is_claim(mark)]
    for mark in reversed(marks):
        start = _FILLER.match(sentence, mark.end()).end()  # type: ignore[union-attr]
        end = _CLAUSE_END.search(sentence, start).start()  # type: ignore[union-attr]
        value = sentence[start:end].strip(" *_")
        if _OF_A_LIST.match(sentence, start):
            continue
        if any(char.isdigit() or char == "\\" for char in value) and not is_operation(value):
            return value
    marks = marks or [mark for mark in every if mark[0] != ":" and is_operation(sentence[mark.end() :])]
    before = sentence[: marks[0].start()] if marks else ""
    numbers = _NUMBER.findall(before)
    return numbers[-1] if numbers and not is_operation(before) else None


def _is_claim(mark: re.Match[str]) -> bool:
    """Return whether a mark claims what follows: not `giving 8 to Ann` with no number before it, nor `is` behind nothing to work out."""
    before = mark.string[: mark.start()]
    if mark["strong"] and mark["strong"].lower() in ("gives", "giving"):
        return any(map(str.isdecimal, before)) and _GIVEN_AWAY.match(mark.string, mark.end()) is None
    return bool(mark["strong"]) or _comes_to(before)


def _comes_to(text: str) -> bool:
    """Return whether a text before `is` is something to work out, a division and `20 and 18` included."""
    return is_operation(text) or _FRACTION.search(text) is not None or _BOTH.search(text) is not None


def is_denied(sentence: str, at: int) -> bool:
    """Return whether a sentence says that the answer is not the value that begins at a position."""
    return mentions(sentence, _DENYING) and _NOT.search(sentence, max(0, at - 60), at) is not None


def corrected(sentence: str) -> str | None:
    """Return the value to which a sentence corrects itself: 29 of `30, no wait, 29`; None for other sentences."""
    values = _CORRECTED.findall(sentence) if mentions(sentence, _CORRECTING) else None
    return values[-1] if values else None


def overruled(answer: str, later: list[str]) -> str | None:
    """Return the last of the later sentences that says another answer, empty where it only takes the answer back; None where none does.

    A sentence that works something out without using the answer says another one; a check uses it. One that comes to it confirms it.
    """
    said = answer.strip(_SIGNS)
    for sentence in reversed(later):
        if is_retracted(sentence):
            return ""
        if corrected(sentence) is not None:
            return sentence
        claim = claimed(sentence) if is_operation(sentence) else None
        if claim is None and _RESULT.match(sentence) is None:
            continue
        if said in _bare_numbers(claim or ("" if is_operation(sentence) else sentence)):
            return None
        if said not in _bare_numbers(sentence) or _TURN.match(sentence):
            return sentence
    return None


def _bare_numbers(text: str) -> list[str]:
    return [number.strip(_SIGNS) for number in _NUMBER.findall(text)]


def is_retracted(text: str) -> bool:
    """Return whether a text ends by taking back what it said: `That is wrong.`"""
    return mentions(text, _RETRACTING) and _RETRACTED.search(text) is not None


def _worked_otherwise(said: str, value: str) -> bool:
    """Return whether a value is said to be what comes to another one, or to nothing: `30 is 10 x 1`, `9 is 3 x We`, `9 is 99 is 99`."""
    if said.find(value) + len(value) >= len(said.rstrip(" .!$*")):
        return False  # nothing stands behind it
    if _SIGN.search(said) is None and said.count(" is ") < 2:
        return False
    first = True
    for mark in _CLAIM.finditer(said):
        before = said[: mark.start()]
        if mark[0] == ":" or not (first or _JUST_SAID.search(before)):
            continue
        numbers = _NUMBER.findall(before)
        if numbers and numbers[-1] == value and not (first and is_operation(before)):
            return _comes_to_another(said, mark.end(), value, first)
        first = False
    return False


def _comes_to_another(said: str, at: int, value: str, first: bool) -> bool:
    """Return whether what stands behind `is` or `=` is not worth a value: a calculation, a torn one, and as the first claim a number."""
    start = _TO_WORK.match(said, at).end()  # type: ignore[union-attr]
    end = _CLAUSE_END.search(said, start).start()  # type: ignore[union-attr]
    clause, told_again = (
        _CUT_BRACKET.sub("", said[start:end]),
        re.match(rf"\s*=[\s$]*{re.escape(value)}(?!\d)", said[end:]),
    )
    glued = _GLUED_BEHIND.search(clause)
    if (said.count("$") % 2 and _DOLLAR_BEHIND.search(clause)) or said[end:].strip(" .") == "=":
        return True
    if glued is not None and not (
        is_unit(glued[1].lower()) and len(re.findall(rf"\d\s?{re.escape(glued[1])}\b", said)) > 1
    ):
        return True
    numerals = _NO_SIGN.sub(" ", clause)
    if _SYMBOL.search(numerals) and (any(map(str.isdecimal, clause)) or not any(map(str.isalpha, clause))):
        return not is_worth(value, numerals) and (first or not told_again)
    worked = _WORKED.match(said, at) if first else None
    told = worked is not None and bool(worked["claim"] or worked["operation"])
    return told and worked is not None and not is_worth(value, worked["left"])


def contradicts(text: str) -> bool:
    """Return whether a text sets two different numbers equal, `43 = 42`, or a number and what is not worth it: `72 = 9 x 2 = 9 x 8`."""
    if "=" not in text and "equals" not in text:
        return False
    if any(not same_value(*sides) for sides in _EQUATED.findall(text)):
        return True
    first, *others = text.strip(" .$").split("=")
    if not others or _NUMBER.fullmatch(first.strip(" $")) is None:
        return False
    return any(_CALCULATION.fullmatch(side) and not is_worth(first.strip(" $"), side) for side in others)


def last_place(value: str, text: str) -> int:
    """Return where a value stands last in a text, not as digits of a longer number; -1 where it does not stand there."""
    at = text.rfind(value) if value else -1
    while at >= 0 and (
        (value[0].isdecimal() and text[at - 1 : at].isdecimal())
        or (value[-1].isdecimal() and text[at + len(value) : at + len(value) + 1].isdecimal())
    ):
        at = text.rfind(value, 0, at + len(value) - 1)
    return at


def is_offered(said: str, value: str) -> bool:
    """Return whether a sentence offers a value as the only one: not as one of several, and not as what the answer is not."""
    if said.isdecimal():
        return True
    at = last_place(value, said)
    if (
        is_garbled(said)
        or (at >= 0 and (is_denied(said, at) or _stands_otherwise(said, at, at + len(value))))
        or named_otherwise(said[max(at, 0) + len(value) :], value)
        or (said.find(value) < at and named_otherwise(said[said.find(value) + len(value) :], value))
        or _worked_otherwise(said, value)
        or contradicts(said)
        or is_retracted(said)
        or ("?" in said and not any(map(str.isdecimal, said.rpartition("?")[2])))
    ):
        return False
    span = _BETWEEN.search(said) or _AMONG.search(said)
    if _DOUBT.match(said) or (
        span is not None and at < span.end() and not _gives(said[: span.start()], value)
    ):
        return False
    listed_from = -1
    for first, second in pairwise(_NUMBER.finditer(said)):
        if first[0].strip("$ ") == second[0].strip("$ "):
            continue
        between = said[first.end() : second.start()]
        if _ALTERNATIVE.fullmatch(between) and not same_value(first[0], second[0]):
            return False
        if not (_RANGE.fullmatch(between) or _listed(said, first.end(), second.start())):
            listed_from = -1
        elif listed_from < 0 and _OFFER.search(said[: first.start()]):
            listed_from = -1 if is_operation(said[first.start() : second.end()]) else first.start()
        if listed_from >= 0 and (at < 0 or (listed_from < at + len(value) and at < second.end())):
            return False
    return True


def _stands_otherwise(said: str, at: int, end: int) -> bool:
    """Return whether a value is open-ended, one of several or has an operation behind it: `5 or more`, `35 and 92 are`, `5 apples + 3`."""
    if not any(map(str.isalnum, said[end:])):
        return False
    if _OPEN_ENDED.match(said, end) or (_SEVERAL.search(said, 0, at) and _ARE.match(said, end)):
        return True
    if stands_beside_another(said[end:]) and _OFFER.search(said, 0, at):
        return True
    return said.find(said[at:end]) == at and _LEFT_TO_DO.match(said, end) is not None


def _gives(said: str, value: str) -> bool:
    """Return whether a text before a choice of values has given one of them already."""
    return re.search(rf"(?:^|\bis\s|=\s?){re.escape(value)}(?!\d)", said) is not None


def _listed(said: str, start: int, end: int) -> bool:
    """Return whether what stands between two numbers makes them items of a list; `1 000` and `2 1/2` are one number."""
    match = _LIST.match(said, start)
    return match is not None and match.end() >= end  # a sign of money may belong to both

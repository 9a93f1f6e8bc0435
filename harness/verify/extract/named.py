"""Whether a sentence says that a value is another number: `30 is 121 in all`, `4 is between 11`, `11 is the smallest number 94`.

What it says of a value has to hold where it can be worked out: `42 is 17 more than 25`, `42 is the sum of 17 and 25`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fractions import Fraction
from math import prod

from harness.verify.extract.worth import VALUE, same_value
from harness.verify.read.numbers import parse_exact

SUPERLATIVE = (
    r"(?:smallest|largest|biggest|greatest|least|lowest|highest|maximum|minimum|max|min|most|fewest)\b"
)
_EXTREME = re.compile(
    r"[\s*_$]*(?:(?:is|are|was|equals)\b(?:(?!\b(?:than|of|to|with|from|between|by|not|one|among|less|more|as|near|a|an|second|third)\b)[^\d.;,]){0,30}?"
    rf"|[,=])?\s*\b(?:the\s+)?(?P<superlative>{SUPERLATIVE})(?P<rest>[^;]*)",
    re.IGNORECASE,
)
_NEXT_CLAUSE = re.compile(
    r"\.(?!\d)|\b(?:because|since|so|but|while|where|if|which|then)\b|\band\s+\S+\s+(?:is|are)\b"
)
_OTHER_CLAUSE = re.compile(
    rf"{_NEXT_CLAUSE.pattern}|\bas\b"
)  # `as many as` belongs to what relates two numbers
_BOUND = re.compile(
    rf"\s(?!numbers?|integers?|values?|{SUPERLATIVE})[a-z]+ of \d[\d,]*\W*$"
    r"|\b(?:than|by|under|over|above|below|exceed|between|the|these|all|given)\s+\d|\d%? (?:numbers|values)",
    re.IGNORECASE,
)
_SHORTEST_NAMED = len(" is 1")
_PART = re.compile(r"\s*(?:is|are|was)\s*(?:the\s*)?\d+ of \d")
_RELATING = (  # words by which a number is told from others: `42 is 17 more than the first`, `9 is 3 squared`
    r"(?:more|less|fewer|greater|larger|smaller|bigger|higher|lower|older|younger|longer|shorter|times|plus|minus|added|multiplied|divided|"
    r"squared|cubed|doubled|halved|tens|ones|hundreds|short|dozens?|pairs?|percent|above|below|over|under|away|off|from|of|to|less|by|x)\b"
)
_NAMED = re.compile(
    r"[\s*_$]*(?:(?:is|are|was)\b|(?=,?\s*(?:the\s+)?"
    + SUPERLATIVE
    + rf"))[\s,:]*(?:(?:the|a|an)\s+)?(?P<superlative>{SUPERLATIVE})?"
    r"(?P<kind>(?:[\s,:*_$]|\b(?:numbers?|integers?|values?|one|answer|result|of|in|among|from|out|the|list|set|these|all|given|following|is|are)\b)*)"
    rf"(?P<list>{VALUE}(?:(?:\s*,\s*(?:(?:and|or)\s+)?|\s+(?:(?:and|or)\s+)?){VALUE})*)(?:\s+(?!{_RELATING})[a-z]+)*[\s.!*_$]*$",
    re.IGNORECASE,
)
_SAID = re.compile(
    rf"[\s*_$]*(?:is|are|was|equals)\b(?P<gap>[^\d;=<>]*?)(?P<number>{VALUE})(?P<behind>[^;]*)",
    re.IGNORECASE,
)
_EQUAL = re.compile(r"\b(?:equal to|the same as)\b", re.IGNORECASE)
_BY_WORDS = re.compile(
    r"\b(?:of|among|to|for|than|because|since|as|when|if|where|after|before|which|that|in|from|by|with|at|over|under|above|below|what|how|so|but"
    r"|while|a|an|one)\b|[,.:(]",
    re.IGNORECASE,
)
_KNOWN = re.compile(  # words that relate a number to another one in a way that is not worked out here
    rf"{SUPERLATIVE}|\b(?:than|times|percent|multiples?|factors?|divisors?|divisible|divided|multiplied|added|taken|subtracted|half|third|quarter|double"
    r"|twice|roots?|squares?|cubes?|powers?|remainder|close|closer|closest|near|nearest|next|prior|equal|due|answer|solution|problem|question|part|step"
    r"|out|exceed|between|under|over|below|above|up|before|after|as|because|since|so|when|if|where|which|that|what|how|but|while)\b",
    re.IGNORECASE,
)
_ONLY_NUMBERS = re.compile(rf"(?:[\s,.:!*_$]|and\b|or\b|{VALUE})*+", re.IGNORECASE)
_JOINTS = frozenset((
    "the", "a", "an", "of", "to", "in", "is", "it", "for", "and", "by", "from", "with", "at", "on", "or", "this", "be", "are",
))  # fmt: skip
_CLOSE_JOINTS = frozenset(("of", "to", "for", "by", "from"))
_BESIDE = re.compile(
    rf"[\s*_$]+(?!{_RELATING}|remainder\b|and\b|or\b|to\b|is\b|are\b|was\b|equals?\b|makes?\b)(?:[a-z]+\s+){{1,3}}\$?{VALUE}[\s.!*_$]*",
    re.IGNORECASE,
)
_UPPER = re.compile(rf"\s*\$?\s*(?:and|to)\s*\\?\$?({VALUE})", re.IGNORECASE)
_WORKED_OF = re.compile(
    r"\b(sum|total|average|mean|product|difference|quotient) of(?: the| both)*(?: numbers?)?:?$",
    re.IGNORECASE,
)
_BOTH_AND = re.compile(r"\bboth\b.*\band$", re.IGNORECASE)
_SIGN_BEHIND = re.compile(r"\s*(?:\\?%)?\s*\$?\s*(?:[-−+*/×·÷^!(\\=°]|x\s*\d)")
_SUM_OF_UNITS = re.compile(r"\s[a-z]+\s*[-−+*/×·÷]\s*[\d$]", re.IGNORECASE)
_CLAUSE_OF_ITS_OWN = re.compile(r"[\s*_$]*(?:is|are|was|were)\b")
_RELATION = re.compile(r"\s*\$?\s*(%|[a-z]+\b)(.*)", re.IGNORECASE | re.DOTALL)
_TOLD_BY_WORDS = re.compile(r"\b(?:than|as|of|by|from|to) [a-z]{2,}", re.IGNORECASE)
_PLACES = {"hundreds": 100, "tens": 10, "ones": 1}
_PLACE = re.compile(rf"({VALUE})\s+(hundreds|tens|ones)\b", re.IGNORECASE)
_TIMES_BEFORE = {"twice": Fraction(2), "double": Fraction(2), "half": Fraction(1, 2), "triple": Fraction(3)}
_OF_ONE: dict[str, Callable[[Fraction], Fraction]] = {
    "squared": lambda n: n * n,
    "cubed": lambda n: n**3,
    "doubled": lambda n: 2 * n,
    "halved": lambda n: n / 2,
    **dict.fromkeys(("dozen", "dozens"), lambda n: 12 * n),
    **dict.fromkeys(("pair", "pairs"), lambda n: 2 * n),
}
_OF_TWO: dict[str, Callable[[Fraction, Fraction], Fraction | None]] = {
    **dict.fromkeys(
        ["more", "greater", "larger", "bigger", "higher", "older", "longer", "plus", "above", "added"],
        lambda n, m: n + m,
    ),
    **dict.fromkeys(
        ["less", "fewer", "smaller", "lower", "younger", "shorter", "short", "below", "under"],
        lambda n, m: m - n,
    ),
    **dict.fromkeys(("times", "multiplied"), lambda n, m: n * m),
    **dict.fromkeys(("divided", "over"), lambda n, m: n / m if m else None),
    "minus": lambda n, m: n - m,
    **dict.fromkeys(("percent", "%"), lambda n, m: n * m / 100),
}
_CERTAIN = 2  # numbers of a list of which the last may be cut off
_MARKS = " $*_\\"
_TORN_BEHIND = re.compile(r"[A-Z][a-z]|\.\.+\d|[.?][-+=<>,;:!?#\\/a-z]|\?\w")


def named_otherwise(after: str, value: str) -> bool:
    """Return whether a value is said to be another number, or an extreme of numbers that it is none of: `11 is the smallest number 94`."""
    if len(after) < _SHORTEST_NAMED:
        return False
    if _PART.match(after) or _TORN_BEHIND.match(after):
        return True
    if (told := _SAID.match(after)) is not None and _told_otherwise(
        value, told["gap"], told["number"], told["behind"]
    ):
        return True
    if (extreme := _EXTREME.match(after)) is not None:
        return not _is_extreme(value, extreme["superlative"].lower(), extreme["rest"])
    named = _NAMED.match(after)
    if named is None or (named["superlative"] is None and re.search(r"\bof\b", named["kind"])):
        return False
    size, *others = (parse_exact(text) for text in (value, *re.findall(VALUE, named["list"])))
    sizes = [] if size is None else [size.value, size.value / 100] if size.percent else [size.value]
    return size is not None and not any(other.value in sizes for other in others if other)


def _told_otherwise(value: str, gap: str, number: str, behind: str) -> bool:
    """Return whether `VALUE is GAP NUMBER BEHIND` says another number than the value, or of it what does not hold."""
    size, named = parse_exact(value), _number(number)
    if size is None or named is None:
        return False
    sizes = (size.value, size.value / 100) if size.percent else (size.value,)
    if "and" in gap and _CLAUSE_OF_ITS_OWN.match(behind):
        return False
    behind, gap = _NEXT_CLAUSE.split(behind)[0], _EQUAL.sub("", gap).rstrip(_MARKS)
    others = [other for other in map(_number, re.findall(VALUE, behind)) if other is not None]
    if gap.endswith("between"):
        upper = _UPPER.match(behind)
        ends = sorted((named, named if upper is None else _number(upper[1]) or named))
        return upper is None or not ends[0] <= size.value <= ends[1]
    if (worked := _WORKED_OF.search(gap)) is not None:
        return (bool(others) and _worked(worked[1].lower(), named, others) not in sizes) or _ends(behind)
    if _BOTH_AND.search(gap) or (_ONLY_NUMBERS.fullmatch(behind) and _torn(gap)):
        return True
    signed = _SIGN_BEHIND.match(behind) or _SUM_OF_UNITS.match(behind)
    if _BY_WORDS.search(gap) or signed or same_value(value, number) or _is_percent(value, number, behind):
        return False
    before = gap.lower().split()[-1:] or [""]
    if before[0] in _TIMES_BEFORE:
        return _TIMES_BEFORE[before[0]] * named not in sizes
    return not _relates(sizes, named, others, number + behind)


def stands_beside_another(after: str) -> bool:
    """Return whether what follows a value is another number, behind words that relate nothing: `60 the 99.`"""
    return _BESIDE.fullmatch(after) is not None and _BY_WORDS.search(after.rstrip(" .!$*_")) is None


def _torn(gap: str) -> bool:
    """Return whether the words between a value and the number that ends its sentence relate nothing: `10 is the of of 99`."""
    words = re.findall("[a-z]+", gap.lower())
    if not words or _KNOWN.search(gap) or _WORKED_OF.search(gap):
        return False
    told = sum(word not in _JOINTS for word in words)
    return told == 0 or (told == 1 and words[-1] in _CLOSE_JOINTS)


def _is_percent(value: str, number: str, behind: str) -> bool:
    """Return whether a value is a number of percent: `0.5 is 50%`."""
    return behind.lstrip(" \\").startswith("%") and same_value(value, number + "%")


def _ends(behind: str) -> bool:
    """Return whether nothing is said behind a number, so that it is the sum of one number."""
    return not any(map(str.isalnum, behind))


def _number(text: str) -> Fraction | None:
    exact = parse_exact(text)
    return None if exact is None else exact.value


def _worked(name: str, first: Fraction, others: list[Fraction]) -> Fraction | None:
    """Return the sum, average, product, difference or quotient of numbers; None where there is none."""
    if name in ("sum", "total"):
        return first + sum(others)
    if name in ("average", "mean"):
        return (first + sum(others)) / (1 + len(others))
    if name == "product":
        return first * prod(others)
    if len(others) != 1:
        return None
    return abs(first - others[0]) if name == "difference" else first / others[0] if others[0] else None


def _relates(sizes: tuple[Fraction, ...], named: Fraction, others: list[Fraction], said: str) -> bool:
    """Return whether `17 more than 25`, `3 squared` or `4 tens and 2 ones` is one of some sizes; so may be what words tell."""
    relation = _RELATION.match(said, len(re.match(VALUE, said)[0]))  # type: ignore[index]
    word = relation[1].lower() if relation is not None else ""
    if word in _PLACES:
        places = [(_number(count) or 0, _PLACES[place.lower()]) for count, place in _PLACE.findall(said)]
        return sum(count * place for count, place in places) in sizes
    if word in _OF_ONE:
        return _OF_ONE[word](named) in sizes
    if word in _OF_TWO and relation is not None:
        if others:
            return _OF_TWO[word](named, others[0]) in sizes
        return _TOLD_BY_WORDS.search(relation[2]) is not None
    return False


def _is_extreme(value: str, superlative: str, rest: str) -> bool:
    """Return whether a value may be an extreme of what follows: of numbers that it is among, of none, or of those less than another."""
    rest = _OTHER_CLAUSE.split(rest)[0]
    numbers = re.findall(VALUE, rest)
    if len(numbers) > _CERTAIN and rest[-1:].isdecimal() and numbers[-1] != value:
        numbers.pop()  # may be cut off: `28 is the smallest of 85, 84, 28, and 7`
    size, others = parse_exact(value), [parse_exact(text) for text in numbers]
    sizes = [other.value for other in others if other is not None]
    if size is None or not sizes or _BOUND.search(rest) or superlative in ("most", "least"):
        return True
    return size.value == (min if superlative[:3] in ("sma", "lea", "low", "min", "few") else max)(sizes)

"""The answer inside a sentence about it: its formulas, its value without the words, or the letter it chooses.

Words are told from formulas by what they are: names of functions, units, months and joints belong to answers, other words
do not.
"""

from __future__ import annotations

import re
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from harness.verify.extract.claims import claimed, corrected, is_denied, is_operation, mentions
from harness.verify.read.canonical import matching_brace
from harness.verify.read.numbers import parse_exact
from harness.verify.read.units import is_unit, unit_scale

NUMBER = re.compile(
    r"(?=[-−+$€£¥₹.\d])(?<![A-Za-z0-9_.,/\\^])[-−+]?(?:[$€£¥₹]\s?)?(?:\d{1,3}(?:[ ,]\d{3})+(?:\.\d+)?(?!\d)|\d+(?:[.,]\d+)?|\.\d+)"
    r"(?:\s*/\s*\d+|\s*(?:\\?%|percent\b|pct\b)|\s?(?:\^\\circ|°))?"
)
_LETTERS = "A-Za-zÀ-ɏ"
_TOKEN = re.compile(
    rf"(?<![\\{_LETTERS}])[{_LETTERS}][{_LETTERS}'’]+|[^\W\d_{_LETTERS}Ͱ-Ͽ𝐀-𝟿²³¹¼-¾⁰-₟⅐-↏①-⓿]+"
)
_WRAPPED_WORDS = re.compile(
    r"\\(?:text|mathrm|mbox|textbf|operatorname|begin|end|textcolor|color)\s*\{[^{}]*\}"
)
_OF_ANSWERS = frozenset((
    "and", "or", "per", "percent", "pct", "percentage", "million", "billion", "trillion", "thousand", "dozen", "lakh", "crore", "base",
    "mod", "choose", "infinity", "infty", "inf", "oo", "pi", "sin", "cos", "tan", "cot", "sec", "csc", "sinh", "cosh", "tanh", "arcsin",
    "arccos", "arctan", "log", "ln", "exp", "sqrt", "cbrt", "floor", "ceil", "gcd", "lcm", "max", "min", "abs", "det", "sum", "frac",
    "alpha", "beta", "gamma", "delta", "epsilon", "theta", "lambda", "mu", "rho", "sigma", "tau", "phi", "omega", "psi", "am", "pm",
    "january", "february", "march", "april", "may", "june", "july", "august", "september", "october", "november", "december", "monday",
    "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday", "st", "nd", "rd", "th", "usd", "eur", "gbp", "sq", "cu",
    "cdot", "times",
))  # fmt: skip
_SHORT_PROSE = frozenset((
    "is", "of", "to", "so", "it", "we", "he", "an", "if", "the", "are", "was", "has", "not", "but", "for", "its", "i'd", "i'm", "i've",
    "got", "get", "had", "now", "you", "she", "her", "our", "no",
    "est", "de", "du", "des", "la", "le", "les", "il", "un", "une", "und", "der", "die", "el", "los",
))  # fmt: skip
_BOLD = re.compile(r"(?<![A-Za-z0-9_)])(?:\*\*|__)|(?:\*\*|__)(?![A-Za-z0-9_(])|`")
_BOLD_BESIDE = re.compile(r"(?<=[A-Za-z][a-z])\*\*([^\s*][^*\n]*)\*\*(?![*\w(])")
_ITALIC = re.compile(
    r"(?<![\w*)\]}\\])(?<!\d )([*_])([^\s*_]|[^\s*_][^*_\n]*[^\s*_])\1(?![\w*(\[{\\])(?! \d)"
)
_LEADING = ("#", ".", ",", ";", ":", "!")
_LEADING_MARKS = re.compile(r"\A(?:#+|(?:[.,;:!]\s+)+)")
_YES = re.compile(r"\A(?:Yes|Yeah|Ok|OK|Okay|Sure|Well|Right|yes|ok|okay)[,:!.]\s+(?=[-−$*\d])")
_YES_BEGINS = ("Y", "O", "S", "W", "R", "y", "o")
_GLUED = re.compile(r"(?<![\\A-Za-z])(?=[A-Z]*[a-z])([A-Za-z]{2,})\d[\d.,]*+[^\d]*$")
_AFTER_LEADING = frozenset((
    "the", "for", "where", "when", "with", "if", "because", "since", "as", "is", "are", "which", "so", "in", "that", "by", "ways",
))  # fmt: skip
_WITH_UNIT = re.compile(r"(.*\d)\s?[a-zA-Z]{1,3}[²³]")
_POINTS_AT = re.compile(r"->|=>|→|⇒|:\s")
_WORKED_OUT = re.compile(rf"({NUMBER.pattern})\s+\((?=[^()]*[-+*/=×])[^()]*\)\.?")
_SAID_AGAIN = re.compile(rf"({NUMBER.pattern}\s[a-z]+),?\s+or\s+({NUMBER.pattern}\s[a-z]+)")
_HEADED = re.compile(r"(?:After|At|By|For|In|On|With)\s[^:]*:\s")
_WORKING = re.compile(r"((?:[A-Za-z]{2}|=)[^()\n]*\d)\s+\((?=[^()]*[-+*/=×])[-\d\s.,;$%+*/=×x]+\)\.?$")
_DOTS = re.compile(r"(?<![\d.,])(\d+)\.{2,}$")  # `The result is 60...`
_ASIDE = re.compile(
    r"(?<=\d) in (?:all|total)\b|(?<=\d),? I (?:think|believe|guess)\b|(?<=years) old\b"
)  # no units
_HAS = re.compile(
    r"\b(?:there (?:is|are|were|will be)|has|have|had|needs?|takes|costs?|gets?|reads|pays|earns|spends|travels)\s+"
    rf"(?:(?:a total of|about|only|exactly|now)\s+)?({NUMBER.pattern})(?:\s(?!comes|adds|works|amounts|it\b)[a-z]+){{0,4}}?\s"
    r"(?:after|before|in|for|to|when|if|because|by|at|with|from)\b"
    r"(?!.*\b(?:but|while|though|is|are|was|equals?|makes?|gives|totals?|get|gets|has|have|had|leaves)\b)[^.,;:=<>+*]*\.?$",
    re.IGNORECASE,
)
_HAVING = ("there ", "ha", "need", "takes", "cost", "get", "reads", "pays", "earns", "spends", "travels")
_CHECK = re.compile(  # a sentence that checks or compares what was said
    r"\W*(?:(?:(?:to|you can|we can|let'?s|let us) )?(?:double[- ])?(?:check|verify)\b"
    r"|(?:that|this|it) is (?:[a-z]+ )?(?:more|less|fewer|larger|smaller|greater|bigger|higher|lower) than [-\w.,$%]{1,20}[\s!]*$)",
    re.IGNORECASE,
)
_TORN_ENDS = ("=", "+", "-", "*", "/", "×", "x", " ")
_TORN = re.compile(r"(?:=|\d\s+[-+*/×x])\s*$")  # ends before it says what it comes to
_MONEY = re.compile(r"[$€£¥₹]")
_SENTENCE_END = re.compile(
    r"(?<!\.)\.(?=\s+(?:[A-Z(\[*\"$]|I hope)|\s*$)|(?<=[\d%])\.(?=\s+[-−]?[\da-z])|[。！]|(?:\.\s*)?(?=\s*\bI hope\b)"
)
_STATEMENT_END = re.compile(  # begins with the characters themselves, for which a search is fast
    r"[.!?。！？](?:(?<=[。！？])|(?<!\.[.!?])(?<!\b[A-Z][.!?])[.!?]*+(?=\s+[A-Z*_$#(\d−-]|\s*$|(?<=\d[.!?])(?:\s+[a-z]|[A-Z][a-z])))"
)
_LEADING_CHOICE = re.compile(
    r"(?:for sure |probably |[Oo]ption |[Cc]hoice )?\(?([A-J])\)?(?:[,.:;)]\s|\s+(?:because|since|it|as|is)\b)"
)
_OPENING_CHOICE = re.compile(
    r"[\s*_]*\(?([A-J])\)?(?![A-Za-z0-9'’])(?:(?<!A)|(?<=\()|(?!\s+[a-z])|(?=\s+(?:because|since|as|non|not)\b))"
)
_FIRST_CHOICE = re.compile(r"[\s*_]*\(?([A-J])\)?[*_]*(?=[.,:;)。，：]|\s*$|[^\x00-\x7f])")
_CHOICE = re.compile(
    r"\b(?i:option|choice)\s+\(?([A-J])\b\)?|(?<![A-Za-z0-9\\'’_^])(\(?)([A-J])(\)?)(?![A-Za-z0-9'’_^])(?!\s+[a-z])|\(([A-J])\)"
)

PERCENT_AFTER = re.compile(r"\s*\$?\s*(\\?%|percent\b|pct\b|percentage\b)", re.IGNORECASE)
JOINT = re.compile(r"[\s,;]*(?:\band\b|\bor\b|&)?[\s,;]*")
_DELIMITER = re.compile(r"\$\$|(?<!\\)\$|\\[\[\]()]")
_CLOSER = {"$$": "$$", "$": "$", r"\[": r"\]", r"\(": r"\)"}


class Formula(NamedTuple):
    """A formula: where it stands, with its delimiters, and what is between them."""

    start: int
    end: int
    inside: str


def formulas(text: str) -> list[Formula]:
    """The delimited formulas of a text, in one pass; inline ones do not span lines."""
    if "$" not in text and "\\" not in text:
        return []
    found: list[Formula] = []
    opened: re.Match[str] | None = None
    for token in _DELIMITER.finditer(text):
        mark = token[0]
        if opened is not None and mark == _CLOSER[opened[0]]:
            inside = text[opened.end() : token.start()]
            if inside.strip() and ("\n" not in inside or opened[0] in ("$$", r"\[")):
                found.append(Formula(opened.start(), token.end(), _out_of_box(inside.strip())))
                opened = None
                continue
        if mark in _CLOSER:
            opened = token
    return found


def _out_of_box(inside: str) -> str:
    r"""`\boxed{7` without its box: the formula ends after it, so nothing was cut off."""
    if not inside.startswith(r"\boxed{") or matching_brace(inside, 6) >= 0:
        return inside
    return inside[7:].removesuffix(r"\}")


def joined_formulas(text: str, found: list[Formula]) -> str:
    """The last formula, with those before it that are joined to it by a comma, `and` or `or`."""
    last = len(found) - 1
    while last > 0 and JOINT.fullmatch(text, found[last - 1].end, found[last].start):
        last -= 1
    percent = PERCENT_AFTER.match(text, found[-1].end)
    return ", ".join(formula.inside for formula in found[last:]) + (r"\%" if percent is not None else "")


@lru_cache(maxsize=16)
def is_bare(text: str) -> bool:
    """Return whether a text is an answer by itself and not a sentence about one."""
    if "\n" in text and not text.startswith(("$$", r"\[", r"\begin")):
        return False
    if _HEADED.match(text) or (_POINTS_AT.search(text) and claimed(text) is not None):
        return False
    found = formulas(text)
    if found:
        ends = [0, *(formula.end for formula in found)]
        starts = [*(formula.start for formula in found), len(text)]
        rest = " ".join(text[end:start] for end, start in zip(ends, starts, strict=True)).strip(" .*")
        return not rest or JOINT.fullmatch(rest) is not None
    return not any(char.isdigit() or char == "\\" for char in text) or not _prose(text)


def leading_choice(sentence: str) -> str | None:
    """The letter of `C, because ...` and `(C) 42`-like openings."""
    match = _LEADING_CHOICE.match(sentence)
    return None if match is None else match[1]


def without_marks(text: str) -> str:
    """Return a text without marks of Markdown, the calculation in brackets that ends it, and `in all` or `I think`."""
    text = _LEADING_MARKS.sub("", text) if text[:1] in _LEADING else text
    text = _YES.sub("", text) if text[:1] in _YES_BEGINS else text
    text = _BOLD_BESIDE.sub(r" \1", text) if "**" in text else text
    text = _BOLD.sub("", text) if "**" in text or "__" in text or "`" in text else text
    text = _ITALIC.sub(r"\2", text) if "*" in text or "_" in text else text
    text = text[:-1].lstrip('"') if text.endswith(('."', '!"')) else text
    text = _DOTS.sub(r"\1.", text) if text.endswith("..") else text
    text = _WORKING.sub(r"\1", text) if text.endswith((")", ").")) else text
    return _ASIDE.sub("", text) if " in " in text or " I " in text or " old" in text else text


def value_of(sentence: str, after_marker: bool = False) -> str:
    """Return the value that a sentence gives: the whole when it has no words beside, else the part that holds a number or a formula.

    Args:
        sentence: the sentence.
        after_marker: whether it follows `Answer:` or the like, so that of several numbers the only sum of money is meant.

    Returns:
        The value, empty where the sentence says none.
    """
    sentence = without_marks(sentence).strip()
    if (said := leading_choice(sentence) or corrected(sentence) or _had(sentence)) is not None:
        return said
    if sentence.endswith((")", ").")) and (worked_out := _WORKED_OUT.fullmatch(sentence)):
        return worked_out[1]
    if is_bare(sentence):
        return sentence
    if is_glued(sentence):
        return ""
    if (claim := claimed(sentence)) is not None:
        return _number_of(claim)
    words = _prose(sentence)
    parts = _parts(sentence, words)
    parts = [part for part in parts if not is_denied(sentence, sentence.find(part[1], part[0]))] or parts
    if not parts:
        return sentence
    leading = parts[0][0] == 0 and words and words[0][0].lower() in _AFTER_LEADING
    if (
        leading
        and not any(sign in parts[0][1] for sign in "<>")
        and not (is_operation(parts[0][1]) and len(parts) > 1)
    ):
        return parts[0][1]
    money = [part for _, part in parts if _MONEY.search(part)]
    chosen = money[0] if after_marker and len(money) == 1 else parts[-1][1]
    if with_unit := _WITH_UNIT.fullmatch(chosen):
        return with_unit[1]
    if "\\" in chosen or any(mark in chosen for mark in "=^()[]{}<>√"):
        return chosen
    numbers = list(NUMBER.finditer(chosen))
    return numbers[-1][0] if len(numbers) > 1 and not re.search(r"[-+*/]", chosen) else chosen


def _number_of(claim: str) -> str:
    """Return the number of a claim where it stands alone or with more than a unit behind it, else its first part that holds one."""
    number = NUMBER.match(claim)
    behind = claim[number.end() :] if number is not None else ""
    if number is not None and (not behind or len(re.findall(r"[a-z]{2,}", behind)) > 1):
        return number[0]
    parts = [] if is_bare(claim) else _parts(claim, _prose(claim))
    return parts[0][1] if parts else claim


def is_glued(sentence: str) -> bool:
    """Return whether the last number of a sentence stands directly behind a word, as in `9 + 9 makesNo18`: it says nothing."""
    found = _GLUED.search(sentence)
    return found is not None and not _of_an_answer(found[1].lower())


def _had(sentence: str) -> str | None:
    """Return the number of `Tom has 42 apples after giving 8 to Ann`."""
    found = _HAS.search(sentence) if mentions(sentence, _HAVING) else None
    return None if found is None else found[1]


def _parts(sentence: str, words: list[re.Match[str]]) -> list[tuple[int, str]]:
    """Return where the parts between words begin, and those parts that hold a number or a formula."""
    starts, ends = [0, *(word.end() for word in words)], [*(word.start() for word in words), len(sentence)]
    parts = [
        (start, _trimmed(sentence[start:end]))
        for start, end in zip(starts, ends, strict=True)
        if not (start and sentence[start - 1].isascii() and sentence[start : start + 1].isdecimal())
    ]
    return [(start, part) for start, part in parts if any(char.isdigit() or char == "\\" for char in part)]


def statements(text: str) -> list[str]:
    """Return the sentences of a text."""
    ends = [0, *(end.end() for end in _STATEMENT_END.finditer(text)), len(text)]
    return [text[start:end].strip() for start, end in pairwise(ends)]


def last_line(text: str) -> str:
    """Return the last line of a text that says a number or a formula outside of questions; the last line where there is none."""
    if "\n" not in text:
        return text.lstrip("#").strip()
    lines = [line.lstrip("#").strip() for line in text.split("\n")]
    return next((line for line in reversed(lines) if any(map(_states, statements(line)))), lines[-1])


def _states(sentence: str) -> bool:
    return (
        not sentence.endswith("?")
        and any(char.isdigit() or char in "\\$" for char in sentence)
        and _CHECK.match(sentence) is None
        and not (sentence.endswith(_TORN_ENDS) and _TORN.search(sentence))
    )


def last_statement(text: str) -> str:
    """Return the last sentence of a text that holds a number and is no question; the text itself where there is none."""
    stated = [part for part in statements(text) if any(char.isdigit() for char in part) and _states(part)]
    return stated[-1] if stated and "\\" not in text.replace("\\boxed{", "") else text


def said_once(text: str) -> str:
    """Return a text without the quantities that repeat the one before in another unit: `40 minutes, or 2400 seconds`."""
    if " or " not in text:
        return text
    return _SAID_AGAIN.sub(lambda match: match[1] if _size(match[1]) == _size(match[2]) else match[0], text)


def _size(quantity: str) -> tuple[str, Fraction] | str:
    """Return dimension and size of a quantity, the text itself where it has none."""
    exact = parse_exact(quantity)
    scale = unit_scale(exact.unit) if exact is not None and exact.unit is not None else None
    return (scale[0], exact.value * scale[1]) if exact is not None and scale is not None else quantity


def cut_sentence(text: str) -> str:
    """The first sentence of a text; a full stop inside a formula ends none."""
    for end in _SENTENCE_END.finditer(text):
        before = text[: end.start()]
        if before.count("$") % 2 == 0 and before.strip():
            return before
    return text


def choice_in(text: str, first: bool) -> str | None:
    """The letter A to J that a sentence chooses.

    Args:
        text: the sentence.
        first: whether the first letter counts, as after `Answer:`; else one that opens the text, or the last.
    """
    if any(mark in text for mark in "*+=^/<>_\\") and not _prose(text):
        return None
    if opening := _FIRST_CHOICE.match(text) or _LEADING_CHOICE.match(text):
        return opening[1]
    if first and (opening := _OPENING_CHOICE.match(text)):
        return opening[1]
    letters = [match[1] or match[3] or match[5] for match in _CHOICE.finditer(text)]
    return None if not letters else letters[0] if first else letters[-1]


def _prose(text: str) -> list[re.Match[str]]:
    """The words of a text that belong to no answer; none of them when all are short enough to be products of letters."""
    shown = _WRAPPED_WORDS.sub(lambda match: "~" * len(match[0]), text) if "\\" in text else text
    words = [match for match in _TOKEN.finditer(shown) if not _of_an_answer(match[0].lower())]
    if not any(_surely_prose(word[0].lower()) for word in words):
        return []
    return [
        word
        for word in words
        if len(word[0]) > 3
        or not word[0].isascii()
        or word[0].lower() in _SHORT_PROSE
        or not _beside_operator(shown, word)
    ]


def _of_an_answer(word: str) -> bool:
    return word in _OF_ANSWERS or (word not in _SHORT_PROSE and is_unit(word))


def _surely_prose(word: str) -> bool:
    return len(word) > 3 or word in _SHORT_PROSE or not word[0].isascii() or "'" in word


def _beside_operator(text: str, word: re.Match[str]) -> bool:
    before, after = text[: word.start()].rstrip()[-1:], text[word.end() :].lstrip()[:1]
    return before in set("+-*/^=<>_") or after in set("+-*/^=<>_")


def _trimmed(part: str) -> str:
    """A part without the punctuation and joints around it, and without brackets that close or open elsewhere."""
    part = re.sub(r"^(?:[\s,;:!?*_`.。，]|(?:and|or)\b)+(?!\d)|[\s,;:!?*_`。，]+$", "", part)
    part = re.sub(r"(?:\s+(?:and|or|[aà]\.*|times(?: in)?))+$", "", part)
    for opening, closing in ("()", "[]"):
        if part.count(opening) != part.count(closing):
            part = part.strip(opening + closing + " ")
    return part

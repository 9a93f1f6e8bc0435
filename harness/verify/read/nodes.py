"""The structure of a canonical answer: a number, a list, a tuple, a set, an interval, a matrix, a relation, words, or a formula.

Only the outer structure is read here; formulas stay text for the symbolic comparison.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from harness.verify.read.dates import days
from harness.verify.read.numbers import Exact, canonical_unit, is_word, parse_exact, split_unit

_OPEN, _CLOSE = "([{", ")]}"
_BASE = re.compile(
    r"\(?\s*(\d[0-9A-F]*|[A-F]+\d[0-9A-F]*)\s*\)?\s*"
    r"(?:_\s*\{?\s*\(?\s*(?:\\text\{)?(\d{1,2}|[a-z]{3,8})\}?\s*\)?\s*\}?"
    r"|\\text\{\s*\(?base ([a-z0-9]+)\)?\s*\}|\(?base ([a-z0-9]+)\)?)"
)
_BASE_NAMES = {
    "two": 2, "three": 3, "four": 4, "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "twelve": 12, "sixteen": 16,
}  # fmt: skip
_MATRIX = re.compile(r"\\begin\s*\{([pbvBV]?(?:small)?matrix|array)\}(?:\s*\{[^{}]*\})?(.*)\\end\s*\{\1\}", re.DOTALL)
_ENVIRONMENT = re.compile(r"\\begin\s*\{(\w+)\}.*?\\end\s*\{\1\}", re.DOTALL)
_COMMA, _SEMICOLON, _SEPARATOR = (re.compile(rf"(?<!\\){marks}") for marks in (",", ";", "[,;]"))
_ROW_END = re.compile(r"\\\\(?:\[[^\]]*\])?|\\cr\b")
_CLOCK = re.compile(r"(\d{1,2})\s*:\s*(\d{2})\s*(?:\\text\s*\{\s*)?([ap])\s*\.?\s*m\s*\.?\s*\}?", re.IGNORECASE)
_AND = re.compile(r"(?<![a-zA-Z\\{]),?\s*\b(?:and|or)\b(?![a-zA-Z}])|(?<=[\d)}\]])\s*(?:or|and)\s*(?=[A-Z(\\\d-])")
_COMMA_OF_LIST = re.compile(r"(?<!\d),|,(?!\d{3}(?!\d))|\d{4},|[;]|\\pm|\b(?:or|and)\b")
_RELATION = re.compile(
    r"=|<|>|\\le(?![a-zA-Z])|\\ge(?![a-zA-Z])|\\ne(?![a-zA-Z])|\\approx(?![a-zA-Z])|\\equiv(?![a-zA-Z])|\\sim(?:eq)?(?![a-zA-Z])"
)
_MEMBER = re.compile(r"^(?!\\\{)(.{1,40}?)\\in(?![a-zA-Z])(.*)$", re.DOTALL)
_WORDS = re.compile(r"(?:\\text\{[^{}]*\}|[A-Za-z\s.,'\"()!?&-])++")
_CHOICE = re.compile(r"(?:(?:[Oo]ption|[Cc]hoice)\s+)?\(?\s*(?:\\text\{\s*)?\(?\s*([A-Za-z])\s*\)?\s*\}?\s*\)?")
_CHOICE_WITH_TEXT = re.compile(
    r"(?:\\text\{\s*)?(?:\(\s*([A-Ja-h])\s*\)|([A-J])\s*[.):]|([a-h])\s*\))(?:\s*\}\s*|\s+)([^\s+*/^=<>,}].*)|([A-H])\s+([A-Z][a-z]{2}.*)",
    re.DOTALL,
)
_PHRASES = dict.fromkeys(
    ("no solution", "no solutions", "no real solution", "no real solutions", "empty set", "none exist"), r"\emptyset"
) | dict.fromkeys(("all real numbers", "all reals", "all real x", "real numbers"), r"\mathbb{R}")
_UNIT_WORD = re.compile(r"[\d}]\s+[A-Za-z]{2,}|\\pi\s+[A-Za-z]{2,}")
_BUILDER = re.compile(r"\\\{\s*([a-zA-Z])\s*(?:\\in\s*\\mathbb\{?R\}?\s*)?(?:\||:|\\mid(?![a-z]))(.*)\\\}", re.DOTALL)
_RATIO = re.compile(r"[^:=]+(?::[^:=]+){1,3}")


@dataclass(frozen=True, slots=True)
class Node:
    """One answer or one part of it.

    `kind`: `exact`, `base`, `clock`, `date`, `matrix`, `union`, `list`, `set`, `interval` (brackets `()`, `[]`, `(]`, `[)`; `()` of any
    length is a tuple), `relation`, `words`, `choice`, `ratio`, `quantity` or `formula`.
    """

    kind: str
    text: str  # canonical
    items: tuple[Node, ...] = ()
    exact: Exact | None = None  # of kind `exact`
    mark: str = ""  # brackets of an interval, operators of a relation joined by spaces, digits and base of a `base`


@lru_cache(maxsize=20_000)
def parse_node(text: str) -> Node:
    """The structure of a canonical text."""
    text = strip_parentheses(text.strip())
    if days(text):  # `20 June` is no twenty things
        return Node("date", text)
    exact = parse_exact(text)
    if exact is not None:
        return Node("exact", text, exact=exact)
    return (
        _labelled_choice(text) or _base(text) or _clock(text) or _matrix(text) or _union(text) or _list(text)
        or _relation(text) or _brackets(text) or _words(text) or _ratio(text)
        or _quantity(text) or Node("formula", text)
    )  # fmt: skip


def split_at(text: str, separator: re.Pattern[str]) -> tuple[list[str], list[str]]:
    """(parts, separators) of a text cut where a pattern matches outside of all brackets."""
    marks = {match.start(): match for match in separator.finditer(text)}
    if r"\begin" in text:
        spans = [match.span() for match in _ENVIRONMENT.finditer(text)]
        marks = {place: m for place, m in marks.items() if not any(low <= place < high for low, high in spans)}
    parts, separators, depth, start = [], [], 0, 0
    for position, char in enumerate(text):
        if char in _OPEN:
            depth += 1
        elif char in _CLOSE:
            depth -= 1
        elif depth <= 0 and position in marks:
            parts.append(text[start:position].strip())
            separators.append(marks[position][0])
            start = marks[position].end()
    return [*parts, text[start:].strip()], separators


def strip_parentheses(text: str) -> str:
    while (
        len(text) > 2
        and text[0] == "("
        and _partner(text, 0) == len(text) - 1
        and len(split_at(text[1:-1], _SEPARATOR)[0]) == 1
    ):
        text = text[1:-1].strip()
    return text


def _partner(text: str, start: int) -> int:
    """Return the position of the bracket that closes the one at `start`; half-open intervals may mix brackets."""
    depth = 0
    for position in range(start, len(text)):
        if text[position] in _OPEN:
            depth += 1
        elif text[position] in _CLOSE:
            depth -= 1
            if depth == 0:
                return position
    return -1


def _quantity(text: str) -> Node | None:
    r"""A formula with a unit behind it, such as `36\pi \text{ cm}^2`."""
    if "\\text" not in text and text.isascii() and not _UNIT_WORD.search(text):
        return None
    bare, percent, unit = split_unit(text)
    if percent or unit is None or bare in ("", text) or canonical_unit(unit.split("^")[0], None) is None:
        return None
    return Node("quantity", text, (parse_node(bare),), mark=unit) if split_unit(bare)[0] == bare else None


def _labelled_choice(text: str) -> Node | None:
    """`(C) 42` and `C. x = 42` are the choice C, which says 42 and x = 42."""
    match = _CHOICE_WITH_TEXT.fullmatch(text)
    if match is None:
        return None
    content = (match[4] or match[6]).strip()
    if _CHOICE_WITH_TEXT.fullmatch(content):
        return None
    return Node("choice", text, (parse_node(content),), mark=(match[1] or match[2] or match[3] or match[5]).upper())


def _base(text: str) -> Node | None:
    match = _BASE.fullmatch(text)
    if match is None:
        return None
    name = match[2] or match[3] or match[4]
    base = int(name) if name.isdigit() else _BASE_NAMES.get(name, 0)
    if not 2 <= base <= 36 or any(int(digit, 36) >= base for digit in match[1]):
        return None
    return Node("base", text, mark=f"{match[1].lstrip('0') or '0'}_{base}")


def _clock(text: str) -> Node | None:
    """A time of day with a.m. or p.m.; without it `7:45` is a ratio."""
    match = _CLOCK.fullmatch(text)
    if match is None or int(match[1]) > 12 or int(match[2]) > 59:
        return None
    return Node("clock", text)


def _matrix(text: str) -> Node | None:
    inner = text
    for opening, closing in (("(", ")"), ("[", "]")):
        if inner.startswith(opening) and inner.endswith(closing):
            inner = inner[1:-1].strip()
    match = _MATRIX.fullmatch(inner)
    if match is None or r"\begin" in match[2]:
        return None
    rows = _ROW_END.split(match[2].replace(r"\hline", ""))
    cells = [(row, tuple(parse_node(cell.strip()) for cell in row.split("&"))) for row in rows if row.strip()]
    items = tuple(Node("row", row, entries) for row, entries in cells)
    return Node("matrix", text, items, mark=match[1] if match[1][0] in "vV" else "")


def _union(text: str) -> Node | None:
    if r"\cup" not in text or re.search(r"[=<>|]|\\(?:cap|setminus|in)(?![a-zA-Z])", text):
        return None
    parts = tuple(parse_node(part.strip()) for part in re.split(r"\\cup(?![a-zA-Z])", text) if part != text)
    whole = bool(parts) and all(part.kind in ("interval", "set") for part in parts)
    return Node("union", text, parts) if whole else None


def _list(text: str) -> Node | None:
    if "," not in text and ";" not in text and r"\pm" not in text and "or" not in text and "and" not in text:
        return None
    if "=" in text and not _COMMA_OF_LIST.search(text):
        return None
    if _WORDS.fullmatch(text) and not re.fullmatch(r"(?:\s*[a-zA-Z]\s*(?:,|,?\s(?:and|or)\s))+\s*[a-zA-Z]\s*", text):
        return None
    comma_text = _AND.sub(",", text)
    groups = [group for group in split_at(comma_text, _SEMICOLON)[0] if group]
    parts = [part for group in groups for part in split_at(group, _COMMA)[0] if part]
    if len(parts) < 2 and not _is_choice_of_signs(comma_text):
        return None
    items = _items(parts)
    return Node("list", text, tuple(items)) if len(items) > 1 else None


def _items(parts: list[str]) -> list[Node]:
    r"""Parsed items; `a \pm b` stands for two, and an assignment before the first covers those that follow."""
    items: list[Node] = []
    for part in parts:
        if _is_choice_of_signs(part):
            items += [parse_node(_tidy(part.replace(r"\pm", sign, 1))) for sign in "+-"]
        else:
            items.append(parse_node(part.strip()))
    return items


def _is_choice_of_signs(text: str) -> bool:
    return text.count(r"\pm") == 1 and r"\mp" not in text and not _is_wrapped(text)


def _is_wrapped(text: str) -> bool:
    """Return whether one pair of brackets encloses the whole text."""
    start = 1 if text.startswith(r"\{") else 0
    return text[start : start + 1] in ("(", "[", "{") and _partner(text, start) == len(text) - 1


def _tidy(text: str) -> str:
    text = re.sub(r"(^|[=(,{])\s*\+\s*", r"\1", text)
    return re.sub(r"(?<=[+-])\s+|\s+(?=[+-])", "", text).strip()


def _relation(text: str) -> Node | None:
    if (member := _MEMBER.match(text)) and _MEMBER.match(member[2]) is None:
        sides = tuple(parse_node(side.strip()) for side in member.groups())
        return Node("relation", text, sides, mark=r"\in")
    texts, operators = split_at(text, _RELATION)
    if not operators:
        return None
    if "" in texts:
        return Node("formula", text)
    return Node("relation", text, tuple(parse_node(side) for side in texts), mark=" ".join(operators))


def _brackets(text: str) -> Node | None:
    opener = text[:2] if text[:2] == r"\{" else text[:1]
    if opener == r"\{" and text.endswith(r"\}") and _partner(text, 1) == len(text) - 1:
        inside = text[2:-2]
        if builder := _BUILDER.fullmatch(text):
            condition = parse_node(builder[2].strip())
            return condition if condition.kind in ("relation", "list") else None
        if "|" in inside or "mid" in inside or (":" in inside and r"\in" in inside):
            return None
        parts = [part for part in split_at(_AND.sub(",", inside), _SEPARATOR)[0] if part]
        return Node("set", text, tuple(_items(parts)))
    if opener not in ("(", "[") or text[-1:] not in (")", "]") or _partner(text, 0) != len(text) - 1:
        return None
    parts = split_at(text[1:-1], _SEPARATOR)[0]
    if any(not part.strip() for part in parts) or len(parts) < 2:
        return None
    return Node("interval", text, tuple(parse_node(part.strip()) for part in parts), mark=opener + text[-1])


def _words(text: str) -> Node | None:
    if text == r"\emptyset":
        return Node("set", text)
    if (synonym := _PHRASES.get(plain_words(text))) is not None and synonym != text:
        return parse_node(synonym)
    if match := _CHOICE.fullmatch(text):
        return Node("choice", text, mark=match[1])
    if _WORDS.fullmatch(text) and re.search(r"[A-Za-z]{2,}", text) and not _has_operators(text):
        return Node("words", text, mark=plain_words(text))
    return None


def _has_operators(text: str) -> bool:
    """Return whether a text of letters is a formula: `-xyz`, `m-nk`, `mn!`; in English the same marks mean nothing."""
    return text.startswith("-") or (re.search(r"[-!'(]", text) is not None and not _is_english(text))


_SHORT_WORDS = ("the", "an", "yes", "no")


def _is_english(text: str) -> bool:
    words = re.findall("[a-z]+", text.casefold())
    return r"\text" in text or any(word in _SHORT_WORDS or is_word(word) for word in words)


def plain_words(text: str) -> str:
    """Words alone, lower case, without punctuation, and in English without articles: `a bc` is a product."""
    articles = ("the", "a", "an") if _is_english(text) else ()
    text = re.sub(r"\\text\{([^{}]*)\}", r" \1 ", text).casefold()
    return " ".join(word for word in re.findall(r"[a-z0-9]+", text) if word not in articles)


def _ratio(text: str) -> Node | None:
    if ":" not in text or not _RATIO.fullmatch(text) or text.count("{") != text.count("}"):
        return None
    return Node("ratio", text, tuple(parse_node(part.strip()) for part in text.split(":")))

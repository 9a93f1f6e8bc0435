r"""The grammar of values: what an answer says, without the words around it.

    value    := side ((, | and | or | ;) side)*         several values; forms of one number joined by `or` are one value
    side     := part (relation part)* [(mod number)]    an equation, an inequality, a membership
    part     := option | ratio | number_base | (value, ...) | [value, ...] | \{value, ...\} | part \cup part | words | quantity
    quantity := [currency] expression [% | degree | unit | thing counted]

A bracket of one value is that value. `a \pm b` is two values. The rules stand below in this order, from the widest to the narrowest.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import pairwise

from harness.verify.read import words
from harness.verify.read.expressions import Tree, expression, is_numeral, names_of
from harness.verify.read.tokens import Token, render, split, tokenize
from harness.verify.read.values import DECIMAL_DIGITS, Number, constant, numbers_equal, rounds_to

_OPENERS = ("(", "[")
_MONEY = {r"\$": "dollar", "USD": "dollar", "€": "euro", "£": "pound_sterling", "¥": "yen", "₹": "rupee"}
_EDGES = frozenset((".", ":", ",", ";", "=", "}", r"\\", r"\approx"))
_SETS = frozenset(rf"\mathbb{{{letter}}}" for letter in "ZNRQC")
_DIVIDED = (("relation", "relation", ()), ("union", "operator", (r"\cup", r"\setminus")), ("ratio", "mark", (":",)))
_DIVIDERS = frozenset((r"\cup", r"\setminus", ":", "to"))
_DATE = re.compile(r"(?:\d{4}([-/])\d{1,2}\1\d{1,2}|\d{1,2}([-/])\d{1,2}\2\d{4})")
_BASE = re.compile(r"\(?([0-9A-Z]+)\)?(?:_\{?\(?(\w+)\)?\}?|base(\w+))")
_POWERS = {"square": "2", "sq": "2", "cubic": "3", "cu": "3"}
_SAME_UNITS = {"mi h": "mph", "km h": "kmh", "degree celsius": "degree C", "degree fahrenheit": "degree F"}


@dataclass(frozen=True, slots=True)
class Node:
    """One value or one part of it.

    Attributes:
        kind: `formula`, `list`, `forms` (of one value), `set`, `bracket` (tuple or interval), `union`, `relation`, `ratio`, `base`,
            `choice`, `words`.
        text: canonical, as LaTeX.
        items: the parts of all but a formula and words; of a choice its text.
        tree: of a formula, None where it is no expression of the small language.
        mark: brackets, relations or separators; of a base its digits, of a choice its letter, of words these alone.
        unit: its units of measure, by their first names.
        percent: a percent sign stands behind it.
        modulus: what a congruence says behind `mod`.
    """

    kind: str
    text: str
    items: tuple[Node, ...] = ()
    tree: Tree | None = None
    mark: str = ""
    unit: str = ""
    percent: bool = False
    modulus: str = ""

    @property
    def number(self) -> Number:
        """The value of a formula without unknowns, without its percent sign; None for others."""
        return None if self.tree is None else constant(self.tree)

    @property
    def is_out_of_reach(self) -> bool:
        """Whether this is a number without a value here: undefined, or huge."""
        return self.tree is not None and self.number is None and not names_of(self.tree)

    @property
    def is_numeral(self) -> bool:
        """Whether this is a number as written."""
        return self.tree is not None and is_numeral(self.tree)

    @property
    def integer(self) -> str:
        """The digits of an integer as written, without separators and units; empty for others."""
        number = self.number if self.is_numeral and not self.percent else None
        return str(number) if isinstance(number, Fraction) and number.denominator == 1 else ""

    @property
    def is_text(self) -> bool:
        """Whether nothing but the same text equals this."""
        return self.kind == "words" or (self.kind == "formula" and self.tree is None and "\\" not in self.text)

    @property
    def decimals(self) -> int:
        """Digits behind the point of a decimal, -1 for others."""
        tree = self.tree[1] if self.tree is not None and self.tree[0] == "neg" else self.tree
        return int(tree[2]) if tree is not None and tree[0] == "number" else -1


def value(tokens: Sequence[Token]) -> Node:
    """Return the value that tokens write; a formula without a tree where they write none."""
    tokens = _trimmed(tokens)
    text = render(tokens)
    if len(tokens) == 1 and tokens[0].kind == "number":
        return Node("formula", text, tree=expression(tokens))
    for rule in (date, _words, _choice, _bracket, _several, _signs, _divided, _base, _quantity):
        node = rule(tokens, text)
        if node is not None:
            return node
    tree = expression(tokens)
    if tree is None and any(token.kind == "word" for token in tokens):
        return Node("words", text, mark=plain_words(tokens))
    return Node("formula", text, tree=tree)


def _trimmed(tokens: Sequence[Token]) -> Sequence[Token]:
    """Without punctuation at the ends, and without brackets around a single value."""
    while tokens:
        first, last = tokens[0], tokens[-1]
        is_exclaimed = last.text == "!" and len(tokens) > 1 and tokens[-2].kind == "word"
        if first.text in _EDGES:
            tokens = tokens[1:]
        elif is_exclaimed or (last.text in _EDGES and last.kind != "relation"):
            tokens = tokens[:-1]
        elif first.text == last.text == "*" and len(tokens) > 2:
            tokens = tokens[1:-1]  # *5*
        elif len(tokens) == 1 and (first.text == "{" or (first.text in _OPENERS and len(_parts(first)) == 1)):
            if letter_of(first):
                break  # (C)
            tokens = first.items
        else:
            break
    return tokens


def _parts(group: Token) -> list[list[Token]]:
    """Return the parts of a bracket: `(1,234)` is a point, `(1,234, 5,678)` has thousands."""
    items: Sequence[Token] = group.items
    if not any(token.kind == "separator" for token in items):
        spread = ((token,) if "," not in token.raw else tokenize(token.raw.replace(",", ", ")) for token in items)
        items = [token for tokens in spread for token in tokens]
    return [part for part in split(items, "separator")[0] if part]


def plain_words(tokens: Sequence[Token]) -> str:
    """Return words alone, without articles and punctuation."""
    shown = (token for token in tokens if token.kind not in ("mark", "separator") and token.text not in words.ARTICLES)
    return " ".join(render([token]) if token.items else token.text for token in shown)


def date(tokens: Sequence[Token], text: str) -> Node | None:
    """A date, or nothing at all, is words: `20 June 2024` and `2024-06-20` are one; `3/4/2025` is itself alone."""
    if not tokens or _DATE.fullmatch(text):
        return Node("words", text, mark="-".join(part.lstrip("0") for part in re.split("[-/]", text)))
    months = [words.MONTHS[token.text] for token in tokens if token.text in words.MONTHS]
    if len(months) != 1 or any(token.kind not in ("word", "number", "mark", "separator") for token in tokens):
        return None
    days = sorted((token.text for token in tokens if token.kind == "number"), key=len)
    if not 0 < len(days) < 3:
        return None
    return Node("words", text, mark="-".join((*days[1:], str(months[0]), days[0].lstrip("0"))))


def _words(tokens: Sequence[Token], text: str) -> Node | None:
    kinds = {token.kind for token in tokens}
    if "word" not in kinds or kinds - {"word", "mark", "separator"}:
        return None
    plain = plain_words(tokens)
    sign = words.PHRASES.get(plain)
    return Node("words", text, mark=plain) if sign is None else Node("formula", sign, tree=("name", sign))


def letter_of(token: Token) -> str:
    """Return the letter of `C` or `(C)`, nothing for other tokens."""
    token = token.items[0] if token.text == "(" and len(token.items) == 1 else token
    return token.text if token.kind == "name" and len(token.text) == 1 and token.text.isascii() else ""


def label(tokens: Sequence[Token]) -> tuple[str, Sequence[Token]] | None:
    """Return the letter of an option that tokens begin with, and what stands behind it; None where they do not."""
    named = bool(tokens) and tokens[0].text in ("option", "choice")
    tokens = tokens[1:] if named else tokens
    letter, rest = letter_of(tokens[0]) if tokens else "", tokens[1:]
    if not letter or letter.upper() not in "ABCDEFGHIJ":
        return None
    if tokens[0].kind == "name" and not named:
        if not rest or rest[0].kind != "mark" or rest[0].text not in (")", ".", ":"):
            return None
        rest = rest[1:]
    if not rest or named:
        return letter, rest
    if rest[0].text == "(" and letter_of(rest[0]):
        return None  # two options
    is_apart = rest[0].spaced and rest[0].kind not in ("operator", "relation")
    follows = (is_apart or rest[0].upright) and rest[0].kind != "separator"
    return (letter, rest) if follows and words.class_of(rest[0].text) not in "crk" else None


def _choice(tokens: Sequence[Token], text: str) -> Node | None:
    if len(tokens) == 1 and (letter := letter_of(tokens[0])):
        return Node("choice", letter, tree=expression(tokens), mark=letter)
    found = label(tokens)
    if found is None:
        return None
    letter, rest = found
    return Node("choice", text if rest else letter, (value(rest),) if rest else (), mark=letter)


def _signs(tokens: Sequence[Token], text: str) -> Node | None:
    r"""`a \pm b` is two values."""
    if text.count(r"\pm") != 1 or r"\mp" in text:
        return None
    return Node("list", text, tuple(value(tokenize(text.replace(r"\pm", sign))) for sign in "+-"), mark=r"\pm")


def _several(tokens: Sequence[Token], text: str) -> Node | None:
    parts, separators = split(tokens, "separator")
    if not separators:
        return None
    separators = [sign for sign, part in zip(separators, parts[1:], strict=True) if part]  # `, or` is one
    items = _items([part for part in parts if part])
    if len(items) > 1 and items[-1].mark == r"\in" and items[-1].items[-1].text in _SETS:
        items = items[:-1]  # k \in \mathbb{Z}
    if len(items) == 1:
        return items[0]
    if set(separators) == {"or"} and all(agree(items[0], item, 2) for item in items[1:]):
        return Node("forms", text, tuple(items))
    return Node("list", text, tuple(items), mark="or" if "or" in separators else "and" if "and" in separators else ",")


def _items(parts: Sequence[Sequence[Token]]) -> list[Node]:
    items: list[Node] = []
    for part in parts:
        item = value(part)
        items += item.items if item.kind == "list" and item.mark == r"\pm" else [item]
    return items


def agree(a: Node, b: Node, least: int = 1) -> bool:
    """Return whether two values are forms of one number: equal, or one is the other, rounded to `least` decimals or more."""
    if a.number is None or b.number is None:
        return False
    first, second = (node.number / (100 if node.percent else 1) for node in (a, b))
    as_written = least if least == DECIMAL_DIGITS else 0  # the two decimals that a percent sign adds do not count
    rounded = (
        rounds_to(exact, decimal, max(node.decimals, 0) + 2 * node.percent, least)
        for node, decimal, exact in ((a, first, second), (b, second, first))
        if node.decimals >= as_written or (least == 0 and node.is_numeral and decimal.denominator == 1)
    )
    return numbers_equal(first, second) or any(rounded)


def _divided(tokens: Sequence[Token], text: str) -> Node | None:
    """A relation, a union of sets, or a ratio (`3:4`, `3 to 4`)."""
    if not any(token.kind == "relation" or token.text in _DIVIDERS for token in tokens):
        return None
    is_ratio = any(a.text == "to" and b.kind in ("number", "name", "group", "command") for a, b in pairwise(tokens))
    tokens = [
        Token("mark", ":") if is_ratio and (token.kind, token.text) == ("word", "to") else token for token in tokens
    ]
    for kind, token_kind, signs in _DIVIDED:
        sides, found = split(tokens, token_kind, *signs)
        if found and not all(sides):
            return Node("formula", text)
        if found:
            items = tuple(map(value, sides))
            unit = items[-1].unit if kind == "ratio" else ""
            return Node(kind, text, items, mark=" ".join(found), unit=unit, modulus=items[-1].modulus)
    return None


def _bracket(tokens: Sequence[Token], text: str) -> Node | None:
    first, last = tokens[0], tokens[-1]
    is_named = len(tokens) == 2 and first.kind == "name" and first.text.isupper()
    if len(tokens) == 1 and first.text == r"\{":
        return _set(first, text)
    elif last.text in _OPENERS and (len(tokens) == 1 or is_named):
        parts, mark = _parts(last), last.text + last.raw  # (2, 3), P(2, 3)
    else:
        return None
    return Node("bracket", text, tuple(map(value, parts)), mark=mark) if len(parts) > 1 else None


def _set(group: Token, text: str) -> Node | None:
    if not group.items:
        return Node("formula", r"\emptyset", tree=("name", r"\emptyset"))
    sides, bars = split(group.items, "mark", "|", ":")
    if not bars or not all(sides):
        return Node("set", text, tuple(_items(_parts(group))))
    condition = value(sides[1])
    return condition if condition.kind in ("relation", "list") else None


def _base(tokens: Sequence[Token], text: str) -> Node | None:
    match = _BASE.fullmatch("".join(text.split()))  # `3\text{A}7_{16}`
    if match is None:
        return None
    digits, name = match[1].lstrip("0") or "0", match[2] or match[3]
    base = int(name) if name.isdigit() and len(name) < 3 else words.NUMBERS.get(name, 0)
    is_number = match[1][0].isdigit() or (base > 10 and len(digits) > 1)
    if not 2 <= base <= 36 or not is_number or any(int(digit, 36) >= base for digit in digits):
        return None
    return Node("base", text, mark=f"{digits}_{base}")


def _quantity(tokens: Sequence[Token], text: str) -> Node | None:
    """A value with a modulus, a currency, a percent sign or a unit."""
    first, last = tokens[0], tokens[-1]
    if first.text == "-" and len(tokens) > 2 and tokens[1].text in _MONEY:
        return _quantity([tokens[1], first, *tokens[2:]], text)
    if last.text == "(" and last.items[:1] and last.items[0].text == r"\mod":
        tokens = [*tokens[:-1], *last.items]
    sides, mods = split(tokens, "operator", r"\mod")
    if len(mods) == 1 and all(sides):
        number, modulus = value(sides[0]), value(sides[1])
        values = number.number, modulus.number
        is_open = all(isinstance(one, Fraction) for one in values) and not 0 <= values[0] < values[1]
        return None if is_open else replace(number, text=text, modulus=modulus.text)  # `17 \bmod 5` is to be worked out
    is_money, is_percent = first.text in _MONEY, last.text == "%"
    if len(tokens) > 1 and (is_money or is_percent):
        number = value(tokens[1:] if is_money else tokens[:-1])
        unit = f"{_MONEY.get(first.text, '')} {number.unit}".strip()
        is_amount = number.kind == "formula" and not number.percent
        return replace(number, text=text, unit=unit, percent=is_percent) if is_amount else None
    return _measured(tokens, text)


def _measured(tokens: Sequence[Token], text: str) -> Node | None:
    start = next((place for place in range(1, len(tokens)) if _begins_unit(tokens, place)), len(tokens))
    bare, tail = tokens[:start], tokens[start:]
    is_share = bare[-1].text == "%" and any(token.kind != "word" for token in tail)  # 30% of 100
    if not tail or is_share or any(token.kind == "word" for token in bare):
        return None
    scale = words.SCALES.get(tail[0].text.removesuffix("s"), 1)
    unit, number = _unit(tail[scale > 1 :]), value(bare[:-1] if bare[-1].text == "*" else bare)  # 5 \cdot \text{cm}
    is_none = number.kind in ("list", "relation", "words") or (number.kind == "formula" and number.tree is None)
    if unit is None or is_none:
        return None
    tree = number.tree
    if scale > 1 and isinstance(number.number, Fraction):  # `2 dozen` is a product
        is_product = scale == 12 or not number.is_numeral
        tree = ("*", tree, ("number", Fraction(scale), -1)) if is_product else ("number", number.number * scale, -1)
    return replace(number, text=text, tree=tree, unit="" if unit == "rad" and r"\pi" in text else unit)


def _begins_unit(tokens: Sequence[Token], place: int) -> bool:
    if tokens[place].text != "degree":
        return tokens[place].kind == "word"
    in_function = any(before.kind == "command" and before.text not in (r"\frac", r"\sqrt") for before in tokens[:place])
    return not in_function and all(after.kind in ("word", "name") for after in tokens[place + 1 :])


def _unit(tail: Sequence[Token]) -> str | None:
    """Return the units of measure among the words behind a number, None where these do something else to it."""
    names: list[str] = []
    power = ""
    for place, token in enumerate(tail):
        unit = words.unit_of(token.text.lower()) or (token.text if token.text in words.UNIT_LETTERS else "")
        if token.kind == "word" and (words.class_of(token.text) == "p" or (place and token.text == "to")) and not unit:
            break
        is_power = token.kind == "group" or token.text in ("2", "3")
        is_foreign = token.kind in ("relation", "separator", "number") and not is_power
        is_operation = not words.NO_THINGS.isdisjoint((token.text.lower(), token.text[-1]))
        if is_foreign or is_operation or words.class_of(token.text) == "d":
            return None
        names += [unit, power] if unit else [token.items[-1].text if token.items else token.text] if is_power else []
        power = _POWERS.get(token.text, "" if unit else power)
    name = " ".join(filter(None, names))
    return _SAME_UNITS.get(name, name)

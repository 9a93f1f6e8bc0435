"""Three-valued comparison of two answers: equal, different, or not decidable without computer algebra.

Structure (lists, tuples, sets, intervals, matrices, assignments) is compared here, part by part; a pair of formulas goes to
`leaf`. In the parent process `leaf` answers None, which sends the whole pair to a worker.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fractions import Fraction

from harness.verify.read.canonical import reads_the_same, squeeze
from harness.verify.read.dates import same_day, same_time
from harness.verify.read.formulas import (
    as_interval,
    as_union,
    ascending,
    assigned_name,
    bare_values,
    may_be_renamed,
    one_condition,
    range_name,
    value_side,
)
from harness.verify.read.nodes import Node
from harness.verify.read.numbers import DECIMAL_DIGITS, Exact, parse_exact, unit_scale

Leaf = Callable[[str, str], bool | None]
_MAX_UNORDERED = 64


class AnswerComparison:
    """Compares parsed answers under a percent policy of `VerifierConfig`; `leaf` decides two formulas, None where it cannot."""

    def __init__(self, percent: str, leaf: Leaf) -> None:
        self.percent = percent
        self.leaf = leaf

    def equal(self, gold: Node, answer: Node) -> bool | None:
        """Return whether an answer equals the gold one; None when `leaf` could not tell."""
        if gold.text == answer.text or squeeze(gold.text) == squeeze(answer.text):
            return True
        if gold.exact is not None and answer.exact is not None:
            return exact_equal(gold.exact, answer.exact, self.percent)
        if reads_the_same(gold.text, answer.text):
            return True
        if (pair := one_condition(gold, answer)) is not None:
            return self.equal(*pair)
        if r"\mod" in gold.text and r"\mod" in answer.text:  # congruences are equal as they are written
            gold_text, answer_text = (re.sub(r"[\s{}]", "", node.text) for node in (gold, answer))
            return gold_text == answer_text
        if "quantity" in (gold.kind, answer.kind):
            return self._quantities(gold, answer)
        gold, answer = as_union(gold), as_union(answer)
        if "relation" in (gold.kind, answer.kind):
            return self._relations(gold, answer)
        return self._by_kind(gold, answer)

    def _by_kind(self, gold: Node, answer: Node) -> bool | None:
        if "date" in (gold.kind, answer.kind):
            return same_day(gold.text, answer.text)
        if any(node.kind == "choice" and node.items for node in (gold, answer)):
            return self._choices(gold, answer)
        if gold.kind == answer.kind == "choice":
            in_capitals = gold.mark.upper()
            return gold.mark == answer.mark or (in_capitals == answer.mark.upper() and in_capitals in "ABCDE")
        if gold.kind in ("words", "choice") or answer.kind in ("words", "choice"):
            return self._words(gold, answer)
        if gold.kind == "base" or answer.kind == "base":
            return _bases(gold, answer)
        if "clock" in (gold.kind, answer.kind):
            return same_time(gold.text, answer.text)
        return self._structures(gold, answer)

    def _quantities(self, gold: Node, answer: Node) -> bool | None:
        """Formulas of which at least one has a unit; a unit on one side only is ignored."""
        sides = (gold, answer)
        units = [side.mark if side.kind == "quantity" else side.exact.unit if side.exact else None for side in sides]
        gold, answer = (node.items[0] if node.kind == "quantity" else node for node in (gold, answer))
        if (angles := _radians(gold, answer)) is not None:
            return self.leaf(*angles)
        if units[0] and units[1] and scale_between(units[0], units[1]) not in (None, 1):
            return False
        return self.equal(gold, answer)

    def _choices(self, gold: Node, answer: Node) -> bool | None:
        """Choices of which one at least has its text beside its letter: the text counts when only one has a letter."""
        letters = gold.mark.upper(), answer.mark.upper()
        if gold.kind == answer.kind and all(letter in "ABCDEFGHIJ" for letter in letters):
            return letters[0] == letters[1]
        gold = gold.items[0] if gold.kind == "choice" and gold.items else gold
        answer = answer.items[0] if answer.kind == "choice" and answer.items else answer
        return self.equal(gold, answer)

    def _words(self, gold: Node, answer: Node) -> bool | None:
        if {gold.kind, answer.kind} == {"words", "choice"} or gold.kind == answer.kind:
            letters = _is_product(gold.text) and _is_product(answer.text)
            if letters and sorted(gold.text) == sorted(answer.text):
                return self.leaf(gold.text, answer.text)
            return bool(gold.mark) and gold.mark.casefold() == answer.mark.casefold()
        other = answer if gold.kind in ("words", "choice") else gold
        if "e" in (gold.text, answer.text) and other.kind == "exact":
            return self.leaf(gold.text, answer.text)
        if other.kind in ("exact", "base", "interval", "list", "matrix", "union", "ratio"):
            return False
        return self.leaf(gold.text, answer.text)

    def _relations(self, gold: Node, answer: Node) -> bool | None:
        if gold.kind == answer.kind:
            return self._two_relations(gold, answer)
        value = value_side(answer if answer.kind == "relation" else gold, strict=gold.kind == "relation")
        if value is None:
            return self._range(gold, answer)
        return self.equal(gold, value) if answer.kind == "relation" else self.equal(value, answer)

    def _range(self, gold: Node, answer: Node) -> bool | None:
        """Compare an inequality with an interval; an equation that gives no value is none of another kind."""
        relation, other = (gold, answer) if gold.kind == "relation" else (answer, gold)
        if relation is answer and gold.kind != "matrix" and "=" in relation.mark.split(" "):
            return False  # Math-Verify takes its right side whatever the left one is
        interval = as_interval(relation)
        if interval is not None and other.kind in ("interval", "union"):
            return self.equal(other, interval) if relation is answer else self.equal(interval, other)
        if other.kind in ("exact", "base", "words", "choice", "ratio"):
            return False
        return self.leaf(gold.text, answer.text)

    def _two_relations(self, gold: Node, answer: Node) -> bool | None:
        gold, answer = ascending(gold), ascending(answer)
        gold_value, answer_value = (value_side(gold, strict=True), value_side(answer, strict=True))
        if gold_value is not None and answer_value is not None:
            gold_name, answer_name = assigned_name(gold), assigned_name(answer)
            distinct_names = gold_name and answer_name and gold_name != answer_name
            if distinct_names and not may_be_renamed(gold_name, answer_name):
                return False
            return self.equal(gold_value, answer_value)
        gold_range = gold_value if gold.mark == r"\in" else as_interval(gold)
        answer_range = answer_value if answer.mark == r"\in" else as_interval(answer)
        if gold_range is not None and answer_range is not None and self.equal(gold_range, answer_range):
            return range_name(gold) == range_name(answer)
        return self.leaf(gold.text, answer.text)

    def _structures(self, gold: Node, answer: Node) -> bool | None:
        kinds = gold.kind, answer.kind
        if "matrix" in kinds:
            return self._matrices(gold, answer)
        if kinds in (("row", "row"), ("interval", "interval")):
            return self._sequences(gold.items, answer.items) if gold.mark == answer.mark else False
        if kinds == ("union", "union"):
            return self._multisets(_distinct(gold.items), _distinct(answer.items))
        if set(kinds) <= {"set", "list"}:
            return self._lists(gold.items, answer.items)
        if set(kinds) == {"list", "interval"}:
            interval = gold if gold.kind == "interval" else answer
            equal = self._sequences(bare_values(gold.items), bare_values(answer.items))
            return equal if interval.mark == "()" else False
        if kinds == ("ratio", "ratio"):
            same = same_ratio(gold, answer)
            return self._sequences(gold.items, answer.items) if same is None else same
        return self._mixed_kinds(gold, answer)

    def _mixed_kinds(self, gold: Node, answer: Node) -> bool | None:
        kinds = {gold.kind, answer.kind}
        if "set" in kinds:
            whole, single = (gold, answer) if gold.kind == "set" else (answer, gold)
            if single.kind in ("interval", "union", "ratio"):
                return False
            if len(whole.items) == 1:
                return self.equal(*(node.items[0] if node is whole else node for node in (gold, answer)))
            if single.kind == "exact":
                return False
        if kinds == {"list", "exact"}:
            number, several = (gold, answer) if gold.kind == "exact" else (answer, gold)
            assert number.exact is not None
            if several is gold and not _DECIMAL_GOLD.fullmatch(gold.text):
                return False
            return is_decimal_comma(several.text, number.exact, self.percent)
        if (angles := _radians(gold, answer)) is not None:
            return self.leaf(*angles)
        if kinds == {"list", "union"} or (kinds & {"list", "interval", "union"} and kinds & {"exact", "ratio"}):
            return False
        if kinds == {"ratio", "exact"}:
            ratio, number = (gold, answer) if gold.kind == "ratio" else (answer, gold)
            return ratio_is_number(ratio, number)
        return self.leaf(_formula_text(gold), _formula_text(answer))

    def _matrices(self, gold: Node, answer: Node) -> bool | None:
        """Two matrices, or a column or row against a tuple of its entries."""
        if gold.kind == answer.kind:
            if len(gold.items) != len(answer.items) or (gold.mark == "") != (answer.mark == ""):
                return False
            return _all(map(self.equal, gold.items, answer.items))
        matrix, other = (gold, answer) if gold.kind == "matrix" else (answer, gold)
        if other.kind in ("exact", "set", "union", "list", "ratio") and not matrix.mark:
            return False
        if other.kind != "interval" or matrix.mark:
            return self.leaf(gold.text, answer.text)
        entries = tuple(cell for row in matrix.items for cell in row.items)
        if min(len(matrix.items), len(matrix.items[0].items)) != 1 or other.mark != "()":
            return False
        return self._sequences(entries, other.items) if matrix is gold else self._sequences(other.items, entries)

    def _lists(self, gold: tuple[Node, ...], answer: tuple[Node, ...]) -> bool | None:
        """Lists and sets: by name where the items have names, else in any order and whatever is said twice."""
        gold_names = [assigned_name(node) for node in gold]
        answer_names = [assigned_name(node) for node in answer]
        if all(gold_names) and all(answer_names):
            if sorted(gold_names) != sorted(answer_names):
                return self._multisets(gold, answer)
            by_name = dict(zip(answer_names, answer, strict=True))
            if len(by_name) == len(answer):
                pairs = zip(gold_names, gold, strict=True)
                return _all(self.equal(node, by_name[name]) for name, node in pairs)
        names, others = set(filter(None, gold_names)), set(filter(None, answer_names))
        if len(names) == len(others) == 1 and names != others and not may_be_renamed(*names, *others):
            return False
        if len(names) > 1 or len(others) > 1:
            return self._sequences(bare_values(gold), bare_values(answer))
        return self._multisets(_distinct(bare_values(gold)), _distinct(bare_values(answer)))

    def _sequences(self, gold: tuple[Node, ...], answer: tuple[Node, ...]) -> bool | None:
        if len(gold) != len(answer):
            return False
        return _all(map(self.equal, gold, answer))

    def _multisets(self, gold: tuple[Node, ...], answer: tuple[Node, ...]) -> bool | None:
        if len(gold) != len(answer):
            return False
        if len(gold) > _MAX_UNORDERED:
            return self._sequences(tuple(sorted(gold, key=_rank)), tuple(sorted(answer, key=_rank)))
        candidates, unknown = list(answer), False
        for item in gold:
            verdicts = [(self.equal(item, candidate), candidate) for candidate in candidates]
            match = next((candidate for verdict, candidate in verdicts if verdict), None)
            if match is not None:
                candidates.remove(match)
            elif any(verdict is None for verdict, _ in verdicts):
                unknown = True
            else:
                return False
        return None if unknown else True


def _radians(gold: Node, answer: Node) -> tuple[str, str] | None:
    r"""An angle in degrees against a formula with `\pi`: both in radians."""
    for degrees, other, gold_first in ((gold, answer, True), (answer, gold, False)):
        exact = degrees.exact
        if exact is not None and exact.unit == "degree" and other.kind == "formula" and r"\pi" in other.text:
            radians = rf"\frac{{{exact.value.numerator}\pi}}{{{180 * exact.value.denominator}}}"
            return (radians, other.text) if gold_first else (other.text, radians)
    return None


def _formula_text(node: Node) -> str:
    r"""The text of a node as a formula: `2\frac{1}{2}` as the fraction that it means."""
    exact = node.exact
    if exact is None or exact.percent or exact.unit or exact.decimals >= 0 or exact.value.denominator == 1:
        return node.text
    return rf"\frac{{{exact.value.numerator}}}{{{exact.value.denominator}}}"


def _is_product(text: str) -> bool:
    return len(text) <= 4 and text.isascii() and text.isalpha() and text.islower()


def _bases(gold: Node, answer: Node) -> bool:
    if gold.kind == answer.kind:
        return gold.mark == answer.mark
    base_node, other = (gold, answer) if gold.kind == "base" else (answer, gold)
    digits, base = base_node.mark.split("_")
    return base == "10" and other.exact is not None and other.exact.value == int(digits)


def _all(verdicts: Iterable[bool | None]) -> bool | None:
    unknown = False
    for verdict in verdicts:
        if verdict is False:
            return False
        unknown = unknown or verdict is None
    return None if unknown else True


def _distinct(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    node_by_key: dict[object, Node] = {}
    for node in nodes:
        key = (node.exact.value, node.exact.percent) if node.exact is not None else squeeze(node.text)
        node_by_key.setdefault(key, node)
    return tuple(node_by_key.values())


def _rank(node: Node) -> tuple[bool, Fraction | int, str]:
    return node.exact is None, node.exact.value if node.exact else 0, node.text


_LEAST_DIGITS = 4
_DECIMAL_COMMA = re.compile(r"([+-]?\d+),(\d+)(?![\d,])")
_DECIMAL_GOLD = re.compile(r"[+-]?\d+,\d{2,}")  # a gold `3,5` is a list
_LIKE_TIME = re.compile(r"\s*0*(?:1?\d|2[0-4])\s*(?::\s*\d{2}\s*)+")


def exact_equal(gold: Exact, answer: Exact, percent: str) -> bool:
    """Return whether two exact numbers are equal under a percent policy; never compared as floats (see VerifierConfig)."""
    if gold.percent != answer.percent:
        percentage, plain = (gold, answer) if gold.percent else (answer, gold)
        same_number = percentage.value == plain.value or _rounds(percentage, plain)
        same_value = percentage.value / 100 == plain.value or (
            percentage.decimals >= 0 and plain.decimals < 0 and rounds_to(plain.value * 100, percentage)
        )
        return {"either": same_number or same_value, "value": same_value, "number": same_number}[percent]
    if gold.unit and answer.unit and gold.unit != answer.unit:
        scale = scale_between(gold.unit, answer.unit)
        if scale is not None:
            return scale != 0 and gold.value * scale == answer.value
    return gold.value == answer.value or _rounds(gold, answer)


def scale_between(gold: str, answer: str) -> Fraction | None:
    """Return how many of the answer's unit are one of the gold one: 0 for other dimensions, None for words that are no units."""
    if gold[:6] == answer[:6] == "degree" and gold[6:] and answer[6:]:
        return Fraction(0)
    gold_scale, answer_scale = unit_scale(gold), unit_scale(answer)
    if gold_scale is None or answer_scale is None:
        return None
    return gold_scale[1] / answer_scale[1] if gold_scale[0] == answer_scale[0] else Fraction(0)


def _rounds(gold: Exact, answer: Exact) -> bool:
    """Return whether one number is a decimal of enough digits and the other rounds to it."""
    decimal, exact = sorted((gold, answer), key=lambda number: (number.decimals < 0, number.decimals))
    return decimal.decimals >= 0 and rounds_to(exact.value, decimal)


def rounds_to(exact: Fraction, decimal: Exact) -> bool:
    """Return whether a decimal of at least `DECIMAL_DIGITS` decimals is another number, rounded or cut there."""
    places = 10**decimal.decimals
    if decimal.decimals < DECIMAL_DIGITS or abs(decimal.value * places) < 10 ** (_LEAST_DIGITS - 1):
        return False
    truncated = int(exact * places) == decimal.value * places
    return truncated or abs(exact - decimal.value) * 2 * places <= 1


def is_decimal_comma(several: str, number: Exact, percent: str) -> bool:
    """Return whether what reads as a list is one number: `1,22` against 1.22."""
    decimal = parse_exact(_DECIMAL_COMMA.sub(r"\1.\2", several, count=1))
    return decimal is not None and decimal.value.denominator > 1 and exact_equal(number, decimal, percent)


def same_ratio(gold: Node, answer: Node) -> bool | None:
    """Return whether two ratios of numbers have one value; None when they are times, formulas, or of different length."""
    times = _LIKE_TIME.fullmatch(gold.text) and _LIKE_TIME.fullmatch(answer.text)
    gold_values, answer_values = _values(gold), _values(answer)
    if len(gold_values) != len(answer_values) or times or not (gold_values and all(gold_values) and all(answer_values)):
        return None
    return len({a / b for a, b in zip(gold_values, answer_values, strict=True)}) == 1


def ratio_is_number(ratio: Node, number: Node) -> bool:
    """Return whether `3:5` is the number 3/5."""
    values = _values(ratio)
    if len(values) != 2 or not values[1] or number.exact is None or _LIKE_TIME.fullmatch(ratio.text):
        return False
    return number.exact.value.denominator != 1 and values[0] / values[1] == number.exact.value


def _values(node: Node) -> list[Fraction]:
    """Return the values of a number or of several; none where one of them is no number."""
    items = node.items or (node,)
    values = [item.exact.value for item in items if item.exact is not None]
    return values if len(values) == len(items) else []

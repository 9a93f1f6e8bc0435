"""Three-valued comparison of two answers: equal, different, or not decidable without computer algebra.

Structure (lists, tuples, sets, intervals, matrices, assignments) is compared here, part by part; a pair of formulas goes to
`leaf`. In the parent process `leaf` answers None, which sends the whole pair to a worker.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fractions import Fraction

from harness.verify.nodes import Node
from harness.verify.numbers import Exact
from harness.verify.relations import (
    as_interval,
    as_union,
    assigned_name,
    bare_values,
    may_be_renamed,
    range_name,
    value_side,
)
from harness.verify.units import unit_scale

Leaf = Callable[[str, str], bool | None]
_MAX_UNORDERED = 64


class Comparison:
    """Compares parsed answers under one policy.

    Args:
        percent: policy for a percent sign that only one side has (see VerifierConfig).
        decimal_digits: see VerifierConfig.
        leaf: decides two formulas; None means it cannot.
    """

    def __init__(self, percent: str, decimal_digits: int, leaf: Leaf) -> None:
        self.percent = percent
        self.decimal_digits = decimal_digits
        self.leaf = leaf

    def equal(self, gold: Node, answer: Node) -> bool | None:
        """Whether an answer equals the gold one; None when `leaf` could not tell."""
        if gold.text == answer.text or squeeze(gold.text) == squeeze(answer.text):
            return True
        if gold.exact is not None and answer.exact is not None:
            return self.exact_equal(gold.exact, answer.exact)
        if "quantity" in (gold.kind, answer.kind):
            return self._quantities(gold, answer)
        gold, answer = as_union(gold), as_union(answer)
        decided = self._relations(gold, answer)
        if decided is not NotImplemented:
            return decided
        if gold.kind == answer.kind == "choice":
            return _same_letter(gold.mark, answer.mark)
        if gold.kind in ("words", "choice") or answer.kind in ("words", "choice"):
            return self._words(gold, answer)
        if gold.kind == "base" or answer.kind == "base":
            return _bases(gold, answer)
        return self._structures(gold, answer)

    def exact_equal(self, gold: Exact, answer: Exact) -> bool:
        """Two exact numbers: never compared as floats."""
        if gold.percent != answer.percent:
            return self._one_percent(gold, answer)
        left, right = gold.value, answer.value
        if gold.unit and answer.unit and gold.unit != answer.unit:
            gold_scale, answer_scale = unit_scale(gold.unit), unit_scale(answer.unit)
            if gold_scale and answer_scale:
                if gold_scale[0] != answer_scale[0]:
                    return False
                left, right = left * gold_scale[1], right * answer_scale[1]
        return left == right or self._rounds_to(left, gold, right, answer)

    def _one_percent(self, gold: Exact, answer: Exact) -> bool:
        with_sign, without = (gold, answer) if gold.percent else (answer, gold)
        same_number = with_sign.value == without.value or self._rounds_to(
            with_sign.value, with_sign, without.value, without
        )
        same_value = with_sign.value / 100 == without.value
        return {"either": same_number or same_value, "value": same_value, "number": same_number}[self.percent]

    def _rounds_to(self, left: Fraction, gold: Exact, right: Fraction, answer: Exact) -> bool:
        """Whether one is a decimal of enough digits and the other, no decimal, rounds to it."""
        if (gold.decimals < 0) == (answer.decimals < 0):
            return False
        decimal, decimals, exact = (
            (left, gold.decimals, right) if gold.decimals >= 0 else (right, answer.decimals, left)
        )
        return rounds_to(exact, decimal, decimals, self.decimal_digits)

    def _quantities(self, gold: Node, answer: Node) -> bool | None:
        """Formulas of which at least one has a unit; a unit on one side only is ignored."""
        units = [
            node.mark if node.kind == "quantity" else node.exact.unit if node.exact else None
            for node in (gold, answer)
        ]
        if units[0] and units[1] and units[0] != units[1]:
            scales = unit_scale(units[0]), unit_scale(units[1])
            if scales[0] and scales[1]:
                return False
        return self.equal(*(node.items[0] if node.kind == "quantity" else node for node in (gold, answer)))

    def _words(self, gold: Node, answer: Node) -> bool | None:
        if {gold.kind, answer.kind} == {"words", "choice"} or gold.kind == answer.kind:
            if (
                _is_product(gold.text)
                and _is_product(answer.text)
                and sorted(gold.text) == sorted(answer.text)
            ):
                return self.leaf(gold.text, answer.text)
            return bool(gold.mark) and gold.mark.casefold() == answer.mark.casefold()
        other = answer if gold.kind in ("words", "choice") else gold
        if other.kind in ("exact", "base", "interval", "list", "matrix", "union", "ratio"):
            return False
        if gold.kind == "words" and answer.kind == "formula":
            return words_of(answer.text) == gold.mark
        return self.leaf(gold.text, answer.text)

    # ------------------------------------------------------------------ relations and assignments

    def _relations(self, gold: Node, answer: Node) -> bool | None:
        if gold.kind != "relation" and answer.kind != "relation":
            return NotImplemented
        if gold.kind == "relation" and answer.kind == "relation":
            return self._two_relations(gold, answer)
        if answer.kind == "relation":
            value = value_side(answer, strict=False)
            return self.equal(gold, value) if value is not None else self._range(answer, gold, swap=True)
        value = value_side(gold, strict=True)
        return self.equal(value, answer) if value is not None else self._range(gold, answer, swap=False)

    def _range(self, relation: Node, other: Node, swap: bool) -> bool | None:
        """An inequality against an interval."""
        interval = as_interval(relation)
        if interval is not None and other.kind in ("interval", "union"):
            return self.equal(other, interval) if swap else self.equal(interval, other)
        if other.kind in ("exact", "base", "words", "choice", "ratio"):
            return False
        gold, answer = (other, relation) if swap else (relation, other)
        return self.leaf(gold.text, answer.text)

    def _two_relations(self, gold: Node, answer: Node) -> bool | None:
        gold_value, answer_value = value_side(gold, strict=True), value_side(answer, strict=True)
        if gold_value is not None and answer_value is not None:
            gold_name, answer_name = assigned_name(gold), assigned_name(answer)
            if gold_name == answer_name or not gold_name or not answer_name:
                return self.equal(gold_value, answer_value)
            return self.equal(gold_value, answer_value) if may_be_renamed(gold_name, answer_name) else False
        left, right = as_interval(gold), as_interval(answer)
        if left is not None and right is not None and self.equal(left, right):
            return range_name(gold) == range_name(answer)
        return self.leaf(gold.text, answer.text)

    # ------------------------------------------------------------------ structures

    def _structures(self, gold: Node, answer: Node) -> bool | None:
        kinds = gold.kind, answer.kind
        if "matrix" in kinds and kinds[0] != kinds[1]:
            return self._matrix_and_vector(gold, answer)
        if kinds == ("matrix", "matrix"):
            if len(gold.items) != len(answer.items) or (gold.mark == "") != (answer.mark == ""):
                return False
            return _all(
                self._ordered(left.items, right.items)
                for left, right in zip(gold.items, answer.items, strict=True)
            )
        if kinds == ("interval", "interval"):
            return self._ordered(gold.items, answer.items) if gold.mark == answer.mark else False
        if kinds in (("union", "union"), ("set", "set"), ("set", "list"), ("list", "set")):
            return self._unordered(_distinct(gold.items), _distinct(answer.items))
        if kinds == ("list", "list"):
            return self._lists(gold.items, answer.items)
        if set(kinds) == {"list", "interval"}:
            bracketed = gold if gold.kind == "interval" else answer
            return (
                self._ordered(bare_values(gold.items), bare_values(answer.items))
                if bracketed.mark == "()"
                else False
            )
        if kinds == ("ratio", "ratio"):
            return self._ratios(gold, answer)
        return self._mixed(gold, answer)

    def _mixed(self, gold: Node, answer: Node) -> bool | None:
        kinds = {gold.kind, answer.kind}
        if "set" in kinds:
            whole, single = (gold, answer) if gold.kind == "set" else (answer, gold)
            if single.kind in ("interval", "union", "ratio"):
                return False
            if len(whole.items) == 1:
                return (
                    self.equal(whole.items[0], single)
                    if whole is gold
                    else self.equal(single, whole.items[0])
                )
            if single.kind == "exact":
                return False
        if kinds == {"list", "exact"}:
            number, several = (gold, answer) if gold.kind == "exact" else (answer, gold)
            return _comma_decimal(several, number)
        if kinds & {"list", "interval", "union"} and kinds & {"exact", "ratio"}:
            return False
        if kinds == {"ratio", "exact"}:
            ratio, number = (gold, answer) if gold.kind == "ratio" else (answer, gold)
            return _ratio_value(ratio, number)
        return self.leaf(gold.text, answer.text)

    def _matrix_and_vector(self, gold: Node, answer: Node) -> bool | None:
        """A column or row against a tuple of its entries."""
        matrix, other = (gold, answer) if gold.kind == "matrix" else (answer, gold)
        if other.kind in ("exact", "set", "union", "list", "ratio") and not matrix.mark:
            return False
        if other.kind != "interval" or matrix.mark:
            return self.leaf(gold.text, answer.text)
        entries = tuple(cell for row in matrix.items for cell in row.items)
        if min(len(matrix.items), len(matrix.items[0].items)) != 1 or other.mark != "()":
            return False
        return self._ordered(entries, other.items) if matrix is gold else self._ordered(other.items, entries)

    def _lists(self, gold: tuple[Node, ...], answer: tuple[Node, ...]) -> bool | None:
        gold_names, answer_names = (
            [assigned_name(node) for node in gold],
            [assigned_name(node) for node in answer],
        )
        if all(gold_names) and all(answer_names):
            return self._unordered(gold, answer)
        if len(set(filter(None, gold_names))) > 1 or len(set(filter(None, answer_names))) > 1:
            return self._ordered(bare_values(gold), bare_values(answer))
        return self._unordered(_distinct(bare_values(gold)), _distinct(bare_values(answer)))

    def _ratios(self, gold: Node, answer: Node) -> bool | None:
        if len(gold.items) == len(answer.items) and not _clock(gold) and not _clock(answer):
            left = [item.exact.value for item in gold.items if item.exact is not None]
            right = [item.exact.value for item in answer.items if item.exact is not None]
            if len(left) == len(right) == len(gold.items) and all(left) and all(right):
                return len({a / b for a, b in zip(left, right, strict=True)}) == 1
        return self._ordered(gold.items, answer.items)

    def _ordered(self, gold: tuple[Node, ...], answer: tuple[Node, ...]) -> bool | None:
        if len(gold) != len(answer):
            return False
        return _all(self.equal(left, right) for left, right in zip(gold, answer, strict=True))

    def _unordered(self, gold: tuple[Node, ...], answer: tuple[Node, ...]) -> bool | None:
        if len(gold) != len(answer):
            return False
        if len(gold) > _MAX_UNORDERED:
            gold, answer = _sorted(gold), _sorted(answer)
            return self._ordered(gold, answer)
        left, unknown = list(answer), False
        for item in gold:
            verdicts = [(self.equal(item, candidate), candidate) for candidate in left]
            match = next((candidate for verdict, candidate in verdicts if verdict), None)
            if match is not None:
                left.remove(match)
            elif any(verdict is None for verdict, _ in verdicts):
                unknown = True
            else:
                return False
        return None if unknown else True


# ---------------------------------------------------------------------- helpers


def squeeze(text: str) -> str:
    """A text without the spaces and text wrappers that carry no meaning."""
    if "\\text" in text:
        text = re.sub(r"\\text\s*\{([^{}]*)\}", r" \1 ", text)
    text = re.sub(r"(?<=\d)\s+(?=\d)", "_", re.sub(r"\s+", " ", text.strip()))
    return re.sub(r"\s+(?![a-zA-Z])|(?<![a-zA-Z])\s+", "", text)


def rounds_to(exact: Fraction, decimal: Fraction, decimals: int, digits: int) -> bool:
    """Whether `decimal`, written with `decimals` digits after the point, is `exact` rounded or cut there."""
    if decimals < digits or len(str(abs(decimal.numerator))) < 4:
        return False
    return abs(exact - decimal) < Fraction(1, 10**decimals)


def words_of(text: str) -> str:
    """The words of a formula that is made of letters only, as the symbolic parser would not read them."""
    return " ".join(re.findall(r"[a-z0-9]+", re.sub(r"\\text|[{}]", " ", text).casefold()))


def _is_product(text: str) -> bool:
    return len(text) <= 4 and text.isascii() and text.isalpha() and text.islower()


def _same_letter(gold: str, answer: str) -> bool:
    return gold == answer or (gold.upper() == answer.upper() and gold.upper() in "ABCDE")


def _bases(gold: Node, answer: Node) -> bool:
    if gold.kind == answer.kind:
        return gold.mark == answer.mark
    based, other = (gold, answer) if gold.kind == "base" else (answer, gold)
    digits, base = based.mark.split("_")
    return base == "10" and other.exact is not None and other.exact.value == int(digits)


def _all(verdicts: Iterable[bool | None]) -> bool | None:
    unknown = False
    for verdict in verdicts:
        if verdict is False:
            return False
        unknown = unknown or verdict is None
    return None if unknown else True


def _distinct(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    seen: dict[object, Node] = {}
    for node in nodes:
        key = (node.exact.value, node.exact.percent) if node.exact is not None else squeeze(node.text)
        seen.setdefault(key, node)
    return tuple(seen.values())


def _sorted(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    return tuple(
        sorted(nodes, key=lambda node: (node.exact is None, node.exact.value if node.exact else 0, node.text))
    )


def _comma_decimal(several: Node, number: Node) -> bool:
    """`1,22` against `1.22`: a decimal comma, which alone reads as a list of two."""
    if not re.fullmatch(r"[+-]?\d+,\d+", several.text) or number.exact is None or number.exact.decimals < 0:
        return False
    return Fraction(several.text.replace(",", ".")) == number.exact.value


def _clock(node: Node) -> bool:
    parts = node.text.split(":")
    return (
        all(re.fullmatch(r"\s*\d{2}\s*", part) for part in parts[1:])
        and parts[0].strip().isdigit()
        and int(parts[0]) < 25
    )


def _ratio_value(ratio: Node, number: Node) -> bool:
    values = [item.exact.value for item in ratio.items if item.exact is not None]
    if len(values) != 2 or len(ratio.items) != 2 or not values[1] or number.exact is None or _clock(ratio):
        return False
    return values[0] / values[1] == number.exact.value and number.exact.value.denominator != 1

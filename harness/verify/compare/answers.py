"""Three-valued comparison of two answers: equal, different, or not decidable without computer algebra.

Structure (lists, tuples, sets, intervals, matrices, assignments) is compared here, part by part; a pair of formulas goes to
`leaf`. In the parent process `leaf` answers None, which sends the whole pair to a worker.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from fractions import Fraction

from harness.verify.compare import quantities
from harness.verify.read import relations, wording
from harness.verify.read.nodes import Node
from harness.verify.read.numbers import DECIMAL_DIGITS
from harness.verify.read.real_sets import same_real_set
from harness.verify.read.units import split_unit

Leaf = Callable[[str, str], bool | None]
_MAX_UNORDERED = 64


class AnswerComparison:
    """Compares parsed answers under one policy.

    Args:
        percent: policy for a percent sign that only one side has (see VerifierConfig).
        leaf: decides two formulas; None means it cannot.
    """

    def __init__(self, percent: str, leaf: Leaf) -> None:
        self.percent = percent
        self.leaf = leaf

    def equal(self, gold: Node, answer: Node) -> bool | None:
        """Return whether an answer equals the gold one; None when `leaf` could not tell."""
        if gold.text == answer.text or wording.squeeze(gold.text) == wording.squeeze(answer.text):
            return True
        if gold.exact is not None and answer.exact is not None:
            return quantities.exact_equal(gold.exact, answer.exact, self.percent)
        if wording.reads_the_same(gold.text, answer.text):
            return True
        for rewritten in (relations.one_condition, relations.without_constant):
            if (pair := rewritten(gold, answer)) is not None:
                return self.equal(*pair)
        if (
            r"\mod" in gold.text + answer.text
            and (congruent := quantities.same_congruence(gold, answer)) is not None
        ):
            return congruent
        if "quantity" in (gold.kind, answer.kind):
            return self._quantities(gold, answer)
        if (same_set := same_real_set(gold, answer)) is not None and not _rounded(gold, answer):
            return same_set
        gold, answer = _by_components(relations.as_union(gold), relations.as_union(answer))
        decided = self._relations(gold, answer)
        if decided is not NotImplemented:
            return decided
        return self._by_kind(gold, answer)

    def _by_kind(self, gold: Node, answer: Node) -> bool | None:
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
            return quantities.same_time(gold, answer)
        return self._structures(gold, answer)

    def _quantities(self, gold: Node, answer: Node) -> bool | None:
        """Formulas of which at least one has a unit; a unit on one side only is ignored."""
        units = [
            node.mark if node.kind == "quantity" else node.exact.unit if node.exact else None
            for node in (gold, answer)
        ]
        left, right = (node.items[0] if node.kind == "quantity" else node for node in (gold, answer))
        if set(units) in ({"degree", "radian"}, {"degree", "rad"}) and (turned := _radians(left, right)):
            return self.leaf(*turned)
        if units[0] and units[1] and units[0] != units[1]:
            scale = quantities.scale_between(units[0], units[1])
            if scale is not None and scale != 1:
                bare = [split_unit(node.text)[0] for node in (left, right)]
                return self.leaf(f"({bare[0]}) \\cdot {scale}", bare[1]) if scale else False
        return self.equal(left, right)

    def _choices(self, gold: Node, answer: Node) -> bool | None:
        """Choices of which one at least has its text beside its letter: the text counts when only one has a letter."""
        if gold.kind == answer.kind and gold.mark in "ABCDEFGHIJ" and answer.mark in "ABCDEFGHIJ":
            return gold.mark == answer.mark
        left = gold.items[0] if gold.kind == "choice" and gold.items else gold
        right = answer.items[0] if answer.kind == "choice" and answer.items else answer
        return self.equal(left, right)

    def _words(self, gold: Node, answer: Node) -> bool | None:
        if {gold.kind, answer.kind} == {"words", "choice"} or gold.kind == answer.kind:
            letters = _is_product(gold.text) and _is_product(answer.text)
            if letters and sorted(gold.text) == sorted(answer.text):
                return self.leaf(gold.text, answer.text)
            if gold.mark in wording.VERDICTS and (said := wording.opening_verdict(answer.text)) is not None:
                return said == gold.mark
            return bool(gold.mark) and wording.without_subject(gold.mark) == wording.without_subject(
                answer.mark
            )
        other = answer if gold.kind in ("words", "choice") else gold
        if (said := wording.opening_verdict(answer.text)) is not None and gold.mark in wording.VERDICTS:
            return said == gold.mark
        if "e" in (gold.text, answer.text) and other.kind == "exact":
            return self.leaf(gold.text, answer.text)
        if other.kind in ("exact", "base", "interval", "list", "matrix", "union", "ratio"):
            return False
        if gold.kind == "words" and answer.kind == "formula" and not _is_product(gold.text):
            return wording.words_of(answer.text) == gold.mark
        return self.leaf(gold.text, answer.text)

    def _relations(self, gold: Node, answer: Node) -> bool | None:
        if gold.kind != "relation" and answer.kind != "relation":
            return NotImplemented
        if gold.kind == answer.kind:
            return self._two_relations(gold, answer)
        value = relations.value_side(
            answer if answer.kind == "relation" else gold, strict=gold.kind == "relation"
        )
        if value is None:
            return self._range(gold, answer)
        return self.equal(gold, value) if answer.kind == "relation" else self.equal(value, answer)

    def _range(self, gold: Node, answer: Node) -> bool | None:
        """Compare an inequality with an interval."""
        relation, other = (gold, answer) if gold.kind == "relation" else (answer, gold)
        interval = relations.as_interval(relation)
        if interval is not None and other.kind in ("interval", "union"):
            return self.equal(other, interval) if relation is answer else self.equal(interval, other)
        if other.kind in ("exact", "base", "words", "choice", "ratio"):
            return False
        return self.leaf(gold.text, answer.text)

    def _two_relations(self, gold: Node, answer: Node) -> bool | None:
        gold, answer = relations.ascending(gold), relations.ascending(answer)
        gold_value, answer_value = (
            relations.value_side(gold, strict=True),
            relations.value_side(answer, strict=True),
        )
        if gold_value is not None and answer_value is not None:
            gold_name, answer_name = relations.assigned_name(gold), relations.assigned_name(answer)
            named = gold_name and answer_name and gold_name != answer_name
            if named and not relations.may_be_renamed(gold_name, answer_name):
                return False
            return self.equal(gold_value, answer_value)
        left = gold_value if gold.mark == r"\in" else relations.as_interval(gold)
        right = answer_value if answer.mark == r"\in" else relations.as_interval(answer)
        if left is not None and right is not None and self.equal(left, right):
            return relations.range_name(gold) == relations.range_name(answer)
        return self.leaf(gold.text, answer.text)

    def _structures(self, gold: Node, answer: Node) -> bool | None:
        kinds = gold.kind, answer.kind
        if "matrix" in kinds:
            return self._matrices(gold, answer)
        if kinds == ("cases", "cases"):
            return self._unordered(gold.items, answer.items)
        if kinds in (("row", "row"), ("interval", "interval")):
            return self._ordered(gold.items, answer.items) if gold.mark == answer.mark else False
        if kinds == ("union", "union"):
            return self._unordered(_distinct(gold.items), _distinct(answer.items))
        if set(kinds) <= {"set", "list"}:
            return self._lists(gold.items, answer.items)
        if set(kinds) == {"list", "interval"}:
            bracketed = gold if gold.kind == "interval" else answer
            ordered = self._ordered(relations.bare_values(gold.items), relations.bare_values(answer.items))
            return ordered if bracketed.mark == "()" else False
        if kinds == ("ratio", "ratio"):
            same = quantities.same_ratio(gold, answer)
            return self._ordered(gold.items, answer.items) if same is None else same
        return self._mixed(gold, answer)

    def _mixed(self, gold: Node, answer: Node) -> bool | None:
        kinds = {gold.kind, answer.kind}
        if "set" in kinds:
            whole, single = (gold, answer) if gold.kind == "set" else (answer, gold)
            if single.kind in ("interval", "union", "ratio"):
                return False
            if len(whole.items) == 1:
                left, right = (node.items[0] if node is whole else node for node in (gold, answer))
                return self.equal(left, right)
            if single.kind == "exact":
                return False
        if kinds == {"list", "exact"}:
            number, several = (gold, answer) if gold.kind == "exact" else (answer, gold)
            assert number.exact is not None
            return quantities.written_with_commas(several.text, number.exact, self.percent)
        if (turned := _radians(gold, answer)) is not None:
            return self.leaf(*turned)
        if kinds & {"list", "interval", "union", "cases"} and kinds & {"exact", "ratio"}:
            return False
        if kinds == {"ratio", "exact"}:
            ratio, number = (gold, answer) if gold.kind == "ratio" else (answer, gold)
            return quantities.ratio_is_number(ratio, number)
        return self.leaf(_formula_text(gold), _formula_text(answer))

    def _matrices(self, gold: Node, answer: Node) -> bool | None:
        """Two matrices, or a column or row against a tuple of its entries."""
        if gold.kind == answer.kind:
            if len(gold.items) != len(answer.items) or (gold.mark == "") != (answer.mark == ""):
                return False
            return _all(self.equal(left, right) for left, right in zip(gold.items, answer.items, strict=True))
        matrix, other = (gold, answer) if gold.kind == "matrix" else (answer, gold)
        if other.kind in ("exact", "set", "union", "list", "ratio") and not matrix.mark:
            return False
        if (rows := relations.as_rows(other)) is not None:
            return self._matrices(matrix, rows) if matrix is gold else self._matrices(rows, matrix)
        if other.kind != "interval" or matrix.mark:
            return self.leaf(gold.text, answer.text)
        entries = tuple(cell for row in matrix.items for cell in row.items)
        if min(len(matrix.items), len(matrix.items[0].items)) != 1 or other.mark != "()":
            return False
        return self._ordered(entries, other.items) if matrix is gold else self._ordered(other.items, entries)

    def _lists(self, gold: tuple[Node, ...], answer: tuple[Node, ...]) -> bool | None:
        """Lists and sets: by name where the items have names, else in any order and whatever is said twice."""
        gold_names = [relations.assigned_name(node) for node in gold]
        answer_names = [relations.assigned_name(node) for node in answer]
        if all(gold_names) and all(answer_names):
            if sorted(gold_names) != sorted(answer_names):
                return self._unordered(gold, answer)
            by_name = dict(zip(answer_names, answer, strict=True))
            if len(by_name) == len(answer):
                pairs = zip(gold_names, gold, strict=True)
                return _all(self.equal(node, by_name[name]) for name, node in pairs)
        if _of_two_things(gold_names, answer_names):
            return False
        if len(set(filter(None, gold_names))) > 1 or len(set(filter(None, answer_names))) > 1:
            return self._ordered(relations.bare_values(gold), relations.bare_values(answer))
        return self._unordered(
            _distinct(relations.bare_values(gold)), _distinct(relations.bare_values(answer))
        )

    def _ordered(self, gold: tuple[Node, ...], answer: tuple[Node, ...]) -> bool | None:
        if len(gold) != len(answer):
            return False
        return _all(self.equal(left, right) for left, right in zip(gold, answer, strict=True))

    def _unordered(self, gold: tuple[Node, ...], answer: tuple[Node, ...]) -> bool | None:
        if len(gold) != len(answer):
            return False
        if len(gold) > _MAX_UNORDERED:
            return self._ordered(tuple(sorted(gold, key=_rank)), tuple(sorted(answer, key=_rank)))
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


def _rounded(gold: Node, answer: Node) -> bool:
    """Return whether a bound may be a rounded decimal, which is judged bound by bound."""
    decimals = re.findall(r"\.(\d+)", f"{gold.text} {answer.text}")
    return any(len(digits) >= DECIMAL_DIGITS for digits in decimals)


def _radians(gold: Node, answer: Node) -> tuple[str, str] | None:
    r"""An angle in degrees against a formula with `\pi`: both in radians."""
    for degrees, other, gold_first in ((gold, answer, True), (answer, gold, False)):
        exact = degrees.exact
        if exact is not None and exact.unit == "degree" and other.kind == "formula" and r"\pi" in other.text:
            radians = rf"\frac{{{exact.value.numerator}\pi}}{{{180 * exact.value.denominator}}}"
            return (radians, other.text) if gold_first else (other.text, radians)
    return None


def _by_components(gold: Node, answer: Node) -> tuple[Node, Node]:
    """The two answers, with `(p, q) = (7, 2)` by components where the other one is a list or is named by components as well."""
    left, right = relations.by_component(gold), relations.by_component(answer)
    return (
        left if left is not None and (right is not None or answer.kind == "list") else gold,
        right if right is not None and (left is not None or gold.kind == "list") else answer,
    )


def _of_two_things(gold: list[str], answer: list[str]) -> bool:
    """Return whether each list is about one name and the names are of two things: `n = 2, 3` and `w = 2, 3`."""
    names = set(filter(None, gold)), set(filter(None, answer))
    if len(names[0]) != 1 or len(names[1]) != 1 or names[0] == names[1]:
        return False
    return not relations.may_be_renamed(*names[0], *names[1])


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
        key = (node.exact.value, node.exact.percent) if node.exact is not None else wording.squeeze(node.text)
        seen.setdefault(key, node)
    return tuple(seen.values())


def _rank(node: Node) -> tuple[bool, Fraction | int, str]:
    return node.exact is None, node.exact.value if node.exact else 0, node.text

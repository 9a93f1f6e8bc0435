r"""Sets of real numbers by their cuts, so that one set is recognised in all of its notations.

`(-\infty, 0) \cup (0, \infty)`, `x \ne 0`, `|x| > 0` and `\mathbb{R} \setminus \{0\}` are one set. Read are intervals, finite
sets, inequalities in one name (or in its absolute value), `\mathbb{R}`, and their unions, intersections and differences, as
long as every bound is a constant that `formulas` can evaluate.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from decimal import Decimal
from functools import reduce
from typing import NamedTuple

from harness.verify.read.formulas import Number, as_decimal, constant, negated, same_number
from harness.verify.read.nodes import Node, parse_node, split_at, strip_parentheses
from harness.verify.read.relations import as_interval, is_name, may_be_renamed, range_name

_INFINITY = Decimal("Infinity")
_OPERATOR = re.compile(r"\\(?:cup|cap|setminus|backslash)(?![a-zA-Z])")
_MODULUS = re.compile(r"\|([^|]*)\|")
_REALS = re.compile(r"\\mathbb\s*\{?\s*R\s*\}?")
_MOST_PARTS = 40


class RealSet(NamedTuple):
    """A set of real numbers.

    Attributes:
        cuts: the numbers at which it begins or ends, rising.
        inside: whether the numbers before the first cut belong to it, the first cut, those up to the next cut, and so on.
        name: the name the set was said of: `x` for `x > 3`; empty when it was named by nothing.
        plain: whether the text alone could as well be a point, a list or a tuple.
    """

    cuts: tuple[Number, ...]
    inside: tuple[bool, ...]
    name: str = ""
    plain: bool = False


_ALL, _NONE = RealSet((), (True,)), RealSet((), (False,))
_NOT_NEGATIVE = RealSet((Decimal(0),), (False, True, True))


def same_real_set(gold: Node, answer: Node) -> bool | None:
    """Return whether two nodes are one set of reals, None when either is none or neither is surely one."""
    if not (_surely_a_set(gold) or _surely_a_set(answer)):
        return None
    left = _real_set(gold)
    right = _real_set(answer) if left is not None else None
    if left is None or right is None or (left.plain and right.plain):
        return None
    if left.name and right.name and left.name != right.name and not may_be_renamed(left.name, right.name):
        return False
    return left.inside == right.inside and all(map(same_number, left.cuts, right.cuts))


def _surely_a_set(node: Node) -> bool:
    """Return whether a node, should it be a set of reals, can be nothing else: `[1, 2)` is none but a set, `(1, 2)` may be a point."""
    if node.kind == "interval":
        return node.mark in ("(]", "[)")
    if node.kind == "list":
        return all(item.kind == "relation" for item in node.items)
    if node.kind == "relation":
        return node.mark != "="
    return node.kind == "union" or (node.kind == "formula" and "\\" in node.text)


def _real_set(node: Node) -> RealSet | None:
    """Return the set a node writes, or None."""
    if node.kind == "interval":
        found = _interval(node)
        return found and found._replace(plain=node.mark in ("()", "[]"))
    if node.kind == "set":
        values = [_bound(item) for item in node.items]
        if len(values) > _MOST_PARTS or any(value is None or _infinite(value) for value in values):
            return None
        points = (RealSet((value,), (False, True, False)) for value in values if value is not None)
        return reduce(_union, points, _NONE)._replace(plain=True)
    if node.kind == "relation":
        return _relation(node)
    if node.kind == "list":
        return _conditions(node)
    if _REALS.fullmatch(node.text):
        return _ALL
    return _algebra(node.text) if node.kind in ("union", "formula") else None


def _algebra(text: str) -> RealSet | None:
    """Return what operands joined by set operations come to: from the left, intersections first."""
    if not _OPERATOR.search(text) or len(text) > 400:
        return None
    parts, operators = split_at(text, _OPERATOR)
    if not operators or len(parts) > _MOST_PARTS:
        return None
    operands = [_real_set(parse_node(strip_parentheses(part.strip()))) for part in parts]
    sets = [operand for operand in operands if operand is not None and not operand.name]
    if len(sets) != len(parts):
        return None
    terms, joints = sets[:1], []
    for sign, operand in zip(operators, sets[1:], strict=True):
        if sign == r"\cap":
            terms[-1] = _meet(terms[-1], operand)
        else:
            terms.append(operand)
            joints.append(operator.or_ if sign == r"\cup" else operator.gt)
    total = terms[0]
    for joint, term in zip(joints, terms[1:], strict=True):
        total = _combined(total, term, joint)
    return total._replace(plain=False)


def _interval(node: Node) -> RealSet | None:
    if len(node.items) != 2:
        return None
    low, high = _bound(node.items[0]), _bound(node.items[1])
    if low is None or high is None:
        return None
    if same_number(low, high):
        return RealSet((low,), (False, True, False)) if node.mark == "[]" and not _infinite(low) else None
    if as_decimal(low) > as_decimal(high):
        return None
    begins = () if _infinite(low) else (False, node.mark[0] == "[")
    ends = () if _infinite(high) else (node.mark[1] == "]", False)
    return RealSet(tuple(cut for cut in (low, high) if not _infinite(cut)), (*begins, True, *ends))


def _relation(node: Node) -> RealSet | None:
    if node.mark == r"\in":
        inside = _real_set(node.items[1]) if is_name(node.items[0].text) else None
        return inside and inside._replace(name=range_name(node), plain=False)
    bounded = [item.text for item in node.items if "|" in item.text]
    modulus = _MODULUS.fullmatch(bounded[0]) if len(bounded) == 1 else None
    if modulus is not None and is_name(modulus[1].strip()):
        name = parse_node(modulus[1].strip())
        items = tuple(name if "|" in item.text else item for item in node.items)
        inside = _relation(Node("relation", node.text, items, mark=node.mark))
        if inside is None:
            return None
        positive = _meet(inside, _NOT_NEGATIVE)
        mirrored = RealSet(tuple(map(negated, reversed(positive.cuts))), positive.inside[::-1])
        return _union(positive, mirrored)._replace(name=inside.name)
    said_of = re.sub(r"\s", "", range_name(node))
    if node.mark == r"\ne" and said_of and not is_name(node.items[1].text):
        value = _bound(node.items[1])
        return None if value is None or _infinite(value) else RealSet((value,), (True, False, True), said_of)
    interval = as_interval(node)
    pieces = _interval(interval) if interval is not None else None
    return pieces and pieces._replace(name=said_of)


def _conditions(node: Node) -> RealSet | None:
    """Return the set of `x < 1 or x > 3`: a union, unless it says `and`, excludes a point, or a union would be everything."""
    if any(item.kind != "relation" for item in node.items):
        return None
    found = [part for part in map(_real_set, node.items) if part is not None]
    if len(found) != len(node.items) or len({part.name for part in found}) != 1:
        return None
    united, said_or = reduce(_union, found), re.search(r"\bor\b", node.text) is not None
    both = any(item.mark == r"\ne" for item in node.items) or (
        not said_or and (re.search(r"\band\b", node.text) is not None or united.inside == _ALL.inside)
    )
    return (reduce(_meet, found) if both else united)._replace(name=found[0].name)


def _bound(node: Node) -> Number | None:
    text = node.text.replace(" ", "")
    if text in (r"\infty", r"+\infty"):
        return _INFINITY
    if text == r"-\infty":
        return -_INFINITY
    if node.exact is not None:
        return node.exact.value if not node.exact.percent and node.exact.unit is None else None
    return constant(node.text) if node.kind == "formula" else None


def _infinite(value: Number | None) -> bool:
    return isinstance(value, Decimal) and value.is_infinite()


def _union(left: RealSet, right: RealSet) -> RealSet:
    return _combined(left, right, operator.or_)


def _meet(left: RealSet, right: RealSet) -> RealSet:
    return _combined(left, right, operator.and_)


def _combined(left: RealSet, right: RealSet, belongs: Callable[[bool, bool], bool]) -> RealSet:
    """Return the set of the numbers of which `belongs` says so, given whether the two sets have them."""
    cuts: list[Number] = []
    for cut in sorted((*left.cuts, *right.cuts), key=as_decimal):
        if not cuts or not same_number(cuts[-1], cut):
            cuts.append(cut)
    inside = [*map(belongs, _at(left, cuts), _at(right, cuts))]
    real = [at for at in range(len(cuts)) if len(set(inside[2 * at : 2 * at + 3])) > 1]
    around = (flag for at in real for flag in inside[2 * at : 2 * at + 2])
    return RealSet(tuple(cuts[at] for at in real), (*around, inside[-1]))


def _at(part: RealSet, cuts: list[Number]) -> list[bool]:
    """Return what of a set is inside at cuts that hold its own and others."""
    inside, own = [], 0
    for cut in cuts:
        is_own = own < len(part.cuts) and same_number(part.cuts[own], cut)
        inside += [part.inside[2 * own], part.inside[2 * own + is_own]]
        own += is_own
    return [*inside, part.inside[2 * own]]

r"""Sets of real numbers: intervals, inequalities of one unknown, and what joins them.

`x>0 and x<1`, `0<x<1`, `x \in (0,1)` and `(0,1)` are one set, and so are `|x|>1`, `x<-1 or x>1` and `(-\infty,-1)\cup(1,\infty)`. Two sets
are equal when the same numbers belong to them: the ends of both, and numbers between and beyond these.
"""

from fractions import Fraction
from functools import cmp_to_key
from itertools import pairwise

from harness.verify.read.expressions import names_of
from harness.verify.read.grammar import Node
from harness.verify.read.values import Number, as_real, is_real, numbers_equal, value

# Which orders of two numbers (below, equal, above) each sign allows.
_ALLOWED = {"<": (-1,), ">": (1,), r"\le": (-1, 0), r"\ge": (0, 1), r"\ne": (-1, 1)}


class _NoSet(Exception):
    """A node that is no set of real numbers, or one that is not read here."""


def same_set(gold: Node, answer: Node) -> bool | None:
    """Return whether two nodes are one set, said of one unknown; None where either is none."""
    try:
        ends, names = set[Number](), (set[str](), set[str]())
        for node, own in zip((gold, answer), names, strict=True):
            _survey(node, ends, own)
        if max(map(len, names)) > 1:
            return None
        return len(set.union(*names)) < 2 and all(_contains(gold, x) == _contains(answer, x) for x in _probes(ends))
    except _NoSet:
        return None


def _survey(node: Node, ends: set[Number], names: set[str]) -> None:
    """Collect the numbers at which a set may begin or end, and the unknowns it is said of. Raises `_NoSet`."""
    if node.kind == "relation" and node.mark != r"\in":
        _survey_bounds(node, ends, names)
    elif node.kind in ("relation", "union", "list"):
        if node.kind == "relation" and node.items[0].tree is not None:
            names.update(names_of(node.items[0].tree))
        elif node.kind == "list" and any(item.kind != "relation" for item in node.items):
            raise _NoSet
        for item in node.items[node.kind == "relation" :]:
            _survey(item, ends, names)
    elif node.kind == "set" or (node.kind == "bracket" and len(node.items) == 2):
        ends.update(map(_number, node.items))
    elif node.text != r"\mathbb{R}":
        raise _NoSet


def _survey_bounds(node: Node, ends: set[Number], names: set[str]) -> None:
    """Collect the bounds of `0 < x < 1` and of `|x-2| < 1`; what is left to solve is no set."""
    if any(sign not in _ALLOWED for sign in node.mark.split()):
        raise _NoSet
    bounds = [_number(item) for item in node.items if item.number is not None]
    for tree in (item.tree or ("none",) for item in node.items if item.number is None):
        is_modulus = tree[:2] == ("call", "abs") and tree[2][0] in ("name", "+", "-")
        inside = tree[2] if is_modulus else tree
        name = inside[1] if is_modulus and inside[0] != "name" else inside
        if name[0] != "name" or names_of(tree) != [name[1]]:
            raise _NoSet
        names.add(name[1])
        middle = value(inside, {name[1]: Fraction(0)}) if is_modulus else Fraction(0)  # of `|x-2|`: -2
        bounds += [sign * bound - middle for bound in bounds for sign in (1, -1)] if is_modulus else []
    ends.update(bounds)


def _probes(ends: set[Number]) -> list[Number]:
    """The ends, numbers between them, and one beyond them on each side."""
    finite = sorted((end for end in ends if abs(as_real(end)) < 10**30), key=cmp_to_key(_order)) or [Fraction(0)]
    between = [(as_real(a) + as_real(b)) / 2 for a, b in pairwise(finite) if _order(a, b)]
    return [*finite, *between, as_real(finite[0]) - 1, as_real(finite[-1]) + 1]


def _order(a: Number, b: Number) -> int:
    return 0 if numbers_equal(a, b) else -1 if as_real(a) < as_real(b) else 1


def _contains(node: Node, x: Number) -> bool:
    if node.kind == "relation" and node.mark == r"\in":
        return _contains(node.items[1], x)
    if node.kind == "relation":
        trees = [item.tree for item in node.items if item.tree is not None]
        sides = pairwise(value(tree, dict.fromkeys(names_of(tree), x)) for tree in trees)
        return all(_order(a, b) in _ALLOWED[sign] for sign, (a, b) in zip(node.mark.split(), sides, strict=False))
    if node.kind == "list":
        parts = [_contains(item, x) for item in node.items]
        return any(parts) if node.mark == "or" else all(parts)
    if node.kind == "union":
        inside = _contains(node.items[0], x)
        for sign, item in zip(node.mark.split(), node.items[1:], strict=True):
            inside = (inside or _contains(item, x)) if sign == r"\cup" else (inside and not _contains(item, x))
        return inside
    if node.kind == "bracket":
        low, high = (_order(x, _number(item)) for item in node.items)
        return low >= (node.mark[0] == "(") and high <= -(node.mark[-1] == ")")
    return node.kind == "formula" or any(_order(x, _number(item)) == 0 for item in node.items)


def _number(node: Node) -> Number:
    number = node.number
    if number is None or node.kind != "formula" or node.percent or not is_real(number):
        raise _NoSet
    return number

r"""Sets of real numbers: intervals, inequalities of one unknown, and what joins them.

`x>0 and x<1`, `0<x<1`, `x \in (0,1)` and `(0,1)` are one set, and so are `|x|>1`, `x<-1 or x>1` and `(-\infty,-1)\cup(1,\infty)`. Two sets
are equal when the same numbers belong to them: the ends of both, and numbers between and beyond these.
"""

from fractions import Fraction
from functools import cmp_to_key
from itertools import pairwise

from harness.verify.read.expressions import names_of
from harness.verify.read.grammar import Node
from harness.verify.read.values import NoValue, Number, as_real, is_real, numbers_equal, value

# Which orders of two numbers (below, equal, above) each sign allows.
_REALS = r"\mathbb{R}"
_ALLOWED = {"=": (0,), "<": (-1,), ">": (1,), r"\le": (-1, 0), r"\ge": (0, 1), r"\ne": (-1, 1)}


def same_set(gold: Node, answer: Node) -> bool | None:
    """Return whether two nodes are one set, said of one unknown; None where either is none."""
    names = [{name for leaf in _leaves(node) for name in names_of(leaf.tree or ("none",))} for node in (gold, answer)]
    if max(map(len, names)) > 1:
        return None
    try:
        probes = _probes({*_ends(gold), *_ends(answer)})
        is_same = all(_contains(gold, x) == _contains(answer, x) for x in probes)
    except NoValue:
        return None
    return is_same and len(set.union(*names)) < 2


def _leaves(node: Node) -> list[Node]:
    return [leaf for item in node.items for leaf in _leaves(item)] if node.items else [node] * (node.text != _REALS)


def _ends(node: Node) -> list[Number]:
    """Return the numbers at which a set may begin or end. Raises `NoValue` where more than `x` or `|x|` is left to solve."""
    leaves = _leaves(node)
    trees = [leaf.tree for leaf in leaves if leaf.number is None and leaf.tree is not None]
    if any((tree[2] if tree[:2] == ("call", "abs") else tree)[0] != "name" for tree in trees):
        raise NoValue
    return [sign * _number(leaf) for leaf in leaves if leaf.number is not None for sign in (1, -1)]


def _probes(ends: set[Number]) -> list[Number]:
    """The ends, numbers between them, and one beyond them on each side."""
    finite = sorted((end for end in ends if abs(as_real(end)) < 10**30), key=cmp_to_key(_order)) or [Fraction(0)]
    between = [(as_real(a) + as_real(b)) / 2 for a, b in pairwise(finite) if _order(a, b)]
    return [*finite, *between, as_real(finite[0]) - 1, as_real(finite[-1]) + 1]


def _order(a: Number, b: Number) -> int:
    return 0 if numbers_equal(a, b) else -1 if as_real(a).real < as_real(b).real else 1


def _contains(node: Node, x: Number) -> bool:
    signs = node.mark.split()
    if node.kind == "relation" and signs != [r"\in"]:
        if any(item.tree is None for item in node.items) or any(sign not in _ALLOWED for sign in signs):
            raise NoValue
        sides = [value(item.tree, dict.fromkeys(names_of(item.tree), x)) for item in node.items if item.tree]
        return all(_order(a, b) in _ALLOWED[sign] for sign, (a, b) in zip(signs, pairwise(sides), strict=True))
    if node.kind == "bracket" and len(node.items) == 2:
        low, high = (_order(x, _number(item)) for item in node.items)
        return low >= (node.mark[0] == "(") and high <= -(node.mark[-1] == ")")
    if node.kind == "set":
        return any(_order(x, _number(item)) == 0 for item in node.items)
    if node.kind not in ("relation", "union", "list"):
        if node.text != _REALS:
            raise NoValue
        return True
    if node.kind == "list" and {item.kind for item in node.items} != {"relation"}:
        raise NoValue
    inside, *others = [_contains(item, x) for item in node.items[node.kind == "relation" :]]
    for sign, part in zip(signs if node.kind == "union" else signs * len(others), others, strict=False):
        inside = (inside or part) if sign in ("or", r"\cup") else (inside and part != (sign == r"\setminus"))
    return inside


def _number(node: Node) -> Number:
    number = node.number
    if number is None or node.kind != "formula" or node.percent or not is_real(number):
        raise NoValue
    return number

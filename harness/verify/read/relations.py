r"""Answers read as what they say: `x = 5` as the value 5, `1 < x \le 2` as the interval `(1, 2]`, `P(2, 3)` and `2i + 3j` as (2, 3)."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable
from decimal import Decimal
from functools import reduce
from typing import NamedTuple

from harness.verify.read.formulas import Number, as_decimal, constant, negated, same_number
from harness.verify.read.nodes import Node, parse_node, split_at, strip_parentheses

_NAME = re.compile(
    r"(?:_\s*\{?\d+\}?|\\(?:angle|triangle|overline|vec|mathbb|text|theta|alpha|beta|lambda|mu|phi|varphi|omega|frac|operatorname|min|max|deg|arg)"
    r"|[a-zA-Z](?![a-zA-Z]{5})|[_'|(){}:,\s]|\^\{?\\circ\}?|\^\{?(?:-1|\*|\\prime)\}?|(?<=[(,_])-?\d+(?=[),]))++"
)

_MULTIPLE = re.compile(
    r"[+-]?\d+(?:\.\d+)?\s*(?:[a-zA-Z](?:\s*_\s*\{?\w+\}?)?|\([a-z](?:\s*,\s*[a-z])+\))|[a-zA-Z]\s*\^\s*\{?\w+\}?"
)
_CONDITION = re.compile(
    r"(.*?[\d\\=].*?)\s*,?\s*\(?((?:\\text\s*\{\s*|\b)(?:for (?:all|any|every|each|some)|where|such that)\b.*"
    r"|(?<=[,(])\s*[a-z]\s*\\in\s*\\mathbb\s*\{[ZN]\}.*)"
)

_CONNECTING = frozenset(
    ("for", "all", "any", "every", "each", "some", "where", "such", "that", "is", "an", "a", "in", "with")
)
_CONSTANT = re.compile(r"(.*[^\s+])\s*\+\s*([cC])|([cC])\s*\+\s*(.*)", re.DOTALL)


def value_side(relation: Node, strict: bool) -> Node | None:
    """The value of `x = 5`, of `5 = x` and of a chain of equations, None for other relations.

    Args:
        relation: a node of kind `relation`.
        strict: whether the left side must be a name; else any left side that is not a multiple or a power of one name.
    """
    operators = relation.mark.split(" ")
    if relation.mark == r"\in":
        inner = relation.items[1]
        known = (
            inner.kind in ("interval", "set", "union", "list")
            or r"\cap" in inner.text
            or r"\setminus" in inner.text
        )
        return inner if known and is_name(relation.items[0].text) else None
    if operators[-1] in (r"\approx", r"\sim", r"\simeq") and all(op == "=" for op in operators[:-1]):
        named = len(operators) == 1 and is_name(relation.items[0].text)
        return relation.items[-1] if named else relation.items[-2]  # `\sqrt{2} \approx 1.41` says the root
    if any(operator != "=" for operator in operators) or _contradicts(relation):
        return None
    first, last = relation.items[0], relation.items[-1]
    if is_name(first.text):
        return last
    if len(operators) == 1 and is_name(last.text) and first.kind == "exact":
        return first
    if len(operators) > 1 and last.kind == "exact" and not re.search("[a-zA-Z]", first.text):
        return last
    if strict or re.match(r"-\s*[\\a-zA-Z]", first.text) or _MULTIPLE.fullmatch(first.text):
        return None
    return last if last.kind != "words" else None


def _contradicts(relation: Node) -> bool:
    """Return whether two sides of a chain of equations are different integers: `43 = 42` says neither."""
    exact = [item.exact for item in relation.items if item.exact is not None]
    integers = {
        number.value
        for number in exact
        if number.value.denominator == 1 and not number.percent and number.unit is None
    }
    return len(integers) > 1


def is_name(text: str) -> bool:
    r"""Return whether a text names a quantity: `x`, `f(x)`, `x_1`, `|AB|`, `(p, q)`, `\angle APC`."""
    return _NAME.fullmatch(text) is not None and re.search("[a-zA-Z]", text) is not None


def assigned_name(node: Node) -> str:
    """Name on the left of an assignment, empty for other nodes."""
    if node.kind != "relation" or node.mark.split(" ")[0] not in ("=", r"\approx", r"\in"):
        return ""
    for side in (node.items[0], node.items[-1]):
        if is_name(side.text):
            return re.sub(r"[\s{}]", "", side.text)
    return ""


def by_component(node: Node) -> Node | None:
    """`(p, q) = (7, 2)` as the list p = 7, q = 2; None for other nodes."""
    if node.kind != "relation" or node.mark != "=":
        return None
    names, values = node.items
    if names.kind != "interval" or values.kind != "interval" or names.mark != "()" or values.mark != "()":
        return None
    if len(names.items) != len(values.items) or not all(is_name(name.text) for name in names.items):
        return None
    parts = zip(names.items, values.items, strict=True)
    named = (Node("relation", f"{name.text}={value.text}", (name, value), mark="=") for name, value in parts)
    return Node("list", node.text, tuple(named))


def bare_values(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """Items without the names assigned to them."""
    return tuple(
        (value_side(node, strict=True) or node) if node.kind == "relation" else node for node in nodes
    )


def as_interval(relation: Node) -> Node | None:
    r"""`1 < x \le 2` as `(1, 2]`, `x > 3` as `(3, \infty)`; None when the bounded thing is not a name."""
    relation = ascending(relation)
    operators, items = relation.mark.split(" "), relation.items
    if any(operator not in ("<", r"\le") for operator in operators) or len(operators) > 2:
        return None
    opening, closing = ("[" if operators[0] == r"\le" else "("), ("]" if operators[-1] == r"\le" else ")")
    named = [is_name(item.text) for item in items]
    if len(operators) == 2 and named[1]:
        low, high = items[0], items[2]
    elif named == [True, False]:
        low, high, opening = parse_node(r"-\infty"), items[1], "("
    elif named == [False, True]:
        low, high, closing = items[0], parse_node(r"\infty"), ")"
    else:
        return None
    return Node("interval", f"{opening}{low.text},{high.text}{closing}", (low, high), mark=opening + closing)


def ascending(relation: Node) -> Node:
    """`b > a > 0` as `0 < a < b`; other relations as they are."""
    operators = relation.mark.split(" ")
    if any(operator not in (">", r"\ge") for operator in operators):
        return relation
    flipped = " ".join("<" if operator == ">" else r"\le" for operator in reversed(operators))
    return Node("relation", relation.text, tuple(reversed(relation.items)), mark=flipped)


def as_union(node: Node) -> Node:
    """`x > 3 or x < -3` as a union of intervals; other nodes as they are."""
    if node.kind != "list" or not all(item.kind == "relation" for item in node.items):
        return node
    intervals = [as_interval(item) for item in node.items]
    if None in intervals or len({range_name(item) for item in node.items}) != 1:
        return node
    return Node("union", node.text, tuple(interval for interval in intervals if interval is not None))


def one_condition(gold: Node, answer: Node) -> tuple[Node, Node] | None:
    """The two answers without `for all x`, `where ...` or `with k an integer`, when only one of them, or both alike, says that."""
    found = [_CONDITION.fullmatch(node.text) if len(node.text) < 400 else None for node in (gold, answer)]
    if found == [None, None]:
        return None
    conditions = [match[2] for match in found if match is not None]
    if len(conditions) == 2 and _stated(conditions[0]) != _stated(conditions[1]):
        return None
    left, right = (
        parse_node(match[1].strip()) if match is not None else node
        for match, node in zip(found, (gold, answer), strict=True)
    )
    return left, right


def _stated(condition: str) -> str:
    """Return what a condition says, without its words of connection."""
    condition = re.sub(
        r"\\text|\\mathbb\s*\{Z\}|\bintegers?\b", lambda m: " Z " if m[0] != r"\text" else " ", condition
    )
    words = re.findall(r"[a-z0-9]+", condition.casefold())
    return " ".join(word for word in words if word not in _CONNECTING)


def range_name(relation: Node) -> str:
    """The name an inequality bounds, or of which it is said where it lies."""
    return next((re.sub(r"\s", "", item.text) for item in relation.items if is_name(item.text)), "")


def may_be_renamed(gold: str, answer: str) -> bool:
    """`f(x)` and `y` may name one function, `x` and `x_1` one unknown; `x_1` and `x_2`, `AB` and `CD` are two things."""
    if "(" in gold or "(" in answer:
        return gold in "yz" or answer in "yz" or gold[0] == answer[0]
    return gold[0] == answer[0] and ("_" in gold) != ("_" in answer)


def as_rows(node: Node) -> Node | None:
    """`[[1, 2], [3, 4]]` as a matrix; None for other nodes."""
    if node.kind != "interval" or not all(item.kind == "interval" for item in node.items):
        return None
    marks = {node.mark, *(item.mark for item in node.items)}
    if len({len(item.items) for item in node.items}) != 1 or marks - {"[]", "()"}:
        return None
    return Node("matrix", node.text, tuple(Node("row", row.text, row.items) for row in node.items))


def without_constant(gold: Node, answer: Node) -> tuple[Node, Node] | None:
    """The two answers without the constant of integration, where one writes it as C and the other as c; else None."""
    if gold.kind != "formula" or answer.kind != "formula":
        return None
    left, right = _CONSTANT.fullmatch(gold.text), _CONSTANT.fullmatch(answer.text)
    if left is None or right is None or (left[2] or left[3]) == (right[2] or right[3]):
        return None
    return parse_node((left[1] or left[4]).strip()), parse_node((right[1] or right[4]).strip())


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

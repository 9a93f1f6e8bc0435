r"""Answers read as what they say: `x = 5` as the value 5, `1 < x \le 2` as the interval `(1, 2]`, `P(2, 3)` and `2i + 3j` as (2, 3)."""

from __future__ import annotations

import re

from harness.verify.read.canonical import squeeze
from harness.verify.read.nodes import Node, parse_node

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


def value_side(relation: Node, strict: bool) -> Node | None:
    """The value of `x = 5`, of `5 = x` and of a chain of equations, None for other relations.

    Args:
        relation: a node of kind `relation`.
        strict: whether the left side must be a name; else any left side that is not a multiple or a power of one name.
    """
    operators = relation.mark.split(" ")
    if relation.mark == r"\in":
        inner = relation.items[1]
        known = inner.kind in ("interval", "set", "union", "list")
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
    named = [is_name(item.text) and "|" not in item.text for item in items]
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
    relations = node.kind == "list" and all(item.kind == "relation" for item in node.items)
    if (
        not relations
        or re.search(r"\band\b", node.text)
        or len({range_name(item) for item in node.items}) != 1
    ):
        return node
    intervals = tuple(filter(None, map(as_interval, node.items)))
    return Node("union", node.text, intervals) if len(intervals) == len(node.items) else node


def one_condition(gold: Node, answer: Node) -> tuple[Node, Node] | None:
    """The two answers without `for all x`, `where ...` or `with k an integer`, when only one of them, or both alike, says that."""
    matches = [_CONDITION.fullmatch(node.text) if len(node.text) < 400 else None for node in (gold, answer)]
    conditions = [squeeze(match[2]) for match in matches if match is not None]
    if not conditions or len(set(conditions)) > 1:
        return None
    left, right = (
        node if match is None else parse_node(match[1].strip())
        for match, node in zip(matches, (gold, answer), strict=True)
    )
    return left, right


def range_name(relation: Node) -> str:
    """The name an inequality bounds, or of which it is said where it lies."""
    return next((re.sub(r"\s", "", item.text) for item in relation.items if is_name(item.text)), "")


def may_be_renamed(gold: str, answer: str) -> bool:
    """`f(x)` and `y` may name one function, `x` and `x_1` one unknown; `x_1` and `x_2`, `AB` and `CD` are two things."""
    if "(" in gold or "(" in answer:
        return gold in "yz" or answer in "yz" or gold[0] == answer[0]
    return gold[0] == answer[0] and ("_" in gold) != ("_" in answer)

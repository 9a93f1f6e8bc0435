r"""Points and vectors in other words: `P(2, 3)`, `the point (2, 3)` and `2i + 3j` as the tuple (2, 3)."""

from __future__ import annotations

import re

from harness.verify.read.nodes import Node, parse_node

_NAMED = re.compile(
    r"(?:\\text\s*\{\s*)?(?:(?:the\s+)?(?:point|vertex|cent(?:er|re)|focus|origin|vector|vertices|points)\s*)?(?:at\s*)?\}?\s*"
    r"(?:[A-Z](?:_\{?\d\}?|')?)?\s*(\(.*\))",
    re.IGNORECASE | re.DOTALL,
)
_TERM = re.compile(
    r"([+-]?)\s*([^+\-=<>]*?)\s*(?:\\(?:hat|vec|text|overrightarrow|widehat)\s*\{?)?\s*\\?(?<![a-zA-Z\\])([ijk])(?:math)?\s*\}?\s*"
)
_LONGEST = 300


def as_tuples(gold: Node, answer: Node) -> tuple[Node, Node] | None:
    """The two answers as tuples, where one of them is a tuple and the other says one in other words; else None."""
    for node, other, swapped in ((gold, answer, False), (answer, gold, True)):
        if node.kind != "interval" or node.mark != "()" or len(other.text) > _LONGEST:
            continue
        said = _point(other) or _by_unit_vectors(other, len(node.items))
        if said is not None:
            return (said, node) if swapped else (node, said)
    return None


def _point(node: Node) -> Node | None:
    match = _NAMED.fullmatch(node.text) if node.kind in ("formula", "words", "list") else None
    said = parse_node(match[1]) if match is not None and match[1] != node.text else None
    return said if said is not None and said.kind == "interval" else None


def _by_unit_vectors(node: Node, length: int) -> Node | None:
    """`2i - k` as (2, 0, -1)."""
    if node.kind != "formula" or ("j" not in node.text and "k" not in node.text):
        return None
    components, at = dict.fromkeys("ijk"[:length], "0"), 0
    while at < len(node.text):
        term = _TERM.match(node.text, at)
        if term is None or components.get(term[3]) != "0" or (at and not term[1]):
            return None
        components[term[3]] = term[1] + (term[2] or "1")
        at = term.end()
    items = tuple(parse_node(text.strip()) for text in components.values())
    return Node("interval", node.text, items, mark="()") if len(items) == length else None


def as_rows(node: Node) -> Node | None:
    """`[[1, 2], [3, 4]]` as a matrix; None for other nodes."""
    if node.kind != "interval" or not all(item.kind == "interval" for item in node.items):
        return None
    marks = {node.mark, *(item.mark for item in node.items)}
    if len({len(item.items) for item in node.items}) != 1 or marks - {"[]", "()"}:
        return None
    return Node("matrix", node.text, tuple(Node("row", row.text, row.items) for row in node.items))


_CONSTANT = re.compile(r"(.*[^\s+])\s*\+\s*([cC])|([cC])\s*\+\s*(.*)", re.DOTALL)


def without_constant(gold: Node, answer: Node) -> tuple[Node, Node] | None:
    """The two answers without the constant of integration, C in the gold one and c in the other; else None."""
    if gold.kind != "formula" or answer.kind != "formula":
        return None
    left, right = _CONSTANT.fullmatch(gold.text), _CONSTANT.fullmatch(answer.text)
    if left is None or right is None or (left[2] or left[3]) != "C" or (right[2] or right[3]) != "c":
        return None
    return parse_node((left[1] or left[4]).strip()), parse_node((right[1] or right[4]).strip())

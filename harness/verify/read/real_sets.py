r"""Sets of real numbers as disjoint pieces, so that one set is recognised in all of its notations.

`(-\infty, 0) \cup (0, \infty)`, `x \ne 0`, `|x| > 0` and `\mathbb{R} \setminus \{0\}` are one set. Read are intervals, finite
sets, inequalities in one name (or in its absolute value), `\mathbb{R}`, and their unions, intersections and differences, as
long as every bound is a constant that `arithmetic` can evaluate.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal
from typing import NamedTuple

from harness.verify.read.formulas import Number, as_decimal, constant, negated, same_number
from harness.verify.read.nodes import Node, parse_node, split_at, strip_parentheses
from harness.verify.read.relations import as_interval, is_name, may_be_renamed, range_name

_INFINITY = Decimal("Infinity")
_OPERATOR = re.compile(r"\\(?:cup|cap|setminus|backslash)(?![a-zA-Z])")
_MODULUS = re.compile(r"\|([^|]*)\|")
_REALS = re.compile(r"\\mathbb\s*\{?\s*R\s*\}?")
_MAX_PIECES = 40


class Piece(NamedTuple):
    """The numbers between two bounds; a bound that is closed belongs to it."""

    low: Number
    low_closed: bool
    high: Number
    high_closed: bool


@dataclass(frozen=True)
class RealSet:
    """Disjoint pieces in rising order, and the name the set was said of, empty when it was named by nothing.

    Attributes:
        pieces: none touches the next.
        name: of `x > 3` it is `x`.
        plain: whether the text alone could as well be a point, a list or a tuple.
    """

    pieces: tuple[Piece, ...]
    name: str = ""
    plain: bool = False


_ALL = (Piece(-_INFINITY, False, _INFINITY, False),)


def same_real_set(gold: Node, answer: Node) -> bool | None:
    """Return whether two nodes are one set of reals, None when either is none or neither is surely one."""
    if not (_surely_a_set(gold) or _surely_a_set(answer)):
        return None
    left = real_set(gold)
    right = real_set(answer) if left is not None else None
    if left is None or right is None or (left.plain and right.plain):
        return None
    if left.name and right.name and left.name != right.name and not may_be_renamed(left.name, right.name):
        return False
    return len(left.pieces) == len(right.pieces) and all(
        _same_piece(a, b) for a, b in zip(left.pieces, right.pieces, strict=True)
    )


def _surely_a_set(node: Node) -> bool:
    """Return whether a node, should it be a set of reals, can be nothing else: `[1, 2)` is none but a set, `(1, 2)` may be a point."""
    if node.kind == "interval":
        return node.mark in ("(]", "[)")
    if node.kind == "list":
        return all(item.kind == "relation" for item in node.items)
    if node.kind == "relation":
        return node.mark != "="
    return node.kind == "union" or (node.kind == "formula" and "\\" in node.text)


def real_set(node: Node) -> RealSet | None:
    """The set a node writes, or None."""
    if node.kind == "interval":
        pieces = _interval(node)
        return None if pieces is None else RealSet(pieces, plain=node.mark in ("()", "[]"))
    if node.kind == "set":
        pieces = _points(node)
        return None if pieces is None else RealSet(pieces, plain=True)
    if node.kind == "relation":
        return _relation(node)
    if node.kind == "list":
        return _conditions(node)
    if _REALS.fullmatch(node.text):
        return RealSet(_ALL)
    return _algebra(node.text) if node.kind in ("union", "formula") else None


def _algebra(text: str) -> RealSet | None:
    """Operands joined by set operations, which are done from the left, intersections first."""
    if not _OPERATOR.search(text) or len(text) > 400:
        return None
    parts, operators = split_at(text, _OPERATOR)
    if not operators or len(parts) > _MAX_PIECES:
        return None
    found = [_operand(part) for part in parts]
    pieces: list[tuple[Piece, ...]] = []
    for operand in found:
        if operand is None:
            return None
        pieces.append(operand)
    for pass_operators in ((r"\cap",), (r"\cup", r"\setminus", r"\backslash")):
        position = 0
        while position < len(operators):
            if operators[position] not in pass_operators:
                position += 1
                continue
            left, right = pieces[position], pieces.pop(position + 1)
            operator = operators.pop(position)
            if operator == r"\cup":
                pieces[position] = _normal([*left, *right])
            else:
                pieces[position] = _meet(left, right if operator == r"\cap" else _complement(right))
    return RealSet(pieces[0])


def _operand(text: str) -> tuple[Piece, ...] | None:
    node = parse_node(strip_parentheses(text.strip()))
    found = real_set(node)
    return None if found is None or found.name else found.pieces


def _interval(node: Node) -> tuple[Piece, ...] | None:
    if len(node.items) != 2:
        return None
    low, high = _bound(node.items[0]), _bound(node.items[1])
    if low is None or high is None:
        return None
    low_closed = node.mark[0] == "[" and not _infinite(low)
    high_closed = node.mark[1] == "]" and not _infinite(high)
    if _less(low, high) or (same_number(low, high) and low_closed and high_closed):
        return (Piece(low, low_closed, high, high_closed),)
    return None


def _points(node: Node) -> tuple[Piece, ...] | None:
    values = [_bound(item) for item in node.items]
    if len(values) > _MAX_PIECES or any(value is None or _infinite(value) for value in values):
        return None
    return _normal([Piece(value, True, value, True) for value in values if value is not None])


def _relation(node: Node) -> RealSet | None:
    if node.mark == r"\in":
        inside = real_set(node.items[1]) if is_name(node.items[0].text) else None
        return None if inside is None else RealSet(inside.pieces, range_name(node))
    modulus = _MODULUS.fullmatch(_middle(node))
    if modulus is not None and is_name(modulus[1].strip()):
        bare = Node("relation", node.text, _replaced(node, parse_node(modulus[1].strip())), mark=node.mark)
        inside = _relation(bare)
        if inside is None:
            return None
        positive = _meet(inside.pieces, (Piece(_zero(), True, _INFINITY, False),))
        return RealSet(_normal([*positive, *_mirrored(positive)]), inside.name)
    name = re.sub(r"\s", "", range_name(node))
    if node.mark == r"\ne" and name and not is_name(node.items[1].text):
        value = _bound(node.items[1])
        if value is None or _infinite(value):
            return None
        return RealSet(_complement((Piece(value, True, value, True),)), name)
    interval = as_interval(node)
    pieces = _interval(interval) if interval is not None else None
    return None if pieces is None else RealSet(pieces, name)


def _middle(node: Node) -> str:
    """The bounded side of an inequality, as far as it is no plain constant."""
    sides = [item.text for item in node.items if "|" in item.text]
    return sides[0] if len(sides) == 1 else ""


def _replaced(node: Node, name: Node) -> tuple[Node, ...]:
    return tuple(name if "|" in item.text else item for item in node.items)


def _conditions(node: Node) -> RealSet | None:
    """`x < 1 or x > 3`: a union, unless it says `and`, excludes a point, or a union would be everything."""
    sets = [real_set(item) for item in node.items]
    if any(item.kind != "relation" for item in node.items):
        return None
    found = [part for part in sets if part is not None]
    if len(found) != len(sets) or len({part.name for part in found}) != 1:
        return None
    united = _normal([piece for part in found for piece in part.pieces])
    met = found[0].pieces
    for part in found[1:]:
        met = _meet(met, part.pieces)
    said_and = re.search(r"\band\b", node.text) is not None and re.search(r"\bor\b", node.text) is None
    excluding = any(item.mark == r"\ne" for item in node.items)
    both = said_and or excluding or (united == _ALL and re.search(r"\bor\b", node.text) is None)
    return RealSet(met if both else united, found[0].name)


# ---------------------------------------------------------------------- pieces


def _bound(node: Node) -> Number | None:
    text = node.text.replace(" ", "")
    if text in (r"\infty", r"+\infty"):
        return _INFINITY
    if text == r"-\infty":
        return -_INFINITY
    if node.exact is not None:
        return node.exact.value if not node.exact.percent and node.exact.unit is None else None
    return constant(node.text) if node.kind == "formula" else None


def _zero() -> Number:
    return Decimal(0)


def _infinite(value: Number) -> bool:
    return isinstance(value, Decimal) and value.is_infinite()


def _less(left: Number, right: Number) -> bool:
    return not same_number(left, right) and as_decimal(left) < as_decimal(right)


def _same_piece(left: Piece, right: Piece) -> bool:
    return (
        left.low_closed == right.low_closed
        and left.high_closed == right.high_closed
        and same_number(left.low, right.low)
        and same_number(left.high, right.high)
    )


def _normal(pieces: list[Piece]) -> tuple[Piece, ...]:
    """Sorted, with those that overlap or touch made one."""
    done: list[Piece] = []
    for piece in sorted(pieces, key=lambda piece: (as_decimal(piece.low), not piece.low_closed)):
        last = done[-1] if done else None
        touching = last is not None and (
            _less(piece.low, last.high)
            or (same_number(piece.low, last.high) and (piece.low_closed or last.high_closed))
        )
        if last is None or not touching:
            done.append(piece)
            continue
        if same_number(last.low, piece.low):
            last = last._replace(low_closed=last.low_closed or piece.low_closed)
        if _less(last.high, piece.high):
            last = last._replace(high=piece.high, high_closed=piece.high_closed)
        elif same_number(last.high, piece.high):
            last = last._replace(high_closed=last.high_closed or piece.high_closed)
        done[-1] = last
    return tuple(done)


def _complement(pieces: tuple[Piece, ...]) -> tuple[Piece, ...]:
    low: Number = -_INFINITY
    closed, rest = False, []
    for piece in pieces:
        if _less(low, piece.low) or (same_number(low, piece.low) and closed and not piece.low_closed):
            rest.append(Piece(low, closed, piece.low, not piece.low_closed and not _infinite(piece.low)))
        low, closed = piece.high, not piece.high_closed and not _infinite(piece.high)
    if not _infinite(low) or low < 0:
        rest.append(Piece(low, closed, _INFINITY, False))
    return tuple(rest)


def _meet(left: tuple[Piece, ...], right: tuple[Piece, ...]) -> tuple[Piece, ...]:
    return _complement(_normal([*_complement(left), *_complement(right)]))


def _mirrored(pieces: tuple[Piece, ...]) -> tuple[Piece, ...]:
    return tuple(
        Piece(negated(piece.high), piece.high_closed, negated(piece.low), piece.low_closed)
        for piece in reversed(pieces)
    )

r"""A small reader of plain formulas and of relations, so that most answers never reach computer algebra.

It knows numbers, one-letter variables, `+ - * / ^`, `\frac`, `\sqrt`, `\pi`, `e` and brackets, and gives up on
everything else. Two formulas are equal when they have one value at fixed points (Schwartz 1980, Zippel 1979): exact as
`Fraction` while they stay rational, otherwise to 60 digits. Variables take positive values, then one of them a negative
one, where only points count at which both values are real; then the same far out.
"""

from __future__ import annotations

import decimal
import math
import operator
import re
import string
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from typing import Any

from harness.verify.read.canonical import squeeze
from harness.verify.read.nodes import Node, parse_node
from harness.verify.read.numbers import DECIMAL_DIGITS, parse_exact

_TOKEN = re.compile(r"\d+(?:\.\d+)?|\.\d+|\\[a-zA-Z]+|[a-zA-Z]|[-+*/^(){}\[\]]")
_FOREIGN_SYNTAX = re.compile(r"(?<!\\)(?<![a-zA-Z])[a-zA-Z]{3,}|\\frac\s*\{\s*d|\\ldots")
_BARE_ARITHMETIC = re.compile(r"[-+*/\d]+")
_LACKS_OPERAND = re.compile(r"\A[*/]|[-+*/]\Z|[-+*/][*/]")
_FUNCTION_LETTERS = frozenset("fghiFGHPTW")
_TIMES = frozenset(("*", r"\cdot", r"\times"))
_MAX_CHARS = 300
_MAX_BITS = 20_000
_MAX_ROOT = 12
_CONTEXT = decimal.Context(prec=60, Emax=9_999, Emin=-9_999)
_FRACTION_OPERATORS: dict[str, Any] = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
_DECIMAL_OPERATORS = {"+": _CONTEXT.add, "-": _CONTEXT.subtract, "*": _CONTEXT.multiply, "/": _CONTEXT.divide}
_TOLERANCE = Decimal("1e-35")
_PI = Decimal("3.14159265358979323846264338327950288419716939937510582097494459230781640628621")
_POINTS = (
    (Fraction(2003, 701), Fraction(4001, 997), Fraction(1009, 1301), Fraction(3019, 2111)),
    (Fraction(1709, 367), Fraction(733, 1877), Fraction(2311, 499), Fraction(1327, 811)),
    (Fraction(631, 1487), Fraction(2503, 1181), Fraction(3533, 709), Fraction(2017, 1567)),
)
FAR = 10_000  # times a point, so that `|x-2024|` turns before it
_LETTER_VALUES = {letter: Fraction(2003 + 37 * ord(letter.lower()), 701) for letter in string.ascii_letters}
_STEPS = 1_000  # of a magnitude to one: a rounded decimal is within 10^-6 of its value
_DECIMAL_COMMA = re.compile(r"[+-]?\d+,\d+")
Number = Fraction | Decimal
Tree = tuple[Any, ...]


class _Unknown(Exception):
    """Something outside of the small language, or a value that is not a real number."""


def equal_at_points(gold: str, answer: str) -> bool | None:
    """Return whether two formulas are equal, None when this reader cannot tell."""
    gold_formula, answer_formula = _parse_formula(gold), _parse_formula(answer)
    if gold_formula is None:
        return None
    if answer_formula is None:
        return False if _lacks_operand(answer) else None
    for text in (gold, answer):
        exact = parse_exact(text)
        if exact is not None and exact.decimals >= DECIMAL_DIGITS:
            return None  # rounding is judged elsewhere
    names = sorted(gold_formula[1] | answer_formula[1])
    if len(names) > len(_POINTS[0]):
        return None
    points = [dict(zip(names, values, strict=False)) for values in (_POINTS if names else _POINTS[:1])]
    for point in points:
        equal = _equal_at(gold_formula[0], answer_formula[0], point)
        if not equal:
            return equal
    far_points = [{name: value * FAR for name, value in point.items()} for point in points if point]
    flipped = [_flip_sign(point, name) for point in points + far_points for name in names]
    return all(_equal_at(gold_formula[0], answer_formula[0], point) is not False for point in far_points + flipped)


def _flip_sign(point: dict[str, Fraction], name: str) -> dict[str, Fraction]:
    r"""A point with one sign turned: `\sqrt{hg}` asks of h and g to have one sign, and physics for the positive one."""
    return {**point, name: -point[name]}


def magnitudes(text: str) -> tuple[int, ...]:
    """Return keys of a canonical answer: two answers that the verifier holds equal share one, or one of them has none.

    They are its value at fixed values of its letters, in steps far wider than any rounding, and the next step. What is compared by more
    than a value has none: units, percent, words, ratios, functions.
    """
    try:
        value = None if _DECIMAL_COMMA.fullmatch(text) else _magnitude(parse_node(text))
    except (_Unknown, ArithmeticError, RecursionError, ValueError):
        return ()
    if value is None:
        return ()
    step = math.floor(value * _STEPS)
    return step, step + 1


def _magnitude(node: Node) -> Number | None:
    exact = node.exact
    if exact is not None:
        return None if exact.percent or exact.unit else exact.value
    if node.kind == "formula":
        tree = formula_tree(node.text)
        return None if tree is None else _value(tree, _LETTER_VALUES)
    if node.kind == "choice" and not node.items and node.mark not in "eE":
        return _LETTER_VALUES[node.mark]
    if node.kind == "relation":
        side = value_side(node, strict=True)
        return None if side is None else _magnitude(side)
    if node.kind not in ("list", "set", "interval") or not node.items:
        return None
    values = [_magnitude(item) for item in node.items]
    numbers = [as_decimal(value) for value in values if value is not None]
    if len(numbers) < len(values):
        return None
    low, high = min(numbers), max(numbers)  # the same in any order, and with items said twice
    return low if low == high else _CONTEXT.add(high, _CONTEXT.multiply(low, Decimal(7)))


def formula_tree(text: str) -> Tree | None:
    """Return the syntax tree of a formula, None when this reader cannot tell.

    A tree is `("number", value)`, `("name", letter)`, `("pi",)`, `("e",)`, `("neg", tree)`, `("root", tree, degree)`, or an
    operator of `+ - * / ^` with two trees.
    """
    formula = _parse_formula(text)
    return None if formula is None else formula[0]


def rational_value(tree: Tree) -> Fraction | None:
    """Return the value of a syntax tree of numbers that is rational without rounding, else None."""
    try:
        value = _value(tree, {})
    except (_Unknown, ArithmeticError, KeyError):
        return None
    return value if isinstance(value, Fraction) else None


def as_decimal(value: Number) -> Decimal:
    """Return a value to 60 digits."""
    if isinstance(value, Decimal):
        return value
    return _CONTEXT.divide(Decimal(value.numerator), Decimal(value.denominator))


def _lacks_operand(text: str) -> bool:
    """Return whether a text of digits and operators misses an operand (`*5`, `3+`, `2*/4`): no reader makes an expression of it.

    Small policies write such things, and a process with computer algebra takes a second to start.
    """
    return _BARE_ARITHMETIC.fullmatch(text) is not None and "**" not in text and _LACKS_OPERAND.search(text) is not None


def _equal_at(gold: Tree, answer: Tree, point: Mapping[str, Fraction]) -> bool | None:
    try:
        first, second = _value(gold, point), _value(answer, point)
        if isinstance(first, Fraction) and isinstance(second, Fraction):
            return first == second
        a, b = as_decimal(first), as_decimal(second)
        scale = max(abs(a), abs(b))
        if scale > 10**12 or scale < Decimal("1e-12"):
            return None  # digits may have been lost on the way
        return abs(_CONTEXT.subtract(a, b)) <= scale * _TOLERANCE
    except (_Unknown, ArithmeticError):
        return None


@lru_cache(maxsize=20_000)
def _parse_formula(text: str) -> tuple[Tree, frozenset[str]] | None:
    """(syntax tree, names of the variables) of a formula of the small language, else None."""
    if len(text) > _MAX_CHARS or _FOREIGN_SYNTAX.search(text):
        return None
    tokens = _TOKEN.findall(text)
    if "".join(tokens) != re.sub(r"\s+", "", text) or re.search(r"[\d.]\s+[\d.]", text):
        return None
    reader = _Reader(tokens)
    try:
        tree = reader.sum()
        if reader.position != len(tokens):
            return None
    except (_Unknown, IndexError):
        return None
    return tree, frozenset(reader.names)


class _Reader:
    """Recursive descent over the tokens of one formula."""

    def __init__(self, tokens: list[str]) -> None:
        self.tokens = [*tokens, ""]
        self.position = 0
        self.names: set[str] = set()

    def take(self, token: str) -> None:
        if self.tokens[self.position] != token:
            raise _Unknown
        self.position += 1

    def sum(self) -> Tree:
        tree = self.signed_term()
        while self.tokens[self.position] in ("+", "-"):
            sign = self.tokens[self.position]
            self.position += 1
            tree = (sign, tree, self.product())
        return tree

    def signed_term(self) -> Tree:
        if self.tokens[self.position] == "-":
            self.position += 1
            return ("neg", self.product())
        if self.tokens[self.position] == "+":
            self.position += 1
        return self.product()

    def product(self) -> Tree:
        tree, in_quotient = self.power(), False
        while True:
            token = self.tokens[self.position]
            if token in _TIMES or token == "/":
                self.position += 1
                in_quotient = in_quotient or token == "/"
                tree = ("/" if token == "/" else "*", tree, self.power())
            elif token and (token[0] in "\\({" or token.isalpha()):
                previous = self.tokens[self.position - 1]
                mixed_number = token == r"\frac" and previous[-1:].isdigit()
                function_call = token in "({" and previous in _FUNCTION_LETTERS
                if in_quotient or mixed_number or function_call:
                    raise _Unknown  # `1/2x`, `2\frac12` and `f(x)` have more than one reading
                tree = ("*", tree, self.power())
            else:
                return tree

    def power(self) -> Tree:
        base = self.atom()
        if self.tokens[self.position] != "^":
            return base
        self.position += 1
        if self.tokens[self.position] not in ("{", "(") and not self.tokens[self.position].isalnum():
            raise _Unknown
        exponent = self.atom()
        if self.tokens[self.position] == "^":
            raise _Unknown
        return ("^", base, exponent)

    def atom(self) -> Tree:
        token = self.tokens[self.position]
        self.position += 1
        if token[:1].isdigit() or token[:1] == ".":
            return ("number", Fraction(token))
        if token in ("(", "{"):
            tree = self.sum()
            self.take(")" if token == "(" else "}")
            return tree
        if token == r"\frac":
            return ("/", self.group(), self.group())
        if token == r"\sqrt":
            return self.root()
        if token == r"\pi":
            return ("pi",)
        if len(token) != 1 or not token.isalpha() or token in "iI":
            raise _Unknown  # the imaginary unit
        if token == "e":
            return ("e",)
        self.names.add(token)
        return ("name", token)

    def group(self) -> Tree:
        self.take("{")
        tree = self.sum()
        self.take("}")
        return tree

    def root(self) -> Tree:
        degree = 2
        if self.tokens[self.position] == "[":
            if not self.tokens[self.position + 1].isdigit():
                raise _Unknown
            degree = int(self.tokens[self.position + 1])
            self.position += 2
            self.take("]")
        return ("root", self.group(), degree)


def _value(tree: Tree, point: Mapping[str, Fraction]) -> Number:
    kind = tree[0]
    if kind == "number":
        return tree[1]
    if kind == "name":
        return point[tree[1]]
    if kind == "pi":
        return _PI
    if kind == "e":
        return _CONTEXT.exp(Decimal(1))
    if kind == "neg":
        value = _value(tree[1], point)
        return -value if isinstance(value, Fraction) else _CONTEXT.minus(value)
    if kind == "root":
        return _root(_value(tree[1], point), tree[2])
    return _apply_operator(kind, _value(tree[1], point), _value(tree[2], point))


def _apply_operator(kind: str, left: Number, right: Number) -> Number:
    if kind == "^":
        return _power(left, right)
    if kind == "/" and right == 0:
        raise _Unknown
    if isinstance(left, Fraction) and isinstance(right, Fraction):
        result: Fraction = _FRACTION_OPERATORS[kind](left, right)
        if result.numerator.bit_length() + result.denominator.bit_length() > _MAX_BITS:
            raise _Unknown
        return result
    return _DECIMAL_OPERATORS[kind](as_decimal(left), as_decimal(right))


def _power(base: Number, exponent: Number) -> Number:
    if not isinstance(exponent, Fraction) or abs(exponent) > 9_999 or exponent.denominator > _MAX_ROOT:
        if base <= 0:
            raise _Unknown
        return _CONTEXT.power(as_decimal(base), as_decimal(exponent))
    if base == 0 and exponent <= 0:
        raise _Unknown
    if exponent.denominator > 1:
        return _power(_root(base, exponent.denominator), Fraction(exponent.numerator))
    if isinstance(base, Fraction):
        if abs(exponent) * (base.numerator.bit_length() + base.denominator.bit_length()) > _MAX_BITS:
            raise _Unknown
        return base**exponent.numerator
    return _CONTEXT.power(base, Decimal(exponent.numerator))


def _root(value: Number, degree: int) -> Number:
    if value < 0 or degree < 1 or degree > _MAX_ROOT:
        raise _Unknown
    if isinstance(value, Fraction) and degree == 2:
        top, bottom = math.isqrt(value.numerator), math.isqrt(value.denominator)
        if top * top == value.numerator and bottom * bottom == value.denominator:
            return Fraction(top, bottom)
    if degree == 2:
        return _CONTEXT.sqrt(as_decimal(value))
    return _CONTEXT.power(as_decimal(value), _CONTEXT.divide(Decimal(1), Decimal(degree))) if value else value


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
    r"""The value of `x = 5`, of `5 = x` and of a chain of equations, None for other relations.

    `strict`: the left side must be a name; else any but a multiple or a power of one name, and `\frac{x}{2} = 5`, which asks for x.
    """
    operators = relation.mark.split(" ")
    if relation.mark == r"\in":
        inner = relation.items[1]
        is_collection = inner.kind in ("interval", "set", "union", "list")
        return inner if is_collection and is_name(relation.items[0].text) else None
    if operators[-1] in (r"\approx", r"\sim", r"\simeq") and all(op == "=" for op in operators[:-1]):
        has_name = len(operators) == 1 and is_name(relation.items[0].text)
        return relation.items[-1] if has_name else relation.items[-2]  # `\sqrt{2} \approx 1.41` says the root
    if any(operator != "=" for operator in operators) or _contradicts(relation):
        return None
    first, last = relation.items[0], relation.items[-1]
    if is_name(first.text):
        return last
    if len(operators) == 1 and is_name(last.text) and first.kind == "exact":
        return first
    if strict or re.match(r"-\s*[\\a-zA-Z]", first.text) or _MULTIPLE.fullmatch(first.text):
        return None
    if len(operators) == 1 and _has_one_letter(first.text):
        return None
    return last if last.kind != "words" else None


def _has_one_letter(text: str) -> bool:
    r"""Return whether a formula has one unknown, once: an equation with it asks for the unknown, but `\pi r^2 = 25\pi` for the area."""
    is_call = re.match(r"[A-Za-z]\s*\(", text) is not None
    formula = None if is_call or r"\pi" in text else _parse_formula(text)
    return formula is not None and len(formula[1]) == 1 and _TOKEN.findall(text).count(*formula[1]) == 1


def _contradicts(relation: Node) -> bool:
    """Return whether sides of a chain of equations are numbers that no rounding makes equal: `43 = 42` and `3 + 4 = 42` say neither."""
    numbers = [number for item in relation.items if (number := _constant(item)) is not None]
    return any(a != b and abs(a - b) >= max(near_a, near_b) for (a, near_a), (b, near_b) in pairwise(numbers))


def _constant(node: Node) -> tuple[Fraction, Fraction] | None:
    """Return the value of a node without letters, percent and unit, and how far from it an equal one stays; None for other nodes."""
    if (exact := node.exact) is not None:
        last_place = Fraction(1, 10**exact.decimals) if exact.decimals > 0 else Fraction(0)
        return None if exact.percent or exact.unit else (exact.value, last_place)
    tree = formula_tree(node.text) if node.kind == "formula" else None
    if tree is None:
        return None
    try:
        value = _value(tree, {})
    except (_Unknown, ArithmeticError, KeyError):
        return None
    number = Fraction(value)
    return number, Fraction(0) if isinstance(value, Fraction) else abs(number) * Fraction(_TOLERANCE)


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
    return tuple((value_side(node, strict=True) or node) if node.kind == "relation" else node for node in nodes)


def as_interval(relation: Node) -> Node | None:
    r"""`1 < x \le 2` as `(1, 2]`, `x > 3` as `(3, \infty)`; None when the bounded thing is not a name."""
    relation = ascending(relation)
    operators, items = relation.mark.split(" "), relation.items
    if any(operator not in ("<", r"\le") for operator in operators) or len(operators) > 2:
        return None
    opening, closing = ("[" if operators[0] == r"\le" else "("), ("]" if operators[-1] == r"\le" else ")")
    are_names = [is_name(item.text) and "|" not in item.text for item in items]
    if len(operators) == 2 and are_names[1]:
        low, high = items[0], items[2]
    elif are_names == [True, False]:
        low, high, opening = parse_node(r"-\infty"), items[1], "("
    elif are_names == [False, True]:
        low, high, closing = items[0], parse_node(r"\infty"), ")"
    else:
        return None
    return Node("interval", f"{opening}{low.text},{high.text}{closing}", (low, high), mark=opening + closing)


def ascending(relation: Node) -> Node:
    """`b > a > 0` as `0 < a < b`; other relations as they are."""
    operators = relation.mark.split(" ")
    if any(operator not in (">", r"\ge") for operator in operators):
        return relation
    mark = " ".join("<" if operator == ">" else r"\le" for operator in reversed(operators))
    return Node("relation", relation.text, tuple(reversed(relation.items)), mark=mark)


def as_union(node: Node) -> Node:
    """`x > 3 or x < -3` as a union of intervals; other nodes as they are."""
    relations = node.kind == "list" and all(item.kind == "relation" for item in node.items)
    if not relations or re.search(r"\band\b", node.text) or len({range_name(item) for item in node.items}) != 1:
        return node
    intervals = tuple(filter(None, map(as_interval, node.items)))
    return Node("union", node.text, intervals) if len(intervals) == len(node.items) else node


def one_condition(gold: Node, answer: Node) -> tuple[Node, Node] | None:
    """The two answers without `for all x`, `where ...` or `with k an integer`, when only one of them, or both alike, says that."""
    matches = [_CONDITION.fullmatch(node.text) if len(node.text) < 400 else None for node in (gold, answer)]
    conditions = [squeeze(match[2]) for match in matches if match is not None]
    if not conditions or len(set(conditions)) > 1:
        return None
    gold, answer = (
        node if match is None else parse_node(match[1].strip())
        for match, node in zip(matches, (gold, answer), strict=True)
    )
    return gold, answer


def range_name(relation: Node) -> str:
    """The name an inequality bounds, or of which it is said where it lies."""
    return next((re.sub(r"\s", "", item.text) for item in relation.items if is_name(item.text)), "")


def may_be_renamed(gold: str, answer: str) -> bool:
    """`f(x)` and `y` may name one function, `x` and `x_1` one unknown; `x_1` and `x_2`, `AB` and `CD` are two things."""
    if gold[0] == "(" == answer[0]:
        return sorted(gold) != sorted(answer)  # `(p,q)` and `(q,p)` are two things
    if "(" in (gold[0], answer[0]):
        return False
    if "(" in gold or "(" in answer:
        return gold in "yz" or answer in "yz" or gold[0] == answer[0]
    return gold[0] == answer[0] and ("_" in gold) != ("_" in answer)

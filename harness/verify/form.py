r"""The form of an answer: an answer that is equal to the gold one still counts only when nothing is left to work out.

An operation is *open* where all of its operands are numbers and its value is rational: `3+27`, `2^{10}`, `5!`, `\sqrt{16}`,
`\frac{10}{2}`. A number has none: an integer, a decimal, `\frac{6}{4}`, a mixed number, `3\times 10^5`, with a sign, a percent sign
or a unit. Where the gold answer is a number, the answer has to be one. Elsewhere the answer may use what the gold one uses.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache

from harness.verify.read.formulas import Tree, formula_tree, rational_value, value_side
from harness.verify.read.nodes import Node, parse_node
from harness.verify.read.numbers import compound, is_unit, split_unit

MORE_OPEN = 2  # open operations beyond the gold answer's, where that has such operations itself
_SCIENTIFIC = re.compile(r"[+-]?([\d.,]+)\*10\^([+-]?\d+)")
_FUNCTIONS = {
    "factorial": r"!|\bfactorial\b|\\binom|\\choose|\bbinom", "logarithm": r"\\?\b(?:log|ln|lg)(?![a-z])|\\(?:log|ln|lg)",
    "trigonometry": r"\\?(?:arc)?(?:sin|cos|tan|cot|sec|csc|cis)h?(?![a-z])",
    "sum": r"\\(?:sum|prod|int|lim|bigcup)(?![a-z])|\b(?:sum|prod|int|lim)\b",
    "integer": r"\\?\b(?:gcd|lcm|max|min|floor|ceil|mod)(?![a-z])|\\(?:gcd|lcm|max|min|[lr]floor|[lr]ceil|mod)(?![a-z])|\bmod\b",
    "modulus": r"\||\babs\b", "derivative": r"\\frac\s*\{\s*d", "base": r"\d\s*_\s*\{?\d",
}  # fmt: skip
_CALLS = {name: re.compile(pattern) for name, pattern in _FUNCTIONS.items()}
_IMAGINARY_UNIT, _UNIT_NAME = re.compile(r"(?<![\\a-zA-Z])i(?![a-zA-Z])"), "Z"
_POWER_OF_NUMBER = re.compile(r"(?<![\w.}^_])\d+\s*\^\s*\{?\d")
_LETTER = re.compile(r"(?<![\\a-zA-Z])[a-zA-Z](?![a-zA-Z])")
_OPERATION = re.compile(r"(?<=.)[-+*/^!]|\\sqrt")
_NOTATIONS = [
    (re.compile(pattern), sign) for pattern, sign in (
        (r"\\(?:times|cdot|ast)(?![a-z])|[×·⋅∙]|(?<=\d)\s*x\s*(?=\d)|\b(?:times|multiplied by)\b", "*"),
        (r"\\div(?![a-z])|÷|\b(?:divided by|over)\b", "/"), (r"\bplus\b", "+"), (r"\bminus\b|[−–]", "-"),
        (r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}", r"\1/\2"), (r"\\?%|\bpercent\b", "%"),
        (r"\\(?:text|mathrm|left|right|displaystyle)(?![a-z])|\\[,;:! ()\[\]]|[\s${}()]|(?<=\d),(?=\d{3})|(?<=[a-z])s\b", ""),
    )
]  # fmt: skip
_LONGEST_PROBLEM = 20_000
_PLAIN_NUMBER = re.compile(r"[+-]?\d[\d.,]*")


@dataclass
class Use:
    """What an answer uses: open operations and functions by kind, letters, and whether it is anything but numbers."""

    open: Counter[str] = field(default_factory=Counter)
    functions: set[str] = field(default_factory=set)
    letters: bool = False
    plain: bool = True  # nothing but numbers

    def add(self, other: Use) -> None:
        """Count what a part uses."""
        self.open += other.open
        self.functions |= other.functions
        self.letters = self.letters or other.letters
        self.plain = self.plain and other.plain


def is_unevaluated(gold: Node, answer: Node) -> bool:
    """Return whether an answer that equals the gold one leaves more to work out than that."""
    if answer.kind in ("words", "base", "clock", "date", "choice"):
        return False
    gold, answer = _value(gold, gold), _value(answer, gold)
    gold_use, answer_use = use_of(gold), use_of(answer)
    unit = None if gold.exact is None else gold.exact.unit
    if unit is not None:
        del answer_use.open["units"]
    if "10^" in gold.text.replace(" ", ""):
        gold_use.open["power"] += 1  # scientific notation
    scalar = gold.kind in ("exact", "quantity", "formula", "ratio")
    radians = unit == "degree" and r"\pi" in answer.text
    if scalar and gold_use.plain and not gold_use.open and not radians:
        return not answer_use.plain or bool(answer_use.open)
    more = MORE_OPEN if gold_use.open or gold.kind == "relation" else 0
    if answer_use.open.total() > gold_use.open.total() + more:
        return True
    return scalar and not gold_use.letters and bool(answer_use.functions - gold_use.functions)


def is_restated(gold: Node, answer: Node, problem: str) -> bool:
    """Return whether an answer only repeats what the problem's text says: an expression, or a quantity in another unit."""
    if gold.kind not in ("exact", "formula", "quantity") or len(problem) > _LONGEST_PROBLEM:
        return False
    side = _value(answer, gold)
    side = side.items[0] if side.kind == "quantity" else side
    text = plain_notation(side.text)
    if text == plain_notation(gold.text):
        return False
    if re.search(rf"(?<![\d.]){re.escape(text)}(?![\d]|\.\d)", plain_notation(problem)) is None:
        return False
    if side.exact is None or gold.exact is None:
        return side.exact is None and _OPERATION.search(text) is not None
    scientific = "^" in side.text and "^" not in gold.text
    other_unit = side.exact.unit != gold.exact.unit and is_unit((side.exact.unit or "").partition("^")[0])
    conversion = compound(side.text) is not None or (other_unit and side.exact.value != gold.exact.value)
    return scientific or conversion or (side.exact.percent and not gold.exact.percent)


def open_operations(gold: Node) -> Counter[str]:
    """Return the operations that a gold answer leaves open, by kind; unreduced fractions are among them."""
    operations = Counter(use_of(gold).open)
    if gold.exact is not None and not operations:
        text = plain_notation(split_unit(gold.text)[0])
        operations["fraction"] = int("/" in text and not text.endswith(f"/{gold.exact.value.denominator}"))
    return +operations


@lru_cache(maxsize=4_096)
def plain_notation(text: str) -> str:
    """Return a text as it compares with another one in other notation: operators as signs, no spaces, braces and thousands."""
    text = text.lower()
    for pattern, replacement in _NOTATIONS:
        text = pattern.sub(replacement, text)
    return text


def use_of(node: Node) -> Use:
    """Return what an answer or gold answer uses."""
    if node.kind == "exact":
        return Use(Counter(_open_kinds_of_number(node)))
    if node.kind == "formula":
        return _use_of_formula(node.text)
    total = Use()
    for item in node.items:
        total.add(use_of(item))
    return total


def _value(node: Node, gold: Node) -> Node:
    """Return the side of an equation that is a value, where the gold answer is no equation; other nodes as they are."""
    if node.kind != "relation" or gold.kind == "list":
        return node
    return value_side(node, strict=gold.kind == "relation") or node


def _open_kinds_of_number(node: Node) -> list[str]:
    """Return the kind of the operation that a number leaves open, in a list that is empty where it leaves none."""
    assert node.exact is not None
    text = plain_notation(split_unit(node.text)[0])
    if compound(node.text) is not None:
        return ["units"]
    if "dozen" in node.text.lower():
        return ["product"]
    if match := _SCIENTIFIC.fullmatch(text):
        shifts = match[2] not in ("0", "1") or "." in match[1]
        return [] if 1 <= float(match[1].replace(",", "")) < 10 and shifts else ["product"]
    if "^" in text:
        return ["power"]
    whole = node.exact.value.denominator == 1 and not text.endswith("/1")
    return ["quotient"] if "/" in text and (whole or "." in text) else []


def _use_of_formula(text: str) -> Use:
    tree = formula_tree(text) or formula_tree(_IMAGINARY_UNIT.sub(_UNIT_NAME, text))
    if tree is None:
        functions = {name for name, pattern in _CALLS.items() if pattern.search(text)}
        letters = any(letter not in "eid" for letter in _LETTER.findall(text))
        numeric = not _LETTER.search(text) and r"\pi" not in text  # open whatever their value
        calls = Counter(functions - {"modulus", "base"} if numeric else ())
        calls.update("power" for _ in _POWER_OF_NUMBER.findall("" if functions else text))
        return Use(calls, functions, letters, plain=False)
    return Use(Counter(_open_kinds(tree)), letters=_has_letters(tree), plain=_is_number(tree))


def _has_letters(tree: Tree) -> bool:
    return (tree[0] == "name" and tree[1] != _UNIT_NAME) or any(map(_has_letters, _parts(tree)))


def _parts(tree: Tree) -> list[Tree]:
    return [part for part in tree[1:] if isinstance(part, tuple)]


def _open_kinds(tree: Tree) -> list[str]:
    """Return the kinds of the open operations of a syntax tree; numbers of one sum or product are open wherever they stand."""
    if _is_number(tree):
        return []
    operators = {"+": "sum", "-": "sum", "*": "product", "/": "quotient", "^": "power"}
    kind = str(operators.get(tree[0], tree[0]))
    parts, count = _parts(tree), 0
    if kind in ("sum", "product"):
        parts = _chain(tree, kind)
        surds = [part for part in parts if rational_value(part) is None]
        count = max(len(parts) - len(surds) - 1, 0)
        if kind == "sum":
            terms = [_surd_factors(part) for part in surds if not _has_letters(part)]
            count += len(terms) - len(set(terms))
    elif kind != "neg" and rational_value(tree) is not None:
        count = 1
    return [kind] * count + [name for part in parts for name in _open_kinds(part)]


def _chain(tree: Tree, kind: str) -> list[Tree]:
    """Return the terms of a sum or the factors of a product; another tree alone."""
    if tree[0] not in {"sum": ("+", "-"), "product": ("*",)}[kind]:
        return [tree]
    return [*_chain(tree[1], kind), *_chain(tree[2], kind)]


def _surd_factors(term: Tree) -> tuple[str, ...]:
    """Return what terms of a sum have in common that can be added: the factors that are no numbers."""
    term = term[1] if term[0] == "neg" else term
    return tuple(sorted(repr(part) for part in _chain(term, "product") if rational_value(part) is None))


def _is_number(tree: Tree) -> bool:
    """Return whether a tree is a number as written: an integer, a decimal, a fraction of integers that is no integer, or minus one."""
    if tree[0] == "neg":
        return _is_number(tree[1])
    if tree[0] != "/":
        return tree[0] == "number"
    top, bottom = (side[1] if side[0] == "neg" else side for side in tree[1:])
    if top[0] != "number" or bottom[0] != "number" or not bottom[1]:
        return False
    integers = top[1].denominator == bottom[1].denominator == 1
    return integers and (top[1] % bottom[1] != 0 or bottom[1] == 1)


@lru_cache(maxsize=50_000)
def form_of(gold: str, answer: str, problem: str | None) -> str | None:
    """Return `unevaluated` or `restated` for a canonical answer that equals a gold one but is not its form, else None."""
    if _PLAIN_NUMBER.fullmatch(answer):
        return None
    try:
        gold_node, answer_node = parse_node(gold), parse_node(answer)
        if problem and is_restated(gold_node, answer_node, problem):
            return "restated"
        return "unevaluated" if is_unevaluated(gold_node, answer_node) else None
    except RecursionError:
        return "unevaluated"

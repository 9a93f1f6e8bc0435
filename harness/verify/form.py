r"""The form of an answer: an answer that is equal to the gold one still counts only when nothing is left to work out.

Counted are operations. One is *open* where all of its operands are numbers and its value is rational: `3+27`, `2^{10}`, `5!`,
`\sqrt{16}`, `\frac{10}{2}`. A number has none: an integer, a decimal, `\frac{6}{4}`, a mixed number, `3\times 10^5`, with a sign, a
percent sign or a unit.
Where the gold answer is a number, the answer has to be one. Elsewhere the answer may use what the gold one uses, and a little more.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from functools import lru_cache

from harness.verify.read.formulas import Tree, formula_tree, rational_value
from harness.verify.read.nodes import Node, parse_node, strip_parentheses
from harness.verify.read.numbers import DECIMAL_DIGITS, compound, is_unit, split_unit
from harness.verify.read.relations import value_side

MORE_OPEN = 2  # open operations beyond the gold answer's, where that has such operations itself
MORE_OPERATIONS = 4  # operations of any kind beyond those of a gold answer without letters
_SCIENTIFIC = re.compile(
    r"([+-]?)\s*([\d.,]+)\s*(?:\\times|\\cdot|\*)\s*10\s*\^\s*[{(]?\s*([+-]?\s*\d+)\s*[)}]?"
)
_GREAT_POWER = re.compile(r"[+-]?10\s*\^\s*\{?\s*(?:[6-9]|\d{2,})\s*\}?")  # a million as `10^6`
_FUNCTIONS = {
    "factorial": r"!|\bfactorial\b|\\binom|\\choose|\bbinom", "logarithm": r"\\?\b(?:log|ln|lg)(?![a-z])|\\(?:log|ln|lg)",
    "trigonometry": r"\\?(?:arc)?(?:sin|cos|tan|cot|sec|csc|cis)h?(?![a-z])",
    "sum": r"\\(?:sum|prod|int|lim|bigcup)(?![a-z])|\b(?:sum|prod|int|lim)\b",
    "integer": r"\\?\b(?:gcd|lcm|max|min|floor|ceil|mod)(?![a-z])|\\(?:gcd|lcm|max|min|[lr]floor|[lr]ceil|mod)(?![a-z])|\bmod\b",
    "modulus": r"\||\babs\b", "derivative": r"\\frac\s*\{\s*d", "base": r"\d\s*_\s*\{?\d",
}  # fmt: skip
_CALLS = {name: re.compile(pattern) for name, pattern in _FUNCTIONS.items()}
_ADMITS = {"power": {"power", "product", "quotient"}, "factorial": {"factorial", "product", "quotient"}}
_OPERATORS = re.compile(r"(?<=[\w})!])\s*[-+*/^]|\\(?:cdot|times|frac|sqrt|div|pm)(?![a-z])")
_IMAGINARY_UNIT, _UNIT_NAME = re.compile(r"(?<![\\a-zA-Z])i(?![a-zA-Z])"), "Z"
_POWER_OF_NUMBER = re.compile(r"(?<![\w.}^_])\d+\s*\^\s*\{?\d")
_LETTER = re.compile(r"(?<![\\a-zA-Z])[a-zA-Z](?![a-zA-Z])")
_WRITTEN_WORDS = [
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
    """The operations of an answer: its operations, those of them that are open, functions by kind, and whether it has letters."""

    operations: int = 0
    open: Counter[str] = field(default_factory=Counter)
    functions: set[str] = field(default_factory=set)
    letters: bool = False
    plain: bool = True  # nothing but numbers

    def add(self, other: Use) -> None:
        """Count what a part uses."""
        self.operations += other.operations
        self.open += other.open
        self.functions |= other.functions
        self.letters = self.letters or other.letters
        self.plain = self.plain and other.plain


def unevaluated(gold: Node, answer: Node) -> bool:
    """Return whether an answer that equals the gold one leaves more to work out than that.

    A gold decimal of `DECIMAL_DIGITS` digits is a rounded one, which a closed form may stand for.

    Args:
        gold: the gold answer.
        answer: an answer of the same value.
    """
    if answer.kind in ("words", "base", "clock", "choice"):
        return False
    try:
        left, right = _value(gold, gold), _value(answer, gold)
        needed, said = use_of(left), use_of(right)
    except RecursionError:
        return True  # its form cannot be read
    if left.exact is not None and left.exact.unit is not None:
        del said.open["units"]
    if "10^" in left.text.replace(" ", ""):
        needed.open["power"] += 1  # scientific notation
    rounded = left.exact is not None and left.exact.decimals >= DECIMAL_DIGITS
    degrees = left.exact is not None and left.exact.unit == "degree" and r"\pi" in answer.text
    scalar = left.kind in ("exact", "quantity", "formula", "ratio")
    if scalar and needed.plain and not needed.open and not rounded and not degrees:
        return not said.plain or bool(said.open)
    allowed = set().union(*(_ADMITS.get(kind, {kind}) for kind in needed.open))
    more = MORE_OPEN if needed.open or left.kind == "relation" else 0
    if left.kind != "relation" and said.open.keys() - allowed:
        return True
    if said.open.total() > needed.open.total() + more:
        return True
    if needed.letters or not scalar:
        return False
    return bool(said.functions - needed.functions) or said.operations > needed.operations + MORE_OPERATIONS


def restated(gold: Node, answer: Node, problem: str) -> bool:
    """Return whether an answer only repeats what the problem's text says: an expression, or a quantity in another unit."""
    if gold.kind not in ("exact", "formula", "quantity") or len(problem) > _LONGEST_PROBLEM:
        return False
    side = _value(answer, gold)
    side = side.items[0] if side.kind == "quantity" else side
    said = written(side.text)
    if said == written(gold.text) or not _repeats(said, written(problem)):
        return False
    if side.exact is None:
        return use_of(side).operations > 0
    if gold.exact is None:
        return False
    scientific = "^" in side.text and "^" not in gold.text
    other_unit = side.exact.unit != gold.exact.unit and is_unit((side.exact.unit or "").partition("^")[0])
    converted = compound(side.text) is not None or (other_unit and side.exact.value != gold.exact.value)
    return scientific or converted or (side.exact.percent and not gold.exact.percent)


def open_operations(gold: Node) -> Counter[str]:
    """Return the operations that a gold answer leaves open, by kind; unreduced fractions are among them."""
    found = Counter(use_of(gold).open)
    if gold.exact is not None and "/" in (said := written(gold.text)) and not found:
        found["fraction"] = int(gold.exact.value.denominator != _written_denominator(said))
    return +found


@lru_cache(maxsize=4_096)
def written(text: str) -> str:
    """Return a text as it compares with another one in other notation: operators as signs, no spaces, braces and thousands."""
    text = text.lower()
    for pattern, replacement in _WRITTEN_WORDS:
        text = pattern.sub(replacement, text)
    return text


def use_of(node: Node) -> Use:
    """Return what an answer or gold answer uses."""
    if node.kind == "exact":
        return Use(open=_open_in_number(node))
    if node.kind in ("words", "choice", "base", "clock") and not node.items:
        return Use()
    if node.kind == "formula":
        return _use_of_formula(node.text)
    total = Use()
    for item in node.items:
        total.add(use_of(item))
    return total


def _value(node: Node, gold: Node) -> Node:
    """Return the side of an equation that is a value, where the gold answer is no equation; other nodes as they are."""
    if node.kind == "relation" and gold.kind != "list":
        strict = gold.kind == "relation"
        return value_side(node, strict=strict) or node
    return node


def _open_in_number(node: Node) -> Counter[str]:
    bare = strip_parentheses(split_unit(node.text)[0])
    assert node.exact is not None
    if compound(node.text) is not None:
        return Counter({"units": 1})
    if "dozen" in node.text.lower():
        return Counter({"product": 1})
    if match := _SCIENTIFIC.fullmatch(bare):
        size, power = float(match[2].replace(",", "")), int(match[3].replace(" ", ""))
        normal = 1 <= size < 10 or (1 <= size < 1000 and power % 3 == 0)
        return Counter() if normal and (power not in (0, 1) or "." in match[2]) else Counter({"product": 1})
    if "^" in bare and not _GREAT_POWER.fullmatch(bare):
        return Counter({"power": 1})
    divided = "/" in bare or r"\frac" in bare
    whole = node.exact.value.denominator == 1 and _written_denominator(written(bare)) != 1
    return Counter({"quotient": 1}) if divided and (whole or "." in bare) else Counter()


def _written_denominator(said: str) -> int:
    digits = re.match(r"\d+", said.rpartition("/")[2].lstrip("+-"))
    return int(digits[0]) if digits is not None else 0


def _repeats(said: str, problem: str) -> bool:
    """Return whether a problem says something, not as a part of longer numbers."""
    return re.search(rf"(?<![\d.]){re.escape(said)}(?![\d]|\.\d)", problem) is not None


def _use_of_formula(text: str) -> Use:
    tree = formula_tree(text) or formula_tree(_IMAGINARY_UNIT.sub(_UNIT_NAME, text))
    if tree is None:
        functions = {name for name, pattern in _CALLS.items() if pattern.search(text)}
        operators = len(_OPERATORS.findall(text))
        letters = any(letter not in "eid" for letter in _LETTER.findall(text))
        of_numbers = not _LETTER.search(text) and r"\pi" not in text  # open whatever their value
        calls = Counter(functions - {"modulus", "base"} if of_numbers else ())
        calls.update("power" for _ in _POWER_OF_NUMBER.findall("" if functions else text))
        return Use(len(functions) + operators, calls, functions, letters, plain=False)
    use = Use(letters=_has_letters(tree))
    _count(tree, use)
    use.plain = use.operations == 0 and rational_value(tree) is not None
    return use


def _has_letters(tree: Tree) -> bool:
    return (tree[0] == "name" and tree[1] != _UNIT_NAME) or any(
        _has_letters(part) for part in tree[1:] if isinstance(part, tuple)
    )


def _count(tree: Tree, use: Use) -> None:
    """Count the operations of a syntax tree; sums and products of several numbers are open wherever the numbers stand."""
    kind = tree[0]
    if kind in ("number", "name", "pi", "e") or _is_number(tree):
        return
    if kind == "neg":
        _count(tree[1], use)
        return
    name = {"+": "sum", "-": "sum", "*": "product", "/": "quotient", "^": "power", "root": "root"}[kind]
    parts = _chain(tree, name)
    use.operations += max(len(parts) - 1, 1)
    if name in ("sum", "product"):
        numbers = sum(rational_value(part) is not None for part in parts)
        if numbers > 1:
            use.open[name] += numbers - 1
        terms = [
            _without_number(part) for part in parts if rational_value(part) is None and not _has_letters(part)
        ]
        if name == "sum" and len(set(terms)) < len(terms):
            use.open[name] += len(terms) - len(set(terms))
    elif rational_value(tree) is not None:
        use.open[name] += 1
    for part in parts:
        _count(part, use)


def _chain(tree: Tree, name: str) -> list[Tree]:
    """Return the terms of a sum, the factors of a product, or the operands of another operation."""
    kinds = {"sum": ("+", "-"), "product": ("*",)}.get(name, ())
    if tree[0] not in kinds:
        return [part for part in tree[1:] if isinstance(part, tuple)] if not kinds else [tree]
    return [*_chain(tree[1], name), *_chain(tree[2], name)]


def _without_number(term: Tree) -> tuple[str, ...]:
    """Return what terms of a sum have in common that can be added: the factors that are no numbers."""
    term = term[1] if term[0] == "neg" else term
    return tuple(sorted(repr(part) for part in _chain(term, "product") if rational_value(part) is None))


def _is_number(tree: Tree) -> bool:
    """Return whether a tree is a number as written: an integer, a decimal, a fraction of integers that is no integer, or minus one."""
    if tree[0] == "neg":
        return _is_number(tree[1])
    if tree[0] != "/":
        return tree[0] == "number"
    sides = [side[1] if side[0] == "neg" else side for side in tree[1:]]
    if not all(side[0] == "number" and side[1].denominator == 1 for side in sides) or not sides[1][1]:
        return False
    return sides[0][1] % sides[1][1] != 0 or sides[1][1] == 1


@lru_cache(maxsize=50_000)
def form_of(gold: str, answer: str, problem: str | None) -> str | None:
    """Return `unevaluated` or `restated` for a canonical answer that equals a gold one but is not its form, else None."""
    if _PLAIN_NUMBER.fullmatch(answer):
        return None
    try:
        left, right = parse_node(gold), parse_node(answer)
        if problem and restated(left, right, problem):
            return "restated"
        return "unevaluated" if unevaluated(left, right) else None
    except RecursionError:
        return "unevaluated"

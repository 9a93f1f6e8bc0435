"""Keys that equal answers share, so that votes compare an answer with its neighbours alone."""

import math
from fractions import Fraction

from harness.verify.compare import value_forms
from harness.verify.read.answers import read_text
from harness.verify.read.expressions import names_of
from harness.verify.read.grammar import Node
from harness.verify.read.tokens import OverLimit
from harness.verify.read.values import NoValue, Number, is_real, value

_STEPS = 10**5
_UNKEYED = ("call", "mod")  # functions may be read in more ways than one; roots are not


def magnitudes(text: str) -> tuple[int, ...]:
    """Return keys of an answer: two answers that the verifier holds equal share one, or one of them has none.

    They are its value at fixed values of its letters, in steps far wider than any rounding, and the next step. What is compared by more
    than a value has none: units, percent, words, ratios, functions.
    """
    try:
        number = _magnitude(read_text(text))
    except (NoValue, OverLimit, RecursionError):
        return ()
    if number is None:
        return ()
    step = math.floor(number * _STEPS)
    return step, step + 1


def _magnitude(node: Node) -> Fraction | None:
    if node.unit or node.percent or node.modulus:
        return None
    if node.kind == "relation":
        forms = value_forms(node, strict=True)
        return _magnitude(forms[-1]) if len(node.items) == 2 and len(forms) == 1 else None
    if node.kind in ("formula", "choice") and not node.items:
        return _at_letters(node)
    is_decimal_comma = node.kind == "list" and len(node.items) == 2 and " " not in node.text  # `1,22`
    if node.kind not in ("list", "set", "bracket") or not node.items or is_decimal_comma:
        return None
    found = [_magnitude(item) for item in node.items]
    numbers = [number for number in found if number is not None]
    if len(numbers) < len(found):
        return None
    low, high = min(numbers), max(numbers)  # the same in any order, and with items said twice
    return low if low == high else high + 7 * low


def _at_letters(node: Node) -> Fraction | None:
    if node.tree is None or _has_calls(node.tree) or node.text.startswith((r"\emptyset", r"\mathbb")):
        return None
    point = {name: Fraction(3 + sum(map(ord, name)) % 97, 7) for name in names_of(node.tree)}
    number: Number = value(node.tree, point)
    if not is_real(number) or not abs(number) < 10**30:
        return None
    return number if isinstance(number, Fraction) else Fraction(str(number.real))


def _has_calls(tree: tuple[object, ...]) -> bool:
    is_call = tree[0] in _UNKEYED and tree[1] != "root"
    return is_call or any(_has_calls(part) for part in tree[1:] if isinstance(part, tuple))

"""Keys that equal answers share, so that votes compare an answer with its neighbours alone."""

import math
from fractions import Fraction

from harness.verify.compare import value_forms
from harness.verify.read.answers import read_text
from harness.verify.read.expressions import names_of
from harness.verify.read.grammar import Node
from harness.verify.read.tokens import OverLimit
from harness.verify.read.values import NoValue, calls, is_real, value

_STEPS = 10**5


def magnitudes(text: str) -> tuple[int, ...]:
    """Return keys of an answer: two answers that the verifier holds equal share one, or one of them has none.

    They are its value at fixed values of its letters, in steps far wider than any rounding, and the next step. What is compared by more
    than a value has none: units, percent, words, ratios, functions.
    """
    try:
        numbers = _numbers(read_text(text))
    except (NoValue, OverLimit, RecursionError):
        return ()
    low, high = min(numbers), max(numbers)  # the same in any order, and with items said twice
    step = math.floor((low if low == high else high + 7 * low) * _STEPS)
    return step, step + 1


def _numbers(node: Node) -> list[Fraction]:
    forms = value_forms(node, strict=True) if node.kind == "relation" and len(node.items) == 2 else ()
    if len(forms) == 1:
        return _numbers(forms[0])
    if node.kind in ("list", "set", "bracket") and node.items:
        return [number for item in node.items for number in _numbers(item)]
    is_measured = node.unit or node.percent or node.modulus or node.items
    # Functions may be read in more ways than one; roots are not.
    if (
        is_measured
        or node.tree is None
        or calls(node.tree) - {"root"}
        or node.text.startswith((r"\emptyset", r"\mathbb"))
    ):
        raise NoValue
    number = value(node.tree, {name: Fraction(3 + sum(map(ord, name)) % 97, 7) for name in names_of(node.tree)})
    if not is_real(number) or not abs(number) < 10**30:
        raise NoValue
    return [number if isinstance(number, Fraction) else Fraction(str(number.real))]

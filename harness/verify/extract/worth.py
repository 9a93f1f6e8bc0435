"""Numbers of sentences as exact values: whether a number is what an expression of numbers comes to."""

from __future__ import annotations

from harness.verify.read.formulas import formula_tree, rational_value
from harness.verify.read.numbers import parse_exact

VALUE = r"[-−+]?(?:\\?[$€£¥₹]\s?)?(?:\d++(?:,\d{3})*+(?:\.\d+)?+|\.\d++)"
_SIGNS_OF = (("plus", "+"), ("minus", "-"), ("times", "*"), ("over", "/"), ("boxed{", ""), ("%", "/100"))
_AS_SIGNS = str.maketrans("x×·÷−", "***/-", ",$€£¥₹\\ \n\t")


def same_value(left: str, right: str) -> bool:
    """Return whether two numbers are one, up to the decimals of one of them and to percent."""
    return is_worth(left, right) or is_worth(right, left)


def is_worth(number: str, worked: str) -> bool:
    """Return whether an expression of numbers has the value of a number, up to that number's decimals."""
    worked = worked.lower()
    for word, sign in _SIGNS_OF:
        worked = worked.replace(word, sign)
    tree, size = formula_tree(worked.translate(_AS_SIGNS)), parse_exact(number)
    value = rational_value(tree) if tree is not None else None
    if size is None or value is None:
        return size is None
    off = min(
        abs(value - size.value), abs(value - size.value / 100) if size.percent else abs(value - size.value)
    )
    return off * 10**size.decimals < 1 if size.decimals > 0 else off == 0

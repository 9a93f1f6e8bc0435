"""Equations told apart by a point, before any is solved. Imported in worker processes only.

A real point at which one equation holds and the other one clearly does not proves that they are not equivalent. Nothing is
ever accepted here: without such a point the question stays open.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import mpmath  # type: ignore[import-untyped]
import sympy
from mpmath.libmp import NoConvergence  # type: ignore[import-untyped]
from sympy.core.function import AppliedUndef

_DIGITS = 40
_ZERO = sympy.Float("1e-25")
_CLEARLY = sympy.Float("1e-6")
_MOST_NAMES = 4
_MOST_DEGREE = 4
_VALUES = ((3, 7), (-5, 3), (1, 2), (11, 13), (-2, 9))
_OTHER_MEANS = (
    sympy.Sum, sympy.Product, sympy.Integral, sympy.Limit, sympy.Derivative, sympy.factorial, sympy.binomial, sympy.floor,
    sympy.ceiling,
)  # fmt: skip
_NO_VALUE = (ArithmeticError, AttributeError, NotImplementedError, TypeError, ValueError)
_Sides = tuple[Any, Any]
_Point = dict[Any, Any]


def equations_differ(left: sympy.Eq, right: sympy.Eq) -> bool:
    """Return whether a real point was found that satisfies one of two equations and not the other.

    At the point the sides of the one are equal to 25 digits and those of the other differ by more than a millionth of their
    size. Of factorials, sums and integrals nothing is said.
    """
    first, second = _named(left), _named(right)
    if first is None or second is None:
        return False
    symbols = sorted({symbol for side in (*first, *second) for symbol in side.free_symbols}, key=str)
    if len(symbols) > _MOST_NAMES:
        return False
    for held, other in ((first, second), (second, first)):
        for point in _points_on(held, symbols):
            here, there = _gap(held, point), _gap(other, point)
            if here is not None and here < _ZERO and there is not None and there > _CLEARLY:
                return True
    return False


def _named(equation: sympy.Eq) -> _Sides | None:
    """Both sides in symbols that are a name and nothing else; a value `f(x)` of an unknown function is one of them."""
    sides = []
    for side in (equation.lhs, equation.rhs):
        if not isinstance(side, sympy.Expr) or side.has(*_OTHER_MEANS):
            return None
        plain = side.xreplace({call: sympy.Symbol(str(call)) for call in side.atoms(AppliedUndef)})
        sides.append(plain.xreplace({symbol: sympy.Symbol(str(symbol)) for symbol in plain.free_symbols}))
    return sides[0], sides[1]


def _points_on(equation: _Sides, symbols: list[Any]) -> Iterator[_Point]:
    """Real points of a curve: every symbol but one has a fixed value, the last one is the root of a polynomial."""
    difference = equation[0] - equation[1]
    for unknown in sorted(difference.free_symbols, key=str):
        for shift in (0, 2):
            values = (sympy.Rational(*_VALUES[(n + shift) % len(_VALUES)]) for n in range(len(symbols)))
            point = {
                symbol: value for symbol, value in zip(symbols, values, strict=True) if symbol != unknown
            }
            for root in _real_roots(difference.xreplace(point), unknown):
                yield point | {unknown: root}


def _real_roots(expression: Any, unknown: Any) -> list[Any]:
    """Real roots of a quotient of polynomials of low degree with rational coefficients; none of other expressions."""
    try:
        numerator = sympy.Poly(sympy.numer(sympy.together(expression)), unknown)
        coefficients = numerator.all_coeffs()
        if not 1 <= numerator.degree() <= _MOST_DEGREE or not all(c.is_Rational for c in coefficients):
            return []
        with mpmath.workdps(_DIGITS):
            numbers = [mpmath.mpf(int(c.p)) / int(c.q) for c in coefficients]
            roots = mpmath.polyroots(numbers, maxsteps=200, extraprec=4 * _DIGITS)
            return [sympy.Float(mpmath.re(root), _DIGITS) for root in roots if mpmath.im(root) == 0]
    except (sympy.PolynomialError, NoConvergence, *_NO_VALUE):
        return []


def _gap(equation: _Sides, point: _Point) -> Any | None:
    """Distance of the sides of an equation at a point, relative to one plus their size; None where they are not real."""
    try:
        left, right = (side.xreplace(point).evalf(_DIGITS) for side in equation)
    except _NO_VALUE:
        return None
    if not all(value.is_Number and value.is_finite and value.is_real for value in (left, right)):
        return None
    return abs(left - right) / (1 + abs(left) + abs(right))

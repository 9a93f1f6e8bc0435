"""Two formulas compared with Math-Verify and sympy. Imported in worker processes only.

Math-Verify parses and has the first word on sets and relations; numbers and expressions are decided by values at
high precision, because its own comparison rounds to six decimals and chops small differences to zero.
"""

from __future__ import annotations

import logging
import random
import re
from collections.abc import Iterator
from fractions import Fraction
from functools import lru_cache
from typing import Any

import mpmath  # type: ignore[import-untyped]
import sympy
from latex2sympy2_extended import NormalizationConfig, latex2sympy
from latex2sympy2_extended.latex2sympy2 import ConversionConfig
from math_verify import parse, verify
from math_verify.grader import should_treat_as_complex
from sympy import Basic, MatrixBase
from sympy.core.relational import Relational

from harness.verify.compare.answers import AnswerComparison, rounds_to
from harness.verify.read.canonical import squeeze
from harness.verify.read.formulas import FAR
from harness.verify.read.nodes import parse_node
from harness.verify.read.numbers import DECIMAL_DIGITS, parse_exact

_BARE_LOG = re.compile(r"\\log(?![a-zA-Z])(?!\s*_)")
_DISCRETE = (sympy.Sum, sympy.Product, sympy.factorial, sympy.binomial)
_UNDONE = (sympy.Sum, sympy.Product, sympy.Integral, sympy.Limit, sympy.Derivative)
_DIGITS = 40
_POINTS = 3
_FAR_VALUES = 1e-20, 1e100  # beyond them digits may have been lost
_EXACT_BELOW = 10**12
_MOST_DIGITS = 1_200
logging.getLogger("math_verify").setLevel(logging.ERROR)


def grade(gold: str, answer: str, percent: str) -> tuple[str, str]:
    """Return verdict and method (`algebra`, or `math_verify` where that decided) of two canonical texts: structure, then formulas."""
    methods = {"algebra"}

    def leaf(gold: str, answer: str) -> bool:
        equal, method = formulas_equal(gold, answer)
        methods.add(method)
        return equal

    try:
        equal = AnswerComparison(percent, leaf).equal(parse_node(gold), parse_node(answer))
    except Unparsable:
        return "gold_unparsable", "algebra"
    except MemoryError:
        return "killed", "memory"
    except RecursionError:
        return "over_limit", "algebra"
    except Exception as error:
        return "error", f"algebra:{type(error).__name__}"
    return "right" if equal else "wrong", max(methods)  # `math_verify` comes last


def formulas_equal(gold: str, answer: str) -> tuple[bool, str]:
    """Return whether two formulas have one value, and what decided: `algebra` or `math_verify`. Raises `Unparsable`: of the gold one."""
    if r"\ln" in gold and not _BARE_LOG.search(gold):
        # Beside `\ln` the logarithm without a base is the natural one.
        answer = _BARE_LOG.sub(r"\\ln", answer)
    left = parse_formula(gold)
    try:
        right = parse_formula(answer)
    except Unparsable:
        return False, "algebra"
    equal = _equal_by_value(left, right, gold, answer)
    if equal is not None:
        return equal, "algebra"
    equal = bool(verify(left, right, timeout_seconds=None)) and not _only_numeric_noise(left, right)
    return equal, "math_verify"


def _equal_by_value(left: Any, right: Any, gold: str, answer: str) -> bool | None:
    """Return whether two parsed formulas are equal where values decide; None for what Math-Verify has to tell."""
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    if is_expression(left) and is_expression(right):
        return _expressions_equal(left, right, gold, answer)
    if isinstance(left, Relational) and isinstance(right, Relational):
        return _relations_equal(left, right)
    return None


def _relations_equal(left: Any, right: Any) -> bool | None:
    """Return whether one relation is a multiple of the other: by a negative factor only where the sign turns round."""
    if not all(is_expression(side) for side in (left.lhs, left.rhs, right.lhs, right.rhs)):
        return None
    equations = isinstance(left, sympy.Eq) and isinstance(right, sympy.Eq)
    ratio = _constant_ratio(left.lhs - left.rhs, right.lhs - right.rhs)
    if ratio is None:
        return None
    if ratio == 0:
        return None if equations else False
    return type(right) is type(left if ratio > 0 else left.reversed)


def _constant_ratio(left: Any, right: Any) -> int | None:
    """Sign of the real factor between two expressions, 0 when there is none, None when values are missing."""
    if {str(s) for s in left.free_symbols} != {str(s) for s in right.free_symbols}:
        return 0
    ratios = []
    points = _points(left, right)
    for point in points:
        values = _value(left, point), _value(right, point)
        if values[0] is None or values[1] is None or abs(values[1]) < 1e-30:
            return None
        ratios.append(values[0] / values[1])
    for _, first, second in _far_values(left, right, points):
        if abs(second) < 1e-30:
            return 0
        ratios.append(first / second)
    if not ratios or any(not _is_close(ratio, ratios[0]) for ratio in ratios) or abs(ratios[0].imag) > 1e-25:
        return 0
    return 1 if ratios[0].real > 0 else -1


def _expressions_equal(left: Any, right: Any, gold: str, answer: str) -> bool | None:
    if _is_undefined(left) or _is_undefined(right):
        return squeeze(gold) == squeeze(answer)
    if left == right:
        return True
    if not left.free_symbols and not right.free_symbols:
        return _numbers_equal(left, right, gold, answer)
    return _equal_at_points(left, right)


def _is_undefined(expression: Any) -> bool:
    """Return whether a division by zero stands anywhere in an expression; such a one equals nothing but itself."""
    if expression.has(sympy.nan, sympy.zoo):
        return True
    return any(power.base.is_zero and power.exp.is_negative for power in expression.atoms(sympy.Pow))


def _numbers_equal(left: Any, right: Any, gold: str, answer: str) -> bool | None:
    for text, other in ((gold, right), (answer, left)):
        exact = parse_exact(text)
        if exact is not None and exact.decimals >= DECIMAL_DIGITS:
            value = _value(other, {})
            if value is None or abs(mpmath.im(value)) > mpmath.mpf(10) ** -30:
                return None
            return rounds_to(Fraction(mpmath.nstr(mpmath.re(value), 35)), exact)
    rationals = _rational(left), _rational(right)
    if rationals[0] is not None and rationals[1] is not None:
        return bool(rationals[0] == rationals[1])
    return _same_value(left, right, {}, _value(left, {}), _value(right, {}))


def _rational(expression: Any) -> Any | None:
    """The exact value of an expression of rational numbers only, else None."""
    if not all(atom.is_Rational for atom in expression.atoms() if atom.is_Atom):
        return None
    value = expression.doit()
    return value if value.is_Rational else None


def _same_value(left: Any, right: Any, point: dict[Any, Any], first: Any, second: Any) -> bool | None:
    """Return whether two expressions with these values at a point are equal there; huge values are compared to their last units."""
    if first is None or second is None:
        return None
    if not _is_close(first, second):
        return False
    scale = max(abs(first), abs(second))
    magnitude = int(mpmath.log10(scale)) if scale > _EXACT_BELOW else 0
    if magnitude == 0 or left == right:
        return True
    if magnitude > _MOST_DIGITS:
        return False
    digits = _DIGITS + magnitude
    first, second = _value(left, point, digits), _value(right, point, digits)
    if first is None or second is None:
        return None
    with mpmath.workdps(digits):
        return bool(abs(first - second) <= mpmath.mpf(10) ** -20)


def _value(expression: Any, point: dict[Any, Any], digits: int = _DIGITS) -> Any | None:
    """The value at a point as an mpmath number of so many digits, None when it has none."""
    try:
        expression = expression.subs(point) if point else expression
        value = expression.doit().evalf(digits) if expression.has(*_UNDONE) else expression.evalf(digits)
        real, imaginary = value.as_real_imag()
        if not (real.is_Number and imaginary.is_Number) or not (real.is_finite and imaginary.is_finite):
            return None
        with mpmath.workdps(digits):
            return mpmath.mpc(mpmath.mpf(str(real)), mpmath.mpf(str(imaginary)))
    except MemoryError:
        raise
    except Exception:
        return None


def _is_close(left: Any, right: Any) -> bool:
    with mpmath.workdps(_DIGITS):
        scale = max(abs(left), abs(right))
        if scale < mpmath.mpf(10) ** -35 and min(abs(left), abs(right)) == 0:
            return True  # an exact zero against the rounding noise of one
        return bool(abs(left - right) <= scale * mpmath.mpf(10) ** -25)


def _equal_at_points(left: Any, right: Any) -> bool | None:
    """Equality at fixed positive points, and where one letter is negative or all are far out and both values are real."""
    evidence, points = False, _points(left, right)
    for number, point in enumerate(points):
        values = _value(left, point), _value(right, point)
        if values[0] is None or values[1] is None:
            continue
        if number >= _POINTS and (abs(values[0].imag) > 1e-20 or abs(values[1].imag) > 1e-20):
            continue
        same = _same_value(left, right, point, *values)
        if same is False:
            return False
        evidence = evidence or same is True
    if any(_same_value(left, right, *far) is False for far in _far_values(left, right, points)):
        return False
    return True if evidence else None


def _far_values(left: Any, right: Any, points: list[dict[Any, Any]]) -> Iterator[tuple[dict[Any, Any], Any, Any]]:
    """A point far out and both values there, where they are real and of a size: once for every sign in `_points`."""
    symbols = {str(symbol) for symbol in left.free_symbols | right.free_symbols}
    if left.has(*_DISCRETE, *_UNDONE) or right.has(*_DISCRETE, *_UNDONE):
        return
    if any(power.exp.free_symbols for side in (left, right) for power in side.atoms(sympy.Pow)):
        return  # an exact power of a million digits
    for near in [points[0], *points[_POINTS : _POINTS + len(symbols)]] if symbols else []:
        point = {symbol: value * FAR for symbol, value in near.items()}
        first, second = _value(left, point), _value(right, point)
        if first is None or second is None or abs(first.imag) > 1e-20 or abs(second.imag) > 1e-20:
            continue
        if _FAR_VALUES[0] < max(abs(first), abs(second)) < _FAR_VALUES[1]:
            yield point, first, second


def _points(left: Any, right: Any) -> list[dict[Any, Any]]:
    r"""Fixed rational points, `_POINTS` positive ones first, then some with one negative value; symbols of one name get one value.

    One sign is turned at a time: `\sqrt{hg}` asks of h and g to have one sign, and physics asks for the positive one.
    """
    symbols = left.free_symbols | right.free_symbols
    names = sorted({str(symbol) for symbol in symbols})
    generator = random.Random(20_240)
    discrete = left.has(*_DISCRETE) or right.has(*_DISCRETE)
    negative_names = [] if discrete or not names else names * max(1, _POINTS // len(names))
    points = []
    for negative in [*[""] * (_POINTS if names else 1), *negative_names]:
        values = {name: _symbol_value(generator, -1 if name == negative else 1, discrete) for name in names}
        points.append({symbol: values[str(symbol)] for symbol in symbols})
    return points


def _symbol_value(generator: random.Random, sign: int, discrete: bool) -> Any:
    if discrete:
        return sympy.Integer(generator.randint(3, 14))
    return sympy.Rational(generator.randint(1_000, 9_000), generator.choice((2_003, 3_001, 4_001))) * sign


def _only_numeric_noise(left: Any, right: Any) -> bool:
    """Return whether Math-Verify called two plain numbers equal that are not."""
    if not (is_expression(left) and is_expression(right)):
        return False
    values = _value(left, {}), _value(right, {})
    return values[0] is not None and values[1] is not None and not _is_close(values[0], values[1])


_NORMALIZE = NormalizationConfig(
    basic_latex=True, units=False, malformed_operators=True, nits=True, boxed="none", equations=False
)
_CONVERT = ConversionConfig(lowercase_symbols=False)
_TRIG_DEGREES = re.compile(
    r"(\\(?:sin|cos|tan|cot|sec|csc)\s*(?:\^\s*\{?\s*-?\d\s*\}?)?\s*)"
    r"(?:\(\s*(\d+(?:\.\d+)?)\s*\^\\circ\s*\)|\{\s*(\d+(?:\.\d+)?)\s*\^\\circ\s*\}|(\d+(?:\.\d+)?)\s*\^\\circ)"
)
_PERCENT = re.compile(r"\s*\\?%")
_ARCUS_CALL = re.compile(r"(?<![a-zA-Z\\])ar?(sinh?|cosh?|tanh?)(?=\s*[({])")
_PLAIN_CALLS = (
    (re.compile(r"(?<![a-zA-Z\\])factorial\s*\(([^()]*)\)"), r"(\1)!"),
    (re.compile(r"(?<![a-zA-Z\\])[Aa]bs\s*\(([^()]*)\)"), r"|\1|"),
    (re.compile(r"(?<![a-zA-Z\\])binomial\s*\(([^(),]*),([^(),]*)\)"), r"\\binom{\1}{\2}"),
    (re.compile(r"(?<![a-zA-Z\\])log\s*\(([^(),]*),([^(),]*)\)"), r"\\log_{\2}(\1)"),
    (re.compile(r"(?<![a-zA-Z\\])cbrt\s*\(([^()]*)\)"), r"\\sqrt[3]{\1}"),
    (re.compile(r"(?<![a-zA-Z\\])ceiling(?=\s*\()"), r"\\ceil"),
    (re.compile(r"(?<![a-zA-Z\\])(?:Max|Min|Mod)(?=\s*\()"), lambda match: "\\" + match[0].lower()),
)
_IMPLICIT_CALL = re.compile(
    r"(?<![a-zA-Z\\])(sin|cos|tan|cot|sec|csc|log|ln|exp|arcsin|arccos|arctan|sinh|cosh|tanh|gcd|lcm|min|max|floor|ceil)(?![a-zA-Z])"
)


def _replace_floats(value: Any) -> Any:
    """Decimals as the fractions that they write."""
    floats = value.atoms(sympy.Float) if isinstance(value, Basic) else ()
    return value.xreplace({number: sympy.Rational(str(number)) for number in floats}) if floats else value


def _replace_imaginary_unit(value: Any) -> Any:
    """The parser reads `i` as a letter."""
    if not is_expression(value):
        return value
    letters = {symbol: sympy.I for symbol in value.free_symbols if str(symbol) == "i"}
    return value.subs(letters) if letters else value


class Unparsable(Exception):
    """A formula that the parser does not read."""


@lru_cache(maxsize=512)
def parse_formula(text: str) -> Any:
    """The sympy object of a canonical text. Raises `Unparsable`: the parser rejects it."""
    if "!!" in text:
        raise Unparsable(f"{text!r}: a double factorial")
    latex = _PERCENT.sub(r" \\cdot \\frac{1}{100}", text)
    if "(" in latex:
        latex = _ARCUS_CALL.sub(r"\\arc\1", latex)
        for pattern, replacement in _PLAIN_CALLS:
            latex = pattern.sub(replacement, latex)
    latex = _IMPLICIT_CALL.sub(r"\\\1", latex)
    if "\\circ" in latex:
        latex = _TRIG_DEGREES.sub(r"\1(\\frac{\2\3\4 \\pi}{180})", latex).replace(r"^\circ", "")
    try:
        value = latex2sympy(
            latex,
            is_real=not should_treat_as_complex(latex),
            normalization_config=_NORMALIZE,
            conversion_config=_CONVERT,
        )
        return _replace_imaginary_unit(_replace_floats(value))
    except (RecursionError, MemoryError):
        raise
    except Exception as error:
        raise Unparsable(f"{text!r}: {error}") from error


def is_expression(value: Any) -> bool:
    """Return whether a value is a scalar expression: no relation, set or matrix."""
    return isinstance(value, sympy.Expr) and not isinstance(value, (MatrixBase, sympy.MatrixExpr, Relational))


def grade_response(gold: str, response: str) -> tuple[str, str]:
    """Return (verdict, method) of a response, by Math-Verify's own extraction and rules."""
    gold_latex = gold if "$" in gold or "\\boxed" in gold else f"\\boxed{{{gold}}}"
    try:
        gold_formulas = parse(gold_latex, parsing_timeout=None)
        if not gold_formulas:
            return "gold_unparsable", "plain_math_verify"
        right = verify(gold_formulas, parse(response, parsing_timeout=None), timeout_seconds=None)
    except MemoryError:
        return "killed", "memory"
    except RecursionError:
        return "over_limit", "plain_math_verify"
    except Exception as error:
        return "error", f"plain_math_verify:{type(error).__name__}"
    return "right" if right else "wrong", "plain_math_verify"

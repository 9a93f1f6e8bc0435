r"""Values of syntax trees: exact as `Fraction` while they stay rational, else real or complex numbers of 250 digits.

Two expressions are equal when they have one value at fixed points (Schwartz 1980, Zippel 1979). Unknowns take positive values, then one
of them a negative one, where only points count at which both values are real; then the same far out. What takes long, or is none of the
small language (sums, integrals, limits), has no value here.
"""

import math
import threading
from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import lru_cache
from typing import Any

from harness.verify.read.expressions import Tree, names_of

Number = Any  # Fraction, or mpf or mpc of mpmath
Point = Mapping[str, Number]
# A decimal with at least so many decimals and four significant digits equals an exact value that rounds to it, or a longer decimal
# that does: 0.333333 equals 1/3, 0.33 does not.
DECIMAL_DIGITS = 6
_LEAST_DIGITS = 4
_DIGITS = 250
_TOLERANCE = 200  # digits that decide
_HUGE = 150  # digits before the point, above which so few are left behind it that equality tells nothing
_MAX_BITS = 60_000  # of a fraction
_MAX_FACTORIAL = 3_000
_MAX_MAGNITUDE = 100_000  # bits before the point of what is no fraction
_FAR = 10_000  # times a point, so that `|x-2024|` turns before it
_COORDINATES = [Fraction(n, 1000) for n in (2857, 4013, 1301, 1433, 2927, 7331, 5171, 3607)]
_LOCAL = threading.local()
_DISCRETE = frozenset(("factorial", "binom", "gcd", "lcm", "mod"))
_STEPS, _WHOLE = frozenset(("floor", "ceil")), frozenset("ijkmnKMN")  # functions with steps, names of integers


class NoValue(Exception):
    """An expression without a value here: too large, undefined, or of an unknown function."""


def _mpmath() -> Any:
    """Return mpmath with so many digits, for this thread; it is loaded at the first value that is no fraction."""
    if not hasattr(_LOCAL, "context"):
        import mpmath  # type: ignore[import-untyped]

        _LOCAL.context = mpmath.MPContext()
        _LOCAL.context.dps = _DIGITS
    return _LOCAL.context


def value(tree: Tree, point: Point) -> Number:
    """Return the value of a tree where its unknowns have these values. Raises `NoValue`."""
    try:
        return _value(tree, point)
    except (ArithmeticError, AttributeError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise NoValue from error


@lru_cache(maxsize=20_000)
def constant(tree: Tree) -> Number | None:
    """Return the value of a tree without unknowns, None for other trees."""
    try:
        return value(tree, {})
    except NoValue:
        return None


def as_real(number: Number) -> Number:
    """Return a number as mpmath's, which compares with any other."""
    return _mpmath().convert(number)


def is_real(number: Number) -> bool:
    """Return whether a value has no imaginary part."""
    return isinstance(number, Fraction) or not hasattr(number, "_mpc_") or abs(number.imag) < abs(number) * 1e-60


def _value(tree: Tree, point: Point) -> Number:
    kind = tree[0]
    if kind in ("number", "name"):
        return tree[1] if kind == "number" else point[tree[1]]
    if kind == "constant":
        mp = _mpmath()
        return {"pi": +mp.pi, "e": +mp.e, "i": mp.mpc(0, 1), "infinity": mp.inf}[tree[1]]
    name = tree[1] if kind == "call" else kind
    parts = [_value(part, point) for part in tree[1:] if isinstance(part, tuple)]
    number = _EXACT[name](*parts) if name in _EXACT and all(isinstance(part, Fraction) for part in parts) else None
    if number is None:
        number = _approximate(name, [as_real(part) for part in parts], _mpmath())
    if isinstance(number, Fraction):
        is_large = number.numerator.bit_length() + number.denominator.bit_length() > _MAX_BITS
    else:
        mp = _mpmath()
        is_large = mp.isnan(number) or (number != 0 and mp.isfinite(number) and abs(mp.mag(number)) > _MAX_MAGNITUDE)
    if is_large:
        raise NoValue  # it takes too long to go on with
    return number


def _approximate(name: str, x: list[Any], mp: Any) -> Number:
    if name in _ARITHMETIC:
        return _ARITHMETIC[name](*x)
    if name in ("log", "lg", "log_base"):
        return mp.log(x[-1]) / mp.log(x[0] if name == "log_base" else 10)
    if name == "root":
        is_negative = int(x[1]) % 2 and mp.im(x[0]) == 0 and mp.re(x[0]) < 0
        return -mp.root(-mp.re(x[0]), int(x[1])) if is_negative else mp.root(x[0], int(x[1]))
    bound = abs(x[1]) * max(1, abs(mp.mag(x[0]))) if name == "^" and x[0] else max(map(abs, x))
    if (bound > _MAX_MAGNITUDE and name not in ("abs", "ln")) or (name == "^" and not x[0]):
        raise NoValue
    if name in _STEPS and abs(x[0] - mp.nint(x[0])) < mp.mpf(10) ** -_TOLERANCE:
        return mp.nint(x[0])
    if name == "degree":
        return x[0] * mp.pi / 180
    if name == "cis":
        return mp.exp(mp.mpc(0, 1) * x[0])
    return getattr(mp, _MPMATH.get(name, name))(*x)


def _exact_power(base: Fraction, exponent: Fraction) -> Fraction | None:
    if exponent.denominator > 1:
        root = _exact_root(base, Fraction(exponent.denominator))
        return None if root is None or base < 0 else _exact_power(root, Fraction(exponent.numerator))
    bits = base.numerator.bit_length() + base.denominator.bit_length()
    if (base == 0 and exponent <= 0) or abs(exponent.numerator) * bits > _MAX_BITS:
        raise NoValue
    return base**exponent.numerator


def _exact_root(number: Fraction, degree: Fraction) -> Fraction | None:
    """Return the root of a rational number where it is rational: that of a negative one for odd degrees only."""
    sign, n = -1 if number < 0 and degree % 2 else 1, degree.numerator
    parts = [sign * number.numerator, number.denominator]
    if parts[0] < 0 or n > 100 or max(parts).bit_length() > 1_000:
        return None
    roots = [math.isqrt(part) if n == 2 else round(part ** (1 / n)) for part in parts]
    return sign * Fraction(*roots) if [root**n for root in roots] == parts else None


def _of_integers(function: Any) -> Any:
    def call(*numbers: Fraction) -> Fraction | None:
        if function in (math.factorial, math.comb) and not 0 <= numbers[0] <= _MAX_FACTORIAL:
            raise NoValue
        is_whole = all(number.denominator == 1 for number in numbers)
        return Fraction(function(*(number.numerator for number in numbers))) if is_whole else None

    return call


_ARITHMETIC: dict[str, Any] = {
    "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b, "/": lambda a, b: a / b, "neg": lambda a: -a,
    "percent": lambda a: a / 100, "max": lambda *x: max(x), "min": lambda *x: min(x), "abs": abs,
}  # fmt: skip
_EXACT: dict[str, Any] = _ARITHMETIC | {
    "^": _exact_power, "root": _exact_root, "floor": lambda x: Fraction(math.floor(x)), "ceil": lambda x: Fraction(math.ceil(x)),
    "factorial": _of_integers(math.factorial), "binom": _of_integers(math.comb), "gcd": _of_integers(math.gcd),
    "lcm": _of_integers(math.lcm), "mod": _of_integers(lambda a, b: a % b),
}  # fmt: skip
_MPMATH = {f"arc{name}": f"a{name}" for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh")}
_MPMATH |= {"ln": "log", "binom": "binomial", "^": "power"}


def numbers_equal(a: Number, b: Number) -> bool:
    """Return whether two values are equal: exactly where both are fractions, else to 200 digits."""
    if isinstance(a, Fraction) and isinstance(b, Fraction):
        return a == b
    a, b, mp = as_real(a), as_real(b), _mpmath()
    if mp.isinf(a) or mp.isinf(b):
        return bool(a == b)
    scale = max(abs(a), abs(b))
    is_noise = scale < mp.mpf(10) ** (20 - _DIGITS)  # an exact zero against the rounding of one
    return is_noise or bool(abs(a - b) <= scale * mp.mpf(10) ** -_TOLERANCE)


def trees_equal(gold: Tree, answer: Tree) -> bool | None:
    """Return whether two expressions are equal, None where their values do not tell."""
    names = sorted({*names_of(gold), *names_of(answer)})
    if len(names) > len(_COORDINATES):
        return None
    called = calls(gold) | calls(answer)
    is_discrete = not _DISCRETE.isdisjoint(called) or (not _STEPS.isdisjoint(called) and _WHOLE.issuperset(names))
    found = [_equal_at(gold, answer, *point) for point in _points(names, is_discrete)]
    return False if False in found else True if True in found else None


def _equal_at(gold: Tree, answer: Tree, point: Point, must_be_real: bool) -> bool | None:
    try:
        a, b = value(gold, point), value(answer, point)
        if isinstance(a, Fraction) and isinstance(b, Fraction):
            return a == b
        if must_be_real and not (is_real(a) and is_real(b)):
            return None
        is_equal = numbers_equal(a, b)
        return None if is_equal and 10**_HUGE < abs(as_real(a)) < _mpmath().inf else is_equal
    except NoValue:
        return None


def _points(names: list[str], is_discrete: bool) -> Iterator[tuple[Point, bool]]:
    """Yield fixed points for unknowns, and whether only real values count there."""
    if is_discrete or not names:
        for turn in range(12 if names else 1):
            yield {name: Fraction(2 + (5 * place + 7 * turn) % 37) for place, name in enumerate(names)}, False
        return
    near = [dict(zip(names, _COORDINATES[turn:] + _COORDINATES[:turn], strict=False)) for turn in range(3)]
    far = [{name: number * _FAR for name, number in point.items()} for point in near[:2]]
    yield from ((point, False) for point in near)
    yield from ((point, True) for point in [*far, {name: number / 10 for name, number in near[0].items()}])
    # One sign at a time: `\sqrt{hg}` asks of h and g to have one sign, and physics for the positive one.
    yield from (({**point, name: -point[name]}, True) for point in (*near, far[0]) for name in names)


def calls(tree: Tree) -> set[str]:
    """Return the functions that a tree uses, `mod` among them."""
    name = {tree[1]} if tree[0] == "call" else {"mod"} if tree[0] == "mod" else set()
    return name.union(*(calls(part) for part in tree[1:] if isinstance(part, tuple)))


def ratio_sign(gold: Tree, answer: Tree) -> int | None:
    """Return the sign of the rational factor between two expressions, 0 where there is none, None where values do not tell."""
    try:
        point = next(_points(sorted({*names_of(gold), *names_of(answer)}), False))[0]
        a, b = value(gold, point), value(answer, point)
    except NoValue:
        return None
    if not (isinstance(a, Fraction) and isinstance(b, Fraction) and a and b):
        return 1 if trees_equal(gold, answer) else None
    return (1 if a / b > 0 else -1) if trees_equal(gold, ("*", ("number", a / b, -1), answer)) else 0


def rounds_to(exact: Number, decimal: Fraction, decimals: int, least: int = DECIMAL_DIGITS) -> bool:
    """Return whether a decimal of so many decimals, `least` at least, is another number, rounded or cut there."""
    is_short = decimals < least or (least == DECIMAL_DIGITS and abs(decimal) * 10**decimals < 10 ** (_LEAST_DIGITS - 1))
    if is_short or not is_real(exact) or not abs(exact) < 10**30:
        return False
    exact = exact if isinstance(exact, Fraction) else Fraction(str(exact.real))
    is_cut = int(exact * 10**decimals) == decimal * 10**decimals
    return is_cut or abs(exact - decimal) * 2 * 10**decimals <= 1

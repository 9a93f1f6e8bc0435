"""What spares computer algebra: the quick parser reads what the full one reads, and points tell only different equations apart."""

from __future__ import annotations

import pytest
import sympy
from latex2sympy2_extended.latex2sympy2 import latex2sympy

from harness.verify import MathVerifier
from harness.verify.compare.latex_reader import Unparsable, parse_formula
from harness.verify.compare.symbolic import equations_differ

x, y = sympy.symbols("x y", real=True)
TEXTS = [
    r"x^2+y", "(x+1)", "(x+1)(x-2)", "[1,2)", "(1,2)", r"\{1,2\}", "1,2", "x=3", "2x+1=y", "x<3", r"1<x\le 2", r"x\in\{1,2\}", r"\pm 2",
    r"\frac{\pi^2}{6}", r"e^{-x}(a+bx)", r"\frac{x^n}{n!}", r"\sum_{k=1}^{10}k^2", r"\int_0^1 x^2 dx", r"\gcd(12,18)", r"\sin^2 x+\cos 2x",
    r"\log_2 8", r"\sqrt[3]{x}", r"\frac{d}{dx}x^2", r"|x-2|", r"\mathbb{R}", r"(0,1)\cup(2,3)", r"\emptyset", r"-\frac{1}{2}", "x;y",
    "f(x)=x^2", r"\begin{pmatrix}1&2\\3&4\end{pmatrix}", r"\binom{n}{k}", r"\lim_{x\to 0}\frac{\sin x}{x}", "x_1+x_2",
    r"2\cdot 3^{n-1}", r"\infty",
]  # fmt: skip


@pytest.mark.parametrize("text", TEXTS)
def test_a_text_is_read_as_latex2sympy_reads_it(text: str) -> None:
    from harness.verify.compare.latex_reader import _CONVERT, _NORMALIZE, normalize_latex

    expected = latex2sympy(
        normalize_latex(text, _NORMALIZE),
        is_real=True,
        normalization_config=None,
        conversion_config=_CONVERT,
    )
    assert repr(parse_formula(text)) == repr(expected)


@pytest.mark.parametrize("text", ["x+", r"\frac{1}", "3 4 +* 5", ")("])
def test_what_latex2sympy_does_not_read_is_unparsable(text: str) -> None:
    with pytest.raises(Unparsable):
        parse_formula(text)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (sympy.Eq((x - 1) ** 2 + y**2, 9), sympy.Eq((x + 1) ** 2 + y**2, 9)),
        (sympy.Eq(y, 2 * x), sympy.Eq(y, 2 * x + sympy.Rational(1, 1000))),
        (sympy.Eq(y**2, 4 * x), sympy.Eq(y, 2 * sympy.sqrt(x))),  # the lower branch is missing
        (sympy.Eq(y, 1 / x), sympy.Eq(x * y, 2)),
        (sympy.Eq(sympy.Function("f")(x), x**2), sympy.Eq(sympy.Function("f")(x), x**3)),
    ],
)
def test_different_equations_have_a_point_that_tells_them_apart(left: sympy.Eq, right: sympy.Eq) -> None:
    assert equations_differ(left, right)
    assert equations_differ(right, left)


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (sympy.Eq(y, 2 * x), sympy.Eq(x, y / 2)),
        (sympy.Eq(x**3, 8), sympy.Eq(x, 2)),  # complex roots do not count
        (sympy.Eq(x * y, 1), sympy.Eq(y, 1 / x)),
        (sympy.Eq(x**2, 3), sympy.Eq(sympy.Abs(x), sympy.sqrt(3))),
        (sympy.Eq((x - y) ** 2, 0), sympy.Eq(x, y)),
        (
            sympy.Eq(x**2 + y**2, -1, evaluate=False),
            sympy.Eq(x**2 + y**2, -2, evaluate=False),
        ),  # no real point: nothing proven
        (sympy.Eq(sympy.factorial(x), 6), sympy.Eq(x, 3)),  # outside of its means
    ],
)
def test_equivalent_equations_are_never_told_apart(left: sympy.Eq, right: sympy.Eq) -> None:
    assert not equations_differ(left, right)
    assert not equations_differ(right, left)


@pytest.mark.parametrize(
    ("gold", "answer", "right"),
    [
        ("(x-1)^2+(y+2)^2=9", "x^2-2x+y^2+4y=4", True),
        ("(x-1)^2+(y+2)^2=9", "x^2-2x+y^2+4y=5", False),
        ("x+y^2=1", "x=1-y^2", True),
        ("x+y^2=1", "x=1+y^2", False),
        (r"y^2=4x", r"y=2\sqrt{x}", False),
        ("(x-1)^2+(y+2)^2=9", "(a,b,c)=(3,-2,1)", False),
    ],
)
def test_equations_keep_their_verdicts(verifier: MathVerifier, gold: str, answer: str, right: bool) -> None:
    assert verifier.verify(rf"\boxed{{{answer}}}", gold).verdict == ("right" if right else "wrong")

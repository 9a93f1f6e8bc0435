from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.verify import MathVerifier
from harness.verify.read.expressions import expression
from harness.verify.read.tokens import tokenize
from harness.verify.read.values import trees_equal

IDENTITIES = [
    ("(x+1)^2", "x^2+2x+1"),
    (r"\frac{x^2-1}{x-1}", "x+1"),
    (r"\frac{\sqrt{3}}{3}", r"\frac{1}{\sqrt{3}}"),
    (r"\sqrt{4+2\sqrt{3}}", r"1+\sqrt{3}"),
    (r"\frac{2\pi r^3}{3}", r"\frac{2}{3}\pi r^3"),
    (r"e^{x+1}", r"e \cdot e^x"),
    (r"x^{1/2}", r"\sqrt{x}"),
    (r"10^{\frac{\sqrt{13}-5}{6}}", r"10^{-\frac{5-\sqrt{13}}{6}}"),
    ("2^{n+1}-2", "2(2^n-1)"),
    (r"\frac{a}{b}", "a/b"),
    ("xy", "yx"),
]
DIFFERENT = [
    ("(x+1)^2", "x^2+2x"),
    (r"\sqrt{x^2}", "x"),
    (r"\sqrt{(x-5)^2}", "5-x"),
    (r"\sqrt{(x+2024)^2}", "x+2024"),
    (r"\frac{2^{2024}-1}{3}", r"\frac{2^{2024}+2}{3}"),
    ("1/2^{99}", "1/2^{98}"),
    ("X^2", "x^2"),
    ("a", "b"),
    ("x-1", "1-x"),
    ("e^2", "e^3"),
]


def equal_at_points(left: str, right: str) -> bool | None:
    trees = [expression(tokenize(text)) for text in (left, right)]
    return None if trees[0] is None or trees[1] is None else trees_equal(*trees)


@pytest.mark.parametrize(("left", "right"), IDENTITIES + DIFFERENT)
def test_this_reader_tells_identities_and_computer_algebra_agrees(
    verifier: MathVerifier, left: str, right: str
) -> None:
    case = (left, right, "either")
    assert equal_at_points(left, right) is ((left, right) in IDENTITIES)
    assert verifier.pool.answers([case])[case][0] == ("right" if (left, right) in IDENTITIES else "wrong")


@pytest.mark.parametrize(
    "text",
    [
        "1/2x", "f(x)", r"\sum_{k=1}^{3} k", "2^{2^{9}}^2", "9^{99999}", "1 2", "x=1", "(", "",
    ],
)  # fmt: skip
def test_formulas_of_another_language_are_left_to_computer_algebra(text: str) -> None:
    assert equal_at_points(text, "x") is None


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.integers(-9, 9), min_size=1, max_size=4),
    st.lists(st.integers(-9, 9), min_size=1, max_size=4),
    st.integers(1, 5),
)
def test_products_of_polynomials_equal_their_expansion_and_nothing_else(
    left: list[int], right: list[int], change: int
) -> None:
    expanded = [0] * (len(left) + len(right) - 1)
    for i, a in enumerate(left):
        for j, b in enumerate(right):
            expanded[i + j] += a * b
    product = f"({_polynomial(left)})({_polynomial(right)})"
    assert equal_at_points(product, _polynomial(expanded)) is True
    expanded[0] += change
    assert equal_at_points(product, _polynomial(expanded)) is False


def _polynomial(coefficients: list[int]) -> str:
    return "".join(f"{a:+d}x^{{{n}}}" for n, a in enumerate(coefficients))

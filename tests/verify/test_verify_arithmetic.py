from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st
from tables import table

from harness.verify import MathVerifier
from harness.verify.read.expressions import expression
from harness.verify.read.tokens import tokenize
from harness.verify.read.values import trees_equal


def equal_at_points(left: str, right: str) -> bool | None:
    trees = [expression(tokenize(text)) for text in (left, right)]
    return None if trees[0] is None or trees[1] is None else trees_equal(*trees)


@table(__file__, "identities", "left, right")
def test_this_reader_tells_identities_and_computer_algebra_agrees(
    verifier: MathVerifier, left: str, right: str
) -> None:
    case = (left, right, "either")
    assert equal_at_points(left, right) is True
    assert verifier.pool.answers([case])[case][0] == "right"


@table(__file__, "different", "left, right")
def test_it_tells_what_differs_and_computer_algebra_agrees(verifier: MathVerifier, left: str, right: str) -> None:
    case = (left, right, "either")
    assert equal_at_points(left, right) is False
    assert verifier.pool.answers([case])[case][0] == "wrong"


@table(__file__, "foreign", "text")
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

"""The second grader: the last numeral of a response for golds that are numerals, plain Math-Verify for others."""

from __future__ import annotations

import pytest
from tables import table

from harness.verify import MathVerifier
from harness.verify.cross_check import gold_value, last_numeral_is


@table(__file__, "right", "response, gold")
def test_the_last_numeral_has_the_value_of_the_gold(response: str, gold: str) -> None:
    assert gold_value(gold) is not None
    assert last_numeral_is(response, gold)


@table(__file__, "wrong", "response, gold")
def test_the_last_numeral_is_another_or_there_is_none(response: str, gold: str) -> None:
    assert gold_value(gold) is not None
    assert not last_numeral_is(response, gold)
    assert not last_numeral_is("9" * 5000, "9")


@pytest.mark.parametrize("gold", ["x^2", "2^{10}", r"\sqrt{2}", "1010_2", "(1,2)", "3+4", r"\frac{6}{3}", "5 cm", ""])
def test_other_golds_are_no_numerals(gold: str) -> None:
    assert gold_value(gold) is None


def test_golds_that_are_no_numerals_go_to_math_verify_under_the_clocks_of_the_pool() -> None:
    pairs = [
        (r"so \boxed{x^2-1}", "(x-1)(x+1)"),
        (r"the answer is $\frac{\pi}{2}$", r"\frac{\pi}{2}"),
        (r"$(3,4)$", r"\left( 3, \frac{\pi}{2} \right)"),
        (r"\boxed{9^{9^{9^9}}}", r"\sqrt{2}"),
        ("the answer is 30", "30"),
    ]
    with MathVerifier() as verifier:
        assert verifier.second_many(pairs) == [True, True, False, None, True]

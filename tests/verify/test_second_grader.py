"""The second grader: the last numeral of a response for golds that are numerals, plain Math-Verify for others."""

from __future__ import annotations

import pytest

from harness.verify import MathVerifier
from harness.verify.cross_check import gold_value, last_numeral_is

RIGHT = [
    ("4 x 10 is 40.", "40"),
    ("so it is 1,234 dollars", "1234"),
    (r"$1{,}234$", "1,234"),
    (r"$1\,234\,567$", "1234567"),
    ("27.0", "27"),
    (".5", "1/2"),
    ("0.35625", ".35625"),
    ("0.0000672", "$.0000672$."),
    (r"\frac{3}{4}", "0.75"),
    (r"-\dfrac34", "-3/4"),
    (r"\frac{-3}{4}", r"-\frac{3}{4}"),
    ("6/4", "1.5"),
    ("1 1/2", "3/2"),
    (r"1\frac{1}{2}", "1.5"),
    ("x = -4.", "-4"),
    ("it is −4", "-4"),
    (r"\boxed{-4}", "-4"),
    ("10-4", "4"),
    (r"50\%", "0.5"),
    ("0.5", r"50\%"),
    ("50%", "50"),
    ("50 cm^2", "50"),
    (r"50 \text{ cm}^{2}", r"\$50"),
    ("x_{12} = 7 of H2O", "7"),
    (r"90^\circ", r"90^{\circ}"),
    ("so **30**.<|im_end|>", r"$\boxed{30}$"),
    ("3.2e5", "320000"),
    (r"it is $3\times10^{-2}$", "0.03"),
    ("1.5 × 10^3", "1,500"),
    ("3*10**5", r"3 \cdot 10^5"),
    ("4 x 10^2 = 7", "7"),
    ("... #### 72", "9 * 8 = 72 #### 72"),
]
WRONG = [
    ("3 + 27 is 27.", "30"),
    ("27 - 13 is 27 with a remainder of 13.", "14"),
    (r"\boxed{26+24}", "50"),
    (r"\boxed{\sum_{i=1}^{50} 1}", "50"),
    ("2^{10}", "1024"),
    ("12 * 10^2", "1200"),
    ("4 x 10^2 = 7", "400"),
    ("H2e5", "200000"),
    ("x^2", "2"),
    ("H2O", "2"),
    ("12/4", "3"),
    ("10 - 4", "-4"),
    ("5000%", r"50\%"),
    ("0.333333", "1/3"),
    ("1/0", "0"),
    ("9" * 5000, "9"),
    ("", "3"),
]


@pytest.mark.parametrize(("response", "gold"), RIGHT)
def test_the_last_numeral_has_the_value_of_the_gold(response: str, gold: str) -> None:
    assert gold_value(gold) is not None
    assert last_numeral_is(response, gold)


@pytest.mark.parametrize(("response", "gold"), WRONG)
def test_the_last_numeral_is_another_or_there_is_none(response: str, gold: str) -> None:
    assert gold_value(gold) is not None
    assert not last_numeral_is(response, gold)


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

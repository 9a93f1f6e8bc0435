"""Defects that were found by reading: each input had another verdict before."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.verify import MathVerifier, VerifierConfig
from harness.verify.read.numbers import is_unit

LETTERS = st.text("abcdfghjklmnopqrstuvwxyz", min_size=2, max_size=5).filter(lambda text: not is_unit(text))


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 99), LETTERS)
def test_a_monomial_never_equals_its_coefficient(verifier: MathVerifier, number: int, letters: str) -> None:
    assert not verifier.verify(rf"\boxed{{{number}}}", f"{number}{letters}").correct
    assert not verifier.verify(rf"\boxed{{{number}{letters}}}", str(number)).correct


# Extraction and verdict to pairs of gold and response.
CASES = {
    ("boxed", "wrong"): [
        ("6xyz", r"\boxed{6}"), ("6xyz", r"\boxed{6pqr}"), ("2abc", r"\boxed{2}"), (r"\frac{1}{2}xyz", r"\boxed{\frac12}"),
        ("-3xyz", r"\boxed{-3abc}"), ("4", r"\boxed{4Actually}"),  # letters behind a number are no unit
        ("30", r"\boxed{31 = 30}"), ("30", r"\boxed{30 \text{ is wrong}}"), ("30", r"\boxed{30 \text{ or something else}}"),
        ("|x|+y<5", r"\boxed{x+y<5}"),
        *(("5", rf"\boxed{{5 {w}}}") for w in ("factorial", "squared", "cubed", "halves", "tens", "plus", "minus", "hundred")),
        *(("5", rf"\boxed{{5\text{{{words}}}}}") for words in (" plus 3", ", but 6", " no wait 6", " squared", " no", "!", "=6", "/2")),
        ("3", r"\boxed{3 quarters}"), ("2", r"\boxed{2 thirds}"), ("50", r"\boxed{50 negative}"),
        *(("42", rf"\boxed{{{side}=42}}") for side in ("3+4", "6/4", r"\sqrt{2}", "41.5", "3+4=x")), ("1", r"\boxed{0.9=1}"),
        ("5/2", r"\boxed{2-1/2}"), ("1/3", r"\boxed{0.333334}"), ("-1/3", r"\boxed{-0.333332}"), ("2/3", r"\boxed{0.666668}"),
    ],
    ("boxed", "right"): [
        ("b^2c^2+a^2b^2", r"\boxed{a^2b^2+b^2c^2}"), ("x^3y^3+3x^2y^2+3xy+1", r"\boxed{3x^2y^2+x^3y^3+3xy+1}"),
        ("x^6y^4-x^8y^2+x^{10}", r"\boxed{x^{10}-x^8y^2+x^6y^4}"),
        (r"120^\circ", r"\boxed{\frac{2\pi}{3}\text{ radians}}"), ("12", r"\boxed{12 (twelve)}"), ("|x|+y<5", r"\boxed{2|x|+2y<10}"),
        ("500", r"\boxed{5 hundred}"), ("5/2", r"\boxed{2 1/2}"), ("2/3", r"\boxed{0.666666}"), ("2/3", r"\boxed{0.666667}"),
        *(("5", rf"\boxed{{5{unit}}}") for unit in (" people", r"\text{ years old}", r"\text{ N}", r"\ \mathrm{cm^2}")),
        ("5", r"\boxed{5 rpm}"), ("5", r"\boxed{5 times}"), ("5", r"\boxed{5\text{ red marbles}}"),
        ("1", r"\boxed{1\text{ way}}"), ("7", r"\boxed{7 total}"),
        *(("50", rf"\boxed{{{side}=50}}") for side in ("x", "e", "26+24=x")), ("1.41", r"\boxed{\sqrt{2}=1.41}"),
    ],
    ("boxed", "no_answer"): [("42", r"\fbox{41} and \boxed{42}"), ("42", r"\boxed{41} and \boxed{42}")],
    ("answer_line", "right"): [
        ("42", "Answer: 42\n\nExplanation: there are 3 red and 4 green apples, so 3 + 4 = 7 apples in each box."),
        ("42", "The answer is 42. Note that 6 + 1 = 7."),
        ("1", "The answer is 1. First, 2 + 2 = 4."),
        ("42", "The answer is 42 since we need at least 40 + 1 = 41 and must be even."),
        ("42", "Answer: 42 of the 100 students"),
        ("42", "The answer is 42 out of 100."),
        ("42", "The answer is the total return (in dollars) of 42."),
        ("no", "Answer: No, because 7 is prime"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(("extraction", "verdict"), CASES)
def test_these_answers_get_this_verdict(extraction: str, verdict: str) -> None:
    cases = CASES[extraction, verdict]
    with MathVerifier(VerifierConfig(extraction=extraction, answer_must_end=False)) as verifier:
        found = verifier.verify_many([(response, gold) for gold, response in cases])
    assert [case for case, one in zip(cases, found, strict=True) if one.verdict != verdict] == []


def test_an_unreduced_fraction_of_the_problem_is_a_number(verifier: MathVerifier) -> None:
    problem = "3/6 of a class are girls. What fraction are boys?"
    assert verifier.verify(r"\boxed{3/6}", "1/2", problem).verdict == "right"


def test_the_method_is_math_verify_only_where_that_decided(verifier: MathVerifier) -> None:
    assert verifier.verify(r"\boxed{1-\cos^2 x}", r"\sin^2 x").method == "algebra"
    assert verifier.verify(r"\boxed{a^2+b^2=c}", "a^2+b^2=c^2").method == "math_verify"

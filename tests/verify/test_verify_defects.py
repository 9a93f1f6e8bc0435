"""Defects that were found by reading: each input had another verdict before."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.verify import MathVerifier, VerifierConfig
from harness.verify.read.numbers import is_unit

LETTERS = st.text("abcdfghjklmnopqrstuvwxyz", min_size=2, max_size=5).filter(lambda text: not is_unit(text))


def _verdict(extraction: str, response: str, gold: str, problem: str | None = None) -> str:
    with MathVerifier(VerifierConfig(extraction=extraction, answer_must_end=False)) as verifier:
        return verifier.verify(response, gold, problem).verdict


@pytest.mark.parametrize(
    ("gold", "answer"),
    [("6xyz", "6"), ("6xyz", "6pqr"), ("2abc", "2"), (r"\frac{1}{2}xyz", r"\frac12"), ("-3xyz", "-3abc"), ("4", "4Actually")],
)  # fmt: skip
def test_letters_behind_a_number_are_no_unit(gold: str, answer: str) -> None:
    assert _verdict("boxed", rf"\boxed{{{answer}}}", gold) == "wrong"


@settings(max_examples=40, deadline=None)
@given(st.integers(2, 99), LETTERS)
def test_a_monomial_never_equals_its_coefficient(verifier: MathVerifier, number: int, letters: str) -> None:
    assert not verifier.verify(rf"\boxed{{{number}}}", f"{number}{letters}").correct
    assert not verifier.verify(rf"\boxed{{{number}{letters}}}", str(number)).correct


@pytest.mark.parametrize(
    ("gold", "answer"),
    [
        ("b^2c^2+a^2b^2", "a^2b^2+b^2c^2"),
        ("x^3y^3+3x^2y^2+3xy+1", "3x^2y^2+x^3y^3+3xy+1"),
        ("x^6y^4-x^8y^2+x^{10}", "x^{10}-x^8y^2+x^6y^4"),
        (r"\sin x+c", r"\sin x+C"),
        (r"120^\circ", r"\frac{2\pi}{3}\text{ radians}"),
        ("12", "12 (twelve)"),
    ],
)
def test_equal_answers_in_other_notations_are_right(gold: str, answer: str) -> None:
    assert _verdict("boxed", rf"\boxed{{{answer}}}", gold) == "right"


@pytest.mark.parametrize(
    ("gold", "response"),
    [
        (
            "42",
            "Answer: 42\n\nExplanation: there are 3 red and 4 green apples, so 3 + 4 = 7 apples in each box.",
        ),
        ("42", "The answer is 42. Note that 6 + 1 = 7."),
        ("1", "The answer is 1. First, 2 + 2 = 4."),
        ("42", "The answer is 42 since we need at least 40 + 1 = 41 and must be even."),
        ("42", "Answer: 42 of the 100 students"),
        ("42", "The answer is 42 out of 100."),
        ("42", "The answer is the total return (in dollars) of 42."),
        ("no", "Answer: No, because 7 is prime"),
    ],
)
def test_an_answer_line_says_its_first_value_and_ends_with_its_line(gold: str, response: str) -> None:
    assert _verdict("answer_line", response, gold) == "right"


@pytest.mark.parametrize("first", [r"\fbox{41}", r"\boxed{41}"])
def test_two_boxes_side_by_side_are_no_answer_whatever_their_command(first: str) -> None:
    assert _verdict("boxed", rf"{first} and \boxed{{42}}", "42") == "no_answer"


def test_an_unreduced_fraction_of_the_problem_is_a_number() -> None:
    problem = "3/6 of a class are girls. What fraction are boys?"
    assert _verdict("boxed", r"\boxed{3/6}", "1/2", problem) == "right"


@pytest.mark.parametrize("answer", ["31 = 30", r"30 \text{ is wrong}", r"30 \text{ or something else}"])
def test_a_box_that_contradicts_itself_is_wrong(answer: str) -> None:
    assert _verdict("boxed", rf"\boxed{{{answer}}}", "30") != "right"


def test_an_absolute_value_in_a_relation_is_told_from_its_inside() -> None:
    assert _verdict("boxed", r"\boxed{x+y<5}", "|x|+y<5") == "wrong"
    assert _verdict("boxed", r"\boxed{2|x|+2y<10}", "|x|+y<5") == "right"


def test_the_method_is_math_verify_only_where_that_decided(verifier: MathVerifier) -> None:
    assert verifier.verify(r"\boxed{1-\cos^2 x}", r"\sin^2 x").method == "algebra"
    assert verifier.verify(r"\boxed{a^2+b^2=c}", "a^2+b^2=c^2").method == "math_verify"

"""The form of an answer: attacks by class, none of which counts, and honest answers, all of which do (`form_cases.jsonl`)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tables import json_lines

from harness.verify import MathVerifier

CASES = json_lines(Path(__file__).parent / "form_cases.jsonl")


@pytest.mark.parametrize("extraction", ["boxed", "answer_line"])
def test_every_case_gets_its_verdict(verifiers: Callable[..., MathVerifier], extraction: str) -> None:
    cases = [case for case in CASES if case["extraction"] == extraction]
    pairs = [(case["response"], case["gold"]) for case in cases]
    verdicts = verifiers(extraction).verify_many(pairs, [case.get("problem") for case in cases])
    differing = [(case, v.verdict) for case, v in zip(cases, verdicts, strict=True) if v.verdict != case["verdict"]]
    assert differing == []


@pytest.mark.parametrize(
    ("gold", "answer"),
    [("50", "26+24"), ("120", "5!"), ("4", r"\sqrt{16}"), (r"25\pi", r"5^2\pi"), ("(3,2)", "(1+2,2)")],
)
def test_the_value_alone_counts_where_that_is_asked(
    verifiers: Callable[..., MathVerifier], gold: str, answer: str
) -> None:
    assert verifiers().verify(rf"\boxed{{{answer}}}", gold).verdict == "unevaluated"
    assert verifiers(form="value").verify(rf"\boxed{{{answer}}}", gold).correct
    assert verifiers(form="value").fingerprint() != verifiers().fingerprint()


def test_what_repeats_the_problem_is_unevaluated_only_where_the_problem_is_known(verifier: MathVerifier) -> None:
    answer, gold = r"\boxed{(x+1)^2}", "x^2+2x+1"
    assert verifier.verify(answer, gold).verdict == "right"
    assert verifier.verify(answer, gold, "Expand $(x+1)^2$.").verdict == "unevaluated"
    assert verifier.verify(answer, gold, "Expand $(x+11)^2$.").verdict == "right"
    assert verifier.verify(rf"\boxed{{{gold}}}", gold, f"Write {gold}").verdict == "right"
    assert verifier.verify(r"\boxed{20\%}", "20", "A shop takes 20% off.").verdict == "right"
    assert verifier.verify(r"\boxed{3/6}", "1/2", "3/6 of a class are girls.").verdict == "right"


def test_an_answer_nested_too_deeply_is_wrong_and_no_error(verifier: MathVerifier) -> None:
    for depth in (20, 30, 300, 3000):
        nested = "(" * depth + "1" + "+1)" * depth
        assert not verifier.verify(rf"\boxed{{{nested}}}", str(depth + 1)).correct


@pytest.mark.parametrize("gold", ["1,2,3", r"\{3,2,1\}", r"\boxed{1}, \boxed{2}, \boxed{3}", "3"])
def test_boxes_side_by_side_are_one_answer_where_the_gold_has_as_many_values(verifier: MathVerifier, gold: str) -> None:
    verdict = verifier.verify(r"\boxed{1}, \boxed{2}, \boxed{3}", gold).verdict
    assert verdict == ("no_answer" if gold == "3" else "right")


@pytest.mark.parametrize(
    ("gold", "other"), [("C", "B"), (r"\text{(C)}", r"\text{(B)}"), ("(3,4)", "(1,2)"), ("no", "yes"), ("x=3", "x=4")]
)
def test_boxes_that_do_not_agree_answer_nothing_where_the_gold_is_one_value(
    verifier: MathVerifier, gold: str, other: str
) -> None:
    assert verifier.verify(rf"\boxed{{{other}}} or \boxed{{{gold}}}", gold).verdict == "no_answer"
    assert verifier.verify(rf"\boxed{{{gold}}}, \boxed{{{gold}}}", gold).verdict == "right"


@pytest.mark.parametrize("response", [r"\boxed{7}", r"\boxed{7}\boxed{7}", r"\boxed{\boxed{7}", r"\boxed{}\boxed{7}"])
def test_an_integer_in_the_last_box_is_the_answer(verifier: MathVerifier, response: str) -> None:
    found = verifier.verify(response, "7")
    assert (found.verdict, found.answer) == ("right", "7")

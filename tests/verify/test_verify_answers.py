"""Tables of answers: `answers.jsonl` by what a sentence or a box says, `pairs.jsonl` by what two answers are, one case a line."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tables import json_lines

from harness.verify import MathVerifier, VerifierConfig, is_no_answer

_HERE = Path(__file__).parent
_ROOM = _HERE.parents[1] / "harness" / "verify"


ANSWERS, PAIRS = json_lines(_HERE / "answers.jsonl"), json_lines(_HERE / "pairs.jsonl")


@pytest.mark.parametrize("kind", sorted({row["kind"] for row in ANSWERS}))
def test_answers_of_every_kind_are_read(verifiers: Callable[..., MathVerifier], kind: str) -> None:
    wrong = []
    for extraction in ("boxed", "answer_line", "any"):
        rows = [row for row in ANSWERS if row["kind"] == kind and row["extraction"] == extraction]
        cases = [((row["response"], row["gold"]), row.get("problem"), bool(row.get("truncated"))) for row in rows]
        verdicts = verifiers(extraction, extraction == "boxed").verify_many(*zip(*cases, strict=True)) if cases else ()
        wrong += [(row, v.verdict) for row, v in zip(rows, verdicts, strict=True) if v.correct != row["right"]]
    assert wrong == []


@pytest.mark.parametrize("kind", sorted({row["kind"] for row in PAIRS}))
def test_equal_answers_are_right_and_near_misses_wrong(verifier: MathVerifier, kind: str) -> None:
    for row in PAIRS:
        if row["kind"] == kind:
            gold, answer = row["gold"], row["answer"]
            boxed = verifier.verify(f"So we get $\\boxed{{{answer}}}$.", gold).verdict
            assert boxed == ("right" if row["right"] else "wrong"), row
            if row["right"]:
                assert verifier.verify(answer, f"${gold}$").verdict == "right", row
                assert verifier.equivalent_many([(gold, answer), (answer, gold)]) == [True, True], row


@pytest.mark.parametrize(("policy", "right"), [("either", {"50", "0.5"}), ("value", {"0.5"}), ("number", {"50"})])
def test_percent_policy_says_what_fifty_percent_is(policy: str, right: set[str]) -> None:
    with MathVerifier(VerifierConfig(percent=policy)) as verifier:
        assert {a for a in ("50", "0.5", "5", "5000") if verifier.verify(f"\\boxed{{{a}}}", r"50\%").correct} == right


@pytest.mark.parametrize("gold", ["", "?", "...", "N/A", "None", "see figure", "unknown", "—", "[blank]"])
def test_what_stands_for_a_missing_answer_is_no_gold(verifier: MathVerifier, gold: str) -> None:
    assert verifier.refuses_gold(gold)
    assert is_no_answer(gold)


@pytest.mark.parametrize("gold", ["none", "42", "x", r"\emptyset", "no solution", "seed", "0", ">"])
def test_words_and_numbers_can_be_golds(verifier: MathVerifier, gold: str) -> None:
    assert not is_no_answer(gold)
    assert not verifier.refuses_gold(gold)


@pytest.mark.parametrize(
    ("response", "verdict"),
    [("so it is 42", "no_answer"), ("Answer: 42", "no_answer"), ("Answer: 42\nNow", "right"), (r"\boxed{42} an", "right")],
)  # fmt: skip
def test_a_response_that_was_cut_off_has_a_closed_box_or_a_whole_line(
    verifier: MathVerifier, response: str, verdict: str
) -> None:
    assert verifier.verify(response, "42").verdict == "right"
    assert verifier.verify(response, "42", truncated=True).verdict == verdict


def test_numbers_of_thousands_of_digits_are_probed_and_compared(verifier: MathVerifier) -> None:
    assert verifier.probe_golds(["9^{9999}", "3 hours 20 x min"]) == {"3 hours 20 x min": ["own text only"]}
    assert not verifier.verify(r"\boxed{9^{9999}}", "101_{10}").correct


def test_the_reader_is_a_grammar_and_no_heap_of_patterns() -> None:
    sources = [path.read_text() for path in _ROOM.rglob("*.py")]
    compiled, others = (
        sum(len(re.findall(pattern, source)) for source in sources)
        for pattern in (r"re\.compile\(", r"re\.(?:search|match|fullmatch|sub|split|findall)\(")
    )
    assert compiled <= 40
    assert others <= 12

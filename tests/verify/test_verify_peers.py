"""What other projects' graders test, in our words: `peer_cases.jsonl`, one case a line.

`source` names the project whose tests or rules a case follows (`ours` for none), `note` the convention where projects disagree;
docs/evaluation.md lists those. Cases with `form` have the value of the gold answer and are left to work out: right by their value only.
`pytest -s` prints the answers that are rejected though they are right, by family.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from tables import json_lines

from harness.verify import MathVerifier, Verdict

CASES = json_lines(Path(__file__).parent / "peer_cases.jsonl")


@pytest.fixture(scope="module")
def verdicts(verifier: MathVerifier) -> list[Verdict]:
    return verifier.verify_many([(case["response"], case["gold"]) for case in CASES])


def test_no_wrong_answer_is_accepted_and_few_right_ones_are_rejected(verdicts: list[Verdict]) -> None:
    graded = [pair for pair in zip(CASES, verdicts, strict=True) if "form" not in pair[0]]
    accepts = [case for case, verdict in graded if verdict.correct and not case["right"]]
    rejects = Counter(case["family"] for case, verdict in graded if case["right"] and not verdict.correct)
    print(f"\nrejected though right, of {len(graded)}: {dict(rejects)}")
    assert accepts == []
    assert rejects.total() <= 0.017 * len(graded)  # sentences and rare notations, which are not read


def test_answers_left_to_work_out_are_right_by_their_value_alone(
    verdicts: list[Verdict], verifiers: Callable[..., MathVerifier]
) -> None:
    left = [(case, verdict) for case, verdict in zip(CASES, verdicts, strict=True) if "form" in case]
    assert {verdict.verdict for _, verdict in left} == {"unevaluated"}
    by_value = verifiers(form="value").verify_many([(case["response"], case["gold"]) for case, _ in left])
    assert all(verdict.correct for verdict in by_value)


DATA = Path(__file__).parents[2].parent / "shared" / "data"
pytestmark = pytest.mark.skipif(not DATA.exists(), reason="no shared/data beside the checkout")


@pytest.mark.parametrize("name", ["aime24", "aime25", "amc23", "gsm8k_test", "gsm8k_train", "math500"])
def test_every_gold_is_readable_and_right_against_itself(verifier: MathVerifier, name: str) -> None:
    golds = sorted({row["answer"] for row in json_lines(DATA / "benchmarks" / f"{name}.jsonl")})
    verdicts = verifier.verify_many([(f"Therefore \\boxed{{{gold}}}.", gold) for gold in golds])
    assert [gold for gold, verdict in zip(golds, verdicts, strict=True) if not verdict.correct] == []
    assert [gold for gold in golds if verifier.refuses_gold(gold)] == []


@pytest.mark.parametrize("name", ["gsm8k_4_samples", "math_8_samples"])
def test_recorded_samples_get_the_verdicts_they_are_labelled_with(verifier: MathVerifier, name: str) -> None:
    rows = json_lines(DATA / "recorded" / f"{name}.jsonl")
    cases = [(sample, str(row["answer"])) for row in rows for sample in row["samples"]]
    labels = [label for row in rows for label in row["labels"]]
    verdicts = verifier.verify_many(cases)
    differing = [case for case, verdict, label in zip(cases, verdicts, labels, strict=True) if verdict.correct != label]
    assert differing == []

"""The benchmarks' gold answers and recorded samples that stand beside a checkout."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.verify import MathVerifier

DATA = Path(__file__).parents[2].parent / "shared" / "data"
pytestmark = pytest.mark.skipif(not DATA.exists(), reason="no shared/data beside the checkout")


def _rows(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").split("\n") if line]


@pytest.mark.parametrize("name", ["aime24", "aime25", "amc23", "gsm8k_test", "gsm8k_train", "math500"])
def test_every_gold_is_readable_and_right_against_itself(verifier: MathVerifier, name: str) -> None:
    golds = sorted({str(row["answer"]) for row in _rows(DATA / "benchmarks" / f"{name}.jsonl")})
    verdicts = verifier.verify_many([(f"Therefore \\boxed{{{gold}}}.", gold) for gold in golds])
    assert [gold for gold, verdict in zip(golds, verdicts, strict=True) if not verdict.correct] == []
    assert [gold for gold in golds if not verifier.check_gold(gold).correct] == []


@pytest.mark.parametrize("name", ["gsm8k_4_samples", "math_8_samples"])
def test_recorded_samples_get_the_verdicts_they_are_labelled_with(verifier: MathVerifier, name: str) -> None:
    rows = _rows(DATA / "recorded" / f"{name}.jsonl")
    cases = [(sample, str(row["answer"])) for row in rows for sample in row["samples"]]  # type: ignore[attr-defined]
    labels = [label for row in rows for label in row["labels"]]  # type: ignore[attr-defined]
    verdicts = verifier.verify_many(cases)
    differing = [
        case for case, verdict, label in zip(cases, verdicts, labels, strict=True) if verdict.correct != label
    ]
    assert differing == []

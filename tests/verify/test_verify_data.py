"""The benchmarks' gold answers and recorded samples that stand beside a checkout."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.verify import MathVerifier

DATA = Path(__file__).parents[2].parent / "shared" / "data"
pytestmark = pytest.mark.skipif(not DATA.exists(), reason="no shared/data beside the checkout")


def _rows(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("name", ["aime24", "aime25", "amc23", "gsm8k_test", "gsm8k_train", "math500"])
def test_every_gold_is_readable_and_right_against_itself(verifier: MathVerifier, name: str) -> None:
    golds = sorted({str(row["answer"]) for row in _rows(DATA / "benchmarks" / f"{name}.jsonl")})
    verdicts = verifier.verify_many([(f"Therefore \\boxed{{{gold}}}.", gold) for gold in golds])
    assert [gold for gold, verdict in zip(golds, verdicts, strict=True) if not verdict.correct] == []
    assert [gold for gold in golds if not verifier.check_gold(gold).correct] == []

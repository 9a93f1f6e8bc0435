"""Tables of documents that come from published results say what the results say."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def test_the_table_of_sentences_is_that_of_the_claims() -> None:
    script = runpy.run_path(str(ROOT / "experiments" / "claims" / "findings.py"))
    page = (ROOT / "experiments" / "claims" / "sentences.md").read_text(encoding="utf-8")
    assert script["update_page"](page) == page, "run python experiments/claims/findings.py"
    with pytest.raises(ValueError, match="two marks"):
        script["update_page"]("# Sentences")


def test_the_two_regimes_are_compared_by_the_published_seeds(capsys: pytest.CaptureFixture[str]) -> None:
    runpy.run_path(str(ROOT / "experiments" / "language_ladder" / "regimes.py"), run_name="__main__")
    lines = capsys.readouterr().out.strip().splitlines()
    page = (ROOT / "experiments" / "language_ladder" / "README.md").read_text(encoding="utf-8").replace("**", "")
    assert len(lines) == 6
    for line in lines:
        assert line.split("|", 2)[2] in page, line

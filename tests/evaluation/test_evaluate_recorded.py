"""Recorded generations: exact numbers by `harness evaluate samples=` and `regrade=`, and what is read or refused, by a table of lines."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from verbs import Said, jsonl

from harness.cli import main
from harness.evaluation.recorded import read_recorded


def evaluate(path: Path, out: Path, *more: str) -> dict[str, Any]:
    assert main(["evaluate", f"samples={path}", f"out={out}", *more]) == 0
    return dict(json.loads((out / "summary.json").read_text()))


A = [r"\boxed{0.5}", r"\boxed{\frac12}", r"\boxed{3}", "?"]
B = [r"\boxed{8}", r"\boxed{8}", r"\boxed{7}", r"\boxed{7}"]
TWO = [
    {"id": "a", "problem": "?", "answer": "1/2", "samples": A},
    {"id": "b", "problem": "?", "answer": "7", "samples": B},
]


def test_the_summary_has_the_hand_worked_numbers_and_the_table_a_row_per_sample(tmp_path: Path) -> None:
    summary = evaluate(jsonl(tmp_path / "two.jsonl", TWO), tmp_path / "out", "verifier.extraction=boxed")
    assert (summary["n_problems"], summary["n_samples"], summary["samples_per_problem"]) == (2, 8, 4)
    assert summary["avg"] == 0.5
    # c = 2 of n = 4 in both: Pass@2 = 1 - C(2,2)/C(4,2) = 5/6.
    assert summary["pass_at"] == pytest.approx({"1": 0.5, "2": 5 / 6, "4": 1.0})
    # a: 0.5 and 1/2 are one class, which wins with two votes against one; b: two against two is half a win.
    assert summary["maj_at"]["4"] == pytest.approx(0.75)
    # Two equal problems: a kind that neither is of may be up to 1 - sqrt(0.025) of all (Clopper-Pearson), all right or all wrong.
    low = 0.5 * 0.025**0.5
    assert summary["intervals"]["avg"] == pytest.approx([low, 1 - low])
    assert "over problems" in summary["intervals"]["method"]
    assert summary["verifier"]["verdicts"] == {"no_answer": 1, "right": 4, "wrong": 3}
    assert summary["verifier"]["extraction"] == "boxed"
    frame = pq.read_table(tmp_path / "out" / "samples.parquet").to_pandas()
    assert frame["problem_id"].tolist() == ["a"] * 4 + ["b"] * 4
    assert frame["sample_index"].tolist() == [0, 1, 2, 3] * 2
    assert frame["correct"].tolist() == [True, True, False, False, False, False, True, True]
    assert frame["verdict"].tolist()[3] == "no_answer"


def test_ks_choose_the_curve(tmp_path: Path, said: Said, monkeypatch: pytest.MonkeyPatch) -> None:
    path = jsonl(tmp_path / "two.jsonl", TWO)
    assert list(evaluate(path, tmp_path / "out", "ks=[1,3]")["pass_at"]) == ["1", "3"]
    monkeypatch.delattr("harness.evaluation.recorded.verdicts_of")  # nothing is graded in vain
    for command in (
        ["evaluate", f"samples={path}", f"out={tmp_path / 'x'}"],
        ["compare", str(path), str(jsonl(tmp_path / "b", TWO))],
    ):
        assert "ks=[1, 5] must lie between 1 and the 4 samples" in said(*command, "ks=[1,5]", code=2)


def test_a_file_of_another_encoding_is_one_error_with_its_line(tmp_path: Path, said: Said) -> None:
    path = jsonl(tmp_path / "latin.jsonl", TWO)
    path.write_bytes(path.read_bytes() + '{"id": "é"}\n'.encode("latin-1"))
    assert "latin.jsonl line 3 is not UTF-8" in said("evaluate", f"samples={path}", f"out={tmp_path / 'out'}", code=2)


def test_regrading_names_what_changes_and_keeps_the_stored_samples(tmp_path: Path, said: Said) -> None:
    rows = [{"id": "a", "problem": "?", "answer": "7", "samples": ["The answer is 7.", "\\boxed{7}"]}]
    evaluate(jsonl(tmp_path / "one.jsonl", rows), tmp_path / "out", "verifier.extraction=boxed")
    before = (tmp_path / "out" / "samples.parquet").read_bytes()
    changes = tmp_path / "changes.csv"
    command = ["evaluate", f"regrade={tmp_path / 'out'}", "verifier=answer_line", f"out={changes}"]
    told = said(*command)
    assert "1 of 2 verdicts changed; avg 50.00 % → 100.00 %" in told
    assert "no_answer → right: 1" in told
    assert "a sample 0: no_answer (no answer) → right ('7'), gold '7'" in told
    assert (tmp_path / "out" / "samples.parquet").read_bytes() == before
    assert len(changes.read_text().splitlines()) == 2


def test_regrading_needs_rules_and_samples(tmp_path: Path, said: Said) -> None:
    regrade = ["evaluate", f"regrade={tmp_path}"]
    assert "no stored samples there" in said(*regrade, "verifier=any", code=2)
    assert "did you mean 'any'" in said(*regrade, "verifier=anny", code=2)


def test_rows_of_one_prompt_and_gold_are_samples_of_one_problem(tmp_path: Path, said: Said) -> None:
    """Three problems in 32 rows each were 96 problems, with an interval of a fifth of the width."""
    rows = [
        {
            "id": f"{problem}-{copy}",
            "problem": f"{problem}?",
            "answer": "7",
            "samples": [rf"\boxed{{{7 + (problem == 1)}}}"],
        }
        for copy in range(32)
        for problem in range(3)
    ]
    path, out = jsonl(tmp_path / "rows.jsonl", rows), tmp_path / "out"
    told = said("evaluate", f"samples={path}", f"out={out}")
    assert "3 problems stand under several ids ('0-0' under 32)" in told
    assert "66.67 [0.00, 100.00]" in told


CASES = yaml.safe_load(Path(__file__).with_name("recorded_lines.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["about"].replace(" ", "_")[:60])
def test_lines_are_read_and_graded_or_refused(case: dict[str, Any], tmp_path: Path, said: Said) -> None:
    path, out = jsonl(tmp_path / case.get("file", "lines.jsonl"), case["lines"]), tmp_path / "out"
    refused = case.get("refused", [])
    command = ("evaluate", f"samples={path}", f"out={out}", *case.get("given", []))
    told = said(*command, code=2 if refused else 0)
    for words in [refused] if isinstance(refused, str) else [*refused, *case.get("says", [])]:
        assert words in told or re.search(words, told), told
    assert out.exists() != bool(refused)
    if refused:
        return
    rows = read_recorded(path).samples
    assert {name: [row[name] for row in rows] for name in case.get("read", {})} == case.get("read", {})
    summary = json.loads((out / "summary.json").read_text())
    for key, value in case.get("summary", {}).items():
        found: Any = summary
        for part in key.split("."):
            found = found[int(part) if part.isdigit() and isinstance(found, list) else part]
        assert found == value, (key, found)
    assert not set(case.get("lacks", [])) & set(summary)

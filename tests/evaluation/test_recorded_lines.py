"""Recorded generations line by line: lines in, and what is read, summed up, said or refused of them, as recorded_lines.yaml has it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from verbs import Said, jsonl

from harness.evaluation.recorded import read_recorded

CASES = yaml.safe_load(Path(__file__).with_name("recorded_lines.yaml").read_text(encoding="utf-8"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["about"].replace(" ", "_")[:60])
def test_lines_are_read_and_graded_or_refused(case: dict[str, Any], tmp_path: Path, said: Said) -> None:
    path, out = jsonl(tmp_path / case.get("file", "lines.jsonl"), case["lines"]), tmp_path / "out"
    refused = case.get("refused", [])
    command = ("evaluate", f"samples={path}", f"out={out}", "figures=false", *case.get("given", []))
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

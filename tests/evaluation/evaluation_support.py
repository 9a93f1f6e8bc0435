"""`harness evaluate` run here, and what it wrote."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd

from harness.cli import main
from harness.store.samples import read_parts

KEY = ["problem_id", "sample_index", "max_response_tokens"]
ANSWERS = [*KEY, "response", "correct", "finish_reason"]  # equal whichever engine sampled


def evaluate(results: Path, *arguments: str) -> dict[str, Any]:
    """Run the command; the newest evaluation.json."""
    assert main(["evaluate", *arguments, f"runtime.results={results}", "figures=false"]) == 0
    written = sorted(results.glob("evaluations/*/evaluation.json"), key=lambda path: path.stat().st_mtime_ns)
    return dict(json.loads(written[-1].read_text()))


def first_cell(results: Path, *arguments: str) -> dict[str, Any]:
    """Run the command; the first cell of its evaluation."""
    return dict(evaluate(results, *arguments)["cells"][0])


def samples_of(results: Path, cell: dict[str, Any]) -> pd.DataFrame:
    return read_parts(results / cell["samples"]).to_pandas().sort_values(KEY, ignore_index=True)

"""`harness evaluate` run here and what it wrote; two sides of five problems with two samples each."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
from verbs import jsonl

from harness.cli import main
from harness.evaluation.paired import Side
from harness.store.samples import read_parts

KEY = ["problem_id", "sample_index", "max_response_tokens"]
ANSWERS = [*KEY, "response", "correct", "finish_reason"]  # equal whichever engine sampled


def evaluate(results: Path, *arguments: str) -> dict[str, Any]:
    """Run the command; the newest evaluation.json."""
    assert main(["evaluate", *arguments, f"runtime.results={results}"]) == 0
    written = sorted(results.glob("evaluations/*/evaluation.json"), key=lambda path: path.stat().st_mtime_ns)
    return dict(json.loads(written[-1].read_text()))


def first_cell(results: Path, *arguments: str) -> dict[str, Any]:
    """Run the command; the first cell of its evaluation."""
    return dict(evaluate(results, *arguments)["cells"][0])


def samples_of(results: Path, cell: dict[str, Any]) -> pd.DataFrame:
    return read_parts(results / cell["samples"]).to_pandas().sort_values(KEY, ignore_index=True)


RIGHT = {"A": [[1, 1], [0, 1], [1, 0], [0, 0], [1, 1]], "B": [[1, 1], [1, 1], [1, 1], [0, 1], [0, 1]]}


def graded_side(name: str, right: list[list[int]], first: int = 0) -> Side:
    """Problems numbered from `first`, their samples right or wrong; every wrong answer is another one."""
    rows = [
        {
            "problem_id": f"p{first + number}",
            "sample_index": index,
            "gold": str(first + number),
            "problem": f"Question {first + number}?",
            "correct": bool(one),
            "answer": str(first + number) if one else f"{1000 + index}",
            "verdict": "right" if one else "wrong",
            "finish_reason": "stop",
            "tokens": 7.0,
        }
        for number, row in enumerate(right)
        for index, one in enumerate(row)
    ]
    return Side(name, pd.DataFrame(rows))


def recorded_file(path: Path, right: list[list[int]], **more: list[Any]) -> Path:
    """The same as recorded generations, without verdicts."""
    rows = [
        {
            "id": number,
            "problem": f"What is {number} + 10?",
            "answer": str(number + 10),
            "samples": [f"\\boxed{{{number + 10 if one else 7}}}" for one in row],
            **{key: value[number] for key, value in more.items()},
        }
        for number, row in enumerate(right)
    ]
    return jsonl(path, rows)

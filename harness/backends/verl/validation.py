"""Responses of verl's validations as samples of the run: the evaluations between the first and the last, at the training cap.

verl samples them with its own engine and random numbers; verdicts are our verifier's (its reward function asks it). Log-probabilities
and entropies are not in its files, and the sampling seed is unknown (0).
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from harness.configuration.schema import RunConfig
from harness.problems.problem import Benchmark, load_benchmark
from harness.store import RunDir
from harness.store.samples import SAMPLES


def import_validations(config: RunConfig, run: RunDir) -> None:
    """Store every complete validation of every attempt, but none of the first and the last step, which are evaluated by ours."""
    benchmarks = {name: load_benchmark(item) for name, item in config.evaluation.benchmarks.items()}
    for path in _files(run.path / "verl"):
        step = int(path.stem)
        if not 0 < step < config.training.steps:
            continue
        rows = _rows(path)
        for name, benchmark in benchmarks.items():
            mine = [row for row in rows if row.get("benchmark") == name]
            complete = len(mine) == len(benchmark.problems) * config.evaluation.samples_per_problem
            if complete and step not in run.sample_steps(name):
                table = _table(mine, benchmark, config.sampling.max_response_tokens)
                run.write_samples(name, benchmark.version, step, table)


def _files(folder: Path) -> Iterable[Path]:
    """Newest attempt first: what it sampled again replaces what an earlier one left."""
    folders = sorted(folder.glob("validation-*"), reverse=True)
    return [path for each in folders for path in sorted(each.glob("*.jsonl")) if path.stem.isdigit()]


def _rows(path: Path) -> list[dict[str, Any]]:
    """The whole lines of a file; a torn last one is left out, so that the file counts as incomplete."""
    lines = path.read_bytes().split(b"\n")
    return [json.loads(line) for line in lines[:-1]]


def _table(rows: list[dict[str, Any]], benchmark: Benchmark, cap: int) -> pa.Table:
    order = {problem.id: place for place, problem in enumerate(benchmark.problems)}
    # uid is `{prompt}_{session}_{output}`: the session numbers the samples of a prompt.
    keyed = sorted(rows, key=lambda row: (order[row["problem_id"]], int(row["uid"].rsplit("_", 2)[1])))
    unknown = np.full(len(keyed), np.nan, dtype=np.float32)
    return pa.table(
        {
            "problem_id": [row["problem_id"] for row in keyed],
            "sample_index": [int(row["uid"].rsplit("_", 2)[1]) for row in keyed],
            "sampling_seed": np.zeros(len(keyed), dtype=np.uint64),
            "max_response_tokens": np.full(len(keyed), cap, dtype=np.int32),
            "response_tokens": [int(row["response_tokens"]) for row in keyed],
            "finish_reason": [row["finish_reason"] for row in keyed],
            "answer": [row["answer"] if row["answered"] == "True" else None for row in keyed],
            "correct": [bool(row["acc"]) for row in keyed],
            "verdict": [row["verdict"] for row in keyed],
            "method": [row["method"] for row in keyed],
            "entropy_sum_nats": unknown,
            "log_prob_sum": unknown,
            "response": [row["output"] for row in keyed],
        },
        schema=SAMPLES,
    )

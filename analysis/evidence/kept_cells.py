"""The cells of finished reductions, kept under the results root (``cache/cells``) so that the next table need not count samples again.

A file is used where its name says who asked what, its first line names the content of every sample file and of the sources
that made it, and its checksum holds; anything else is computed anew and written over it. So the files may be deleted or
torn at any time, and tables are the same bytes with and without them.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
from functools import lru_cache
from pathlib import Path

import numpy as np

from analysis.evidence.cells import RunCells
from analysis.evidence.reduced import Equality, Question, reduce_benchmark
from harness.store import ResultStore, StoreError, atomic
from harness.store.run import RunDir

FOLDER = "cells"
_ROOT = Path(__file__).parents[2]
# Everything between a sample file and a cell.
_SOURCES = ("analysis/evidence", "harness/evaluation", "harness/store", "harness/verify")


def kept_run(store: ResultStore, run_id: str, benchmark: str, question: Question) -> RunCells:
    """As `reduce_run`, from what is kept where it is there. A root that cannot be written to keeps nothing.

    Raises:
        StoreError: samples that cannot be read.
    """
    run, equality = store.run(run_id), question.equality
    path = store.root / "cache" / FOLDER / f"{run_id}-{benchmark}-{_short(question.text.encode())}.json"
    key = _key(run, benchmark, question.text)
    cells = _read(path, key, equality)
    if cells is None:
        questions, unsettled = equality.questions, equality.unsettled
        cells = reduce_benchmark(run, benchmark, question)
        # What ran out of time may come out otherwise the next time; a run that goes on may have got samples meanwhile.
        if equality.unsettled == unsettled and _key(run, benchmark, question.text) == key:
            _write(path, key, cells, equality if equality.questions > questions else None)
    return cells


def _key(run: RunDir, benchmark: str, question: str) -> str:
    return _short(f"{run.samples_hash(benchmark)} {question} {_version()}".encode())


@lru_cache(maxsize=1)
def _version() -> str:
    """Of the sources that make cells, and of what else their last bits depend on."""
    digest = hashlib.sha256(f"{sys.version} {np.__version__} {os.uname().machine}".encode())
    for folder in _SOURCES:
        for path in sorted((_ROOT / folder).rglob("*.py")):
            digest.update(path.read_bytes())
    return digest.hexdigest()


def _read(path: Path, key: str, equality: Equality) -> RunCells | None:
    """What is kept, None where it is not there, torn, or of other samples, sources or another verifier."""
    try:
        head, body = path.read_bytes().split(b"\n", 1)
        if head != _head(key, body):
            return None
        kept = json.loads(body)
        if kept["verifier"] and kept["verifier"] != equality.verifier.fingerprint_hash:
            return None
        return RunCells(
            tuple(kept["rows"]),
            {(step, cap): np.array(values) for step, cap, values in kept["problem_avg"]},
            tuple(kept["problem_ids"]),
            tuple(kept["refused"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _write(path: Path, key: str, cells: RunCells, asked: Equality | None) -> None:
    """``asked``: whose verifier the cells depend on, None where every answer was an integer."""
    kept = {
        "verifier": asked and asked.verifier.fingerprint_hash,
        "rows": cells.rows,
        "problem_avg": [(*place, values.tolist()) for place, values in cells.problem_avg.items()],
        "problem_ids": cells.problem_ids,
        "refused": cells.refused,
    }
    body = json.dumps(kept).encode()
    try:
        atomic.write_file(path, _head(key, body) + b"\n" + body, durable=False)
    except (StoreError, OSError):  # read-only or full: a table is worth more than its cache
        return


def _head(key: str, body: bytes) -> bytes:
    return f"{key} {hashlib.sha256(body).hexdigest()}".encode()


def _short(text: bytes) -> str:
    return hashlib.sha256(text).hexdigest()[:16]

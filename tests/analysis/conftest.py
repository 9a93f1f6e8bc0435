"""Fixtures shared by the analysis tests."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest
from synthetic_store import build_store, loaded

from analysis import frames, samples
from harness.store import ResultStore


@pytest.fixture(scope="session", autouse=True)
def _reduced_once() -> Iterator[None]:
    """Runs with the same samples stand in many stores, which are read many times: a process reduces them once."""
    known: dict[tuple[Any, ...], samples.RunCells] = {}

    def reduce_run(store: ResultStore, run_id: str, benchmark: str, *, ks: Collection[Any], **asked: Any) -> Any:
        folder = store.run(run_id).path / "samples" / benchmark
        files = [(str(path.relative_to(folder)), path.read_bytes()) for path in sorted(folder.rglob("*.parquet"))]
        key = (benchmark, asked["curves"], tuple(sorted(ks)), *files)
        if key not in known:
            known[key] = samples.reduce_run(store, run_id, benchmark, ks=ks, **asked)
        return known[key]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(frames, "reduce_run", reduce_run)
        yield


@pytest.fixture(scope="session")
def ladder_root(tmp_path_factory) -> Path:
    """Four rungs and three seeds, one run failed, one never started."""
    root = tmp_path_factory.mktemp("ladder")
    build_store(root, missing=[((3, 2), "failed"), ((2, 1), "not started")])
    return root


@pytest.fixture(scope="session")
def results(ladder_root):
    """The results of these four rungs, unless a file has others."""
    return loaded(ladder_root)

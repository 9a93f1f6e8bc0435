"""What every test of the verbs has: a store, and what stands for the supervisor."""

from __future__ import annotations

import pytest

from harness.store import ResultStore


@pytest.fixture
def launched(monkeypatch):
    """Takes what stands for the supervisor."""
    return lambda launch: monkeypatch.setattr(
        "harness.execution.supervisor.supervise", lambda work, progress, **_: launch(work)
    )


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    return ResultStore(tmp_path / "results")

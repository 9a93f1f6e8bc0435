from __future__ import annotations

import pytest

from harness.store import ResultStore


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    return ResultStore(tmp_path / "results")

"""What every test of the verbs has: a store, and a verb's words."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from harness.cli import main
from harness.store import ResultStore


@pytest.fixture
def said(capsys) -> Callable[..., str]:
    """Runs a verb, which must end with `code`, and returns what it printed on both streams."""

    def said(*arguments: str, code: int = 0) -> str:
        assert main(list(arguments)) == code
        found = capsys.readouterr()
        assert "Traceback" not in found.err
        return found.out + found.err

    return said


@pytest.fixture
def launched(monkeypatch):
    """Takes what stands for the local launcher."""
    return lambda launch: monkeypatch.setattr("harness.execution.launch.local.launch", launch)


@pytest.fixture
def store(tmp_path, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    return ResultStore(tmp_path / "results")

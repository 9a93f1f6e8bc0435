"""RunBatch of stub runs for the launchers' tests; jobs import the stubs by PYTHONPATH."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harness.execution.progress import Progress
from harness.execution.supervisor import RunBatch
from harness.store import ResultStore

STUBS = Path(__file__).parent
sys.path.insert(0, str(STUBS))

from sweep_support import STUB_PATH, Spec, batch  # noqa: E402


def use_stubs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", STUB_PATH)


def work(root: Path, specs: list[Spec], entry: str = "steps") -> RunBatch:
    return batch(root, specs, f"stub_worker:{entry}", workers=1, command="test")


class Events(Progress):
    """Remembers what it was told."""

    def __init__(self) -> None:
        self.started_runs: list[str] = []
        self.ended_runs: list[tuple[str, str]] = []

    def started(self, name: str, run_id: str, attempt: int) -> None:
        self.started_runs.append(run_id)

    def ended(self, name: str, run_id: str, outcome: str, detail: str) -> None:
        self.ended_runs.append((run_id, outcome))


def statuses(store: ResultStore, specs: list[Spec]) -> list[str | None]:
    return [store.run(spec.run_id).status for spec in specs]

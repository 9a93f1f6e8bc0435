"""The table so far, while a long experiment runs: after every seed that all arms have finished, marked provisional."""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections import Counter

from harness.execution.answer import is_stored
from harness.execution.progress import Progress, Snapshot
from harness.experiment.planning import Plan
from harness.store import ResultStore

SECONDS_BETWEEN = 60.0  # tables of a short experiment would only hide its end


def provisional(inner: Progress, plan: Plan, store: ResultStore) -> Progress:
    """`inner`, which is also shown the table so far."""
    return _Tables(inner, plan, store, SECONDS_BETWEEN)


class _Tables(Progress):
    def __init__(self, inner: Progress, plan: Plan, store: ResultStore, seconds_between: float) -> None:
        self._inner, self._store, self._name, self._plan = inner, store, plan.experiment.name, plan
        self._seeds = {spec.run_id: spec.seed for spec in plan.specs}
        self._left = Counter(
            seed for run_id, seed in self._seeds.items() if store.run(run_id).status != "finished"
        )
        self._seconds_between, self._last = seconds_between, time.monotonic()
        self._due = False
        self._table: _Table | None = None

    def begin(self, total: int, finished: int) -> None:
        self._inner.begin(total, finished)

    def started(self, name: str, run_id: str, attempt: int) -> None:
        self._inner.started(name, run_id, attempt)

    def ended(self, name: str, run_id: str, outcome: str, detail: str) -> None:
        self._inner.ended(name, run_id, outcome, detail)
        if outcome != "finished" or run_id not in self._seeds:
            return
        seed = self._seeds[run_id]
        self._left[seed] -= 1
        # The whole table follows at the end anyway.
        self._due |= self._left[seed] == 0 and any(self._left.values())

    def update(self, snapshot: Snapshot) -> None:
        self._inner.update(snapshot)
        if self._table is not None and self._table.ready():
            self._inner.show(self._table.text())
            self._table = None
        if self._due and self._table is None and time.monotonic() - self._last >= self._seconds_between:
            self._due, self._last = False, time.monotonic()
            # Another command of this name may have written its plan: its table is not this one's.
            if is_stored(self._store, self._name, self._plan.record()):
                self._table = _Table(self._store, self._name)

    def show(self, text: str) -> None:
        self._inner.show(text)

    def close(self) -> None:
        if self._table is not None:
            self._table.abandon()
        self._inner.close()


class _Table:
    """The analysis at work in a process of its own, so that runs do not wait for it."""

    def __init__(self, store: ResultStore, name: str) -> None:
        self._output = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed when the table is shown or given up)
        command = [
            sys.executable,
            "-m",
            "analysis",
            str(store.root),
            name,
            "--only",
            "table",
            "--provisional",
        ]
        self._process = subprocess.Popen(command, stdout=self._output, stderr=subprocess.DEVNULL)

    def ready(self) -> bool:
        return self._process.poll() is not None

    def text(self) -> str:
        """What it wrote; nothing if it failed: the answer at the end says why."""
        self._output.seek(0)
        with self._output:
            return self._output.read() if self._process.returncode == 0 else ""

    def abandon(self) -> None:
        self._process.kill()
        self._process.wait()
        self._output.close()

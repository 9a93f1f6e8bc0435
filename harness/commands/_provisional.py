"""The table so far, while a long experiment runs: after every seed that all arms have finished, marked provisional."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable

from harness.commands._previous_answer import is_stored
from harness.execution.progress import Progress, Relay, Snapshot
from harness.experiment.plan import Plan
from harness.store import ResultStore
from harness.store.reader import run_state

SECONDS_BETWEEN = 60.0  # tables of a short experiment would only hide its end


class TablesSoFar(Relay):
    """A progress display that is also shown the table so far.

    Args:
        inner: the display.
        plan: what runs.
        store: where.
        make: makes the table. It is called in a thread of its own, so that runs do not wait for it; what it raises is left for the answer
            at the end to say.
        seconds_between: two tables.
    """

    def __init__(
        self,
        inner: Progress,
        plan: Plan,
        store: ResultStore,
        make: Callable[[], str],
        seconds_between: float = SECONDS_BETWEEN,
    ) -> None:
        super().__init__(inner)
        self._store, self._plan, self._make = store, plan, make
        self._seeds = {spec.run_id: spec.seed for spec in plan.specs}
        self._left = Counter(
            seed for run_id, seed in self._seeds.items() if run_state(store, run_id).status != "finished"
        )
        self._seconds_between, self._last = seconds_between, time.monotonic()
        self._due = False
        self._thread: threading.Thread | None = None
        self._made: list[str] = []

    def ended(self, name: str, run_id: str, outcome: str, detail: str) -> None:
        """Count the seeds that all arms have finished."""
        super().ended(name, run_id, outcome, detail)
        if outcome != "finished" or run_id not in self._seeds:
            return
        seed = self._seeds[run_id]
        self._left[seed] -= 1
        # The whole table follows at the end anyway.
        self._due |= self._left[seed] == 0 and any(self._left.values())

    def update(self, snapshot: Snapshot) -> None:
        """Show a table that is ready, and have one made where it is time."""
        super().update(snapshot)
        if self._made:
            self.show(f"{self._made.pop()}\n")
        busy = self._thread is not None and self._thread.is_alive()
        if self._due and not busy and time.monotonic() - self._last >= self._seconds_between:
            self._due, self._last = False, time.monotonic()
            # Another command of this name may have written its plan: its table is not this one's.
            if is_stored(self._store, self._plan.name, self._plan.record()):
                self._thread = threading.Thread(target=self._work, daemon=True)
                self._thread.start()

    def _work(self) -> None:
        try:
            self._made.append(self._make())
        except Exception:  # a run may change while it is read
            return

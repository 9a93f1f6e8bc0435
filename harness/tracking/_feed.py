"""Send what runs write to trackers while they go on."""

import contextlib
import importlib.util
import queue
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from harness.configuration.registry import TRACKING, implementation
from harness.store import RunDir, layout
from harness.store.metrics_log import new_rows

PATIENCE_SECONDS = 60.0  # for a tracker at the end of a command
_POLL_SECONDS = 1.0
_NOT_METRICS = ("step", "attempt")


@dataclass(frozen=True)
class About:
    run_id: str
    experiment: str
    arm: str
    arm_id: str
    seed: int
    config: Mapping[str, Any]
    provenance: Mapping[str, Any]
    results: Path
    created_at: str

    @classmethod
    def read(cls, run: RunDir) -> Self:
        manifest = run.manifest() or {}
        labels = manifest.get("labels", {})
        return cls(
            run_id=run.run_id,
            experiment=labels.get("experiment", "runs"),
            arm=labels.get("arm", manifest.get("arm_id", run.run_id)),
            arm_id=manifest.get("arm_id", ""),
            seed=int(manifest.get("seed", 0)),
            config=run.settings(),
            provenance=manifest.get("provenance", {}),
            results=run.path.parent.parent,
            created_at=manifest.get("created_at", ""),
        )


class _RunFeed:
    """One run on its way to one tracker, from the first step that this place does not have."""

    def __init__(self, run: RunDir, name: str, config: Any) -> None:
        self._run, self._name, self._config = run, name, config
        self._next_step, self._offset = 0, 0
        self._sink: Any = None
        self.failed = False

    def advance(self) -> None:
        """Send the rows that are new. The tracker is opened for the first of them; one that raises gets nothing more of this run."""
        if self.failed:
            return
        with self._report_errors():
            rows, self._offset = new_rows(self._run.path / layout.METRICS_FILE, self._offset)
            for row in rows:
                if self._sink is None:
                    module = implementation(TRACKING, self._config)
                    self._sink = module.open_sink(self._config, About.read(self._run))
                    self._next_step = getattr(self._sink, "next_step", 0)
                if (step := int(row["step"])) >= self._next_step:  # a resumed run repeats some
                    self._sink.log(step, metrics_of(row))
                    self._next_step = step + 1

    def close(self) -> None:
        """Send what is left."""
        self.advance()
        if self._sink is None or self.failed:
            return
        with self._report_errors():
            self._sink.close(self._run.status == "finished")

    @contextlib.contextmanager
    def _report_errors(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:  # of somebody's tracker
            self.failed = True
            sys.stderr.write(f"{self._run.run_id}: tracker {self._name} gets no more of this run: {error}\n")


class TrackerFeed:
    """Follows runs in a thread of its own. Nothing waits for it but `close`; without trackers it does nothing.

    Args:
        trackers: their configurations by name. Those whose package is absent get nothing.
    """

    def __init__(self, trackers: Mapping[str, Any]) -> None:
        missing = absent(trackers)
        self._trackers = {name: config for name, config in trackers.items() if name not in missing}
        self._events: queue.SimpleQueue[tuple[RunDir, bool] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, daemon=True)
        if self._trackers:
            self._thread.start()

    def begin(self, run: RunDir) -> None:
        self._events.put((run, False))

    def end(self, run: RunDir) -> None:
        """A run that has begun has ended: send the rest of it."""
        self._events.put((run, True))

    def close(self) -> None:
        """Let the thread send the rest, for as long as the patience lasts; the store has everything."""
        self._events.put(None)
        if self._trackers:
            self._thread.join(PATIENCE_SECONDS)
        if self._thread.is_alive():
            sys.stderr.write("trackers did not take all rows in time; the store has them (metrics.jsonl of each run)\n")

    def _work(self) -> None:
        feeds: dict[str, list[_RunFeed]] = {}
        look_at = time.monotonic() + _POLL_SECONDS
        while True:
            with contextlib.suppress(queue.Empty):
                event = self._events.get(timeout=max(0.0, look_at - time.monotonic()))
                if event is None:
                    break
                run, has_ended = event
                if has_ended:
                    _close(feeds.pop(run.run_id, []))
                else:
                    feeds[run.run_id] = [_RunFeed(run, name, config) for name, config in self._trackers.items()]
            if time.monotonic() >= look_at:  # whatever begins and ends meanwhile
                for run_feeds in feeds.values():
                    for feed in run_feeds:
                        feed.advance()
                look_at = time.monotonic() + _POLL_SECONDS
        for run_feeds in feeds.values():
            _close(run_feeds)


def _close(feeds: list[_RunFeed]) -> None:
    for feed in feeds:
        feed.close()


def absent(trackers: Mapping[str, Any]) -> dict[str, str]:
    reasons = {}
    for name, config in trackers.items():
        module = implementation(TRACKING, config)
        missing = [item for item in getattr(module, "MODULES", ()) if importlib.util.find_spec(item) is None]
        if missing:
            extra = f"-e '.[{module.EXTRA}]'" if hasattr(module, "EXTRA") else missing[0]
            reasons[name] = f"{missing[0]} is not installed: pip install {extra}"
    return reasons


def metrics_of(row: Mapping[str, Any]) -> dict[str, float]:
    return {
        name: float(value)
        for name, value in row.items()
        if name not in _NOT_METRICS and isinstance(value, int | float) and not isinstance(value, bool)
    }

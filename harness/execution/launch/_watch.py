"""Follow jobs on other machines through the store, as if their runs were here."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, Protocol

from harness.execution.launch._job import Before, summary_of
from harness.execution.launch._supervise import Work
from harness.execution.progress import Progress, RunProgress, Snapshot
from harness.execution.supervise import Summary
from harness.execution.supervise.attempt import Runnable
from harness.execution.supervise.stop import request_stop
from harness.store import StoreError
from harness.store.progress import run_name, total_steps

_ENDED = ("finished", "failed", "interrupted", "refused")


class Jobs(Protocol):
    """Submitted jobs of one launcher."""

    def alive(self) -> int:
        """Count those that are pending or running."""
        ...

    def cancel_pending(self) -> None:
        """Take those out of the queue that have not begun."""
        ...

    def kill(self) -> None:
        """End all of them at once."""
        ...

    def last_words(self) -> str:
        """Quote a job that ended with an error, and where; empty if none did. Asked for when none is alive."""
        ...


def watch(work: Work, before: Before, jobs: Jobs, progress: Progress, poll_seconds: float = 1.0) -> Summary:
    """Report until no job is alive. A stop signal asks the jobs to checkpoint and end; a second one kills them.

    `before`: how the runs stood before the jobs were submitted. A run that its job left so has failed, unless jobs were stopped.
    """
    follower = _Follower(work, before.finished, progress)
    stops: list[int] = []
    done = 0
    with _signals(stops):
        progress.begin(len(follower.names), len(before.finished))
        try:
            while True:
                alive = jobs.alive()
                follower.look(stopping=bool(stops))
                if not alive:
                    break
                if len(stops) > done:
                    done = len(stops)
                    if done == 1:
                        jobs.cancel_pending()
                        request_stop(work.store, [spec.run_id for spec in work.specs])
                    else:
                        jobs.kill()
                time.sleep(poll_seconds)
        finally:
            progress.close()
        summary = summary_of(work, before)
        if summary.not_started and not stops:
            said = jobs.last_words() or "no job says why"
            reason = f"its job ended before it began the run: {said}"
            summary.errors |= dict.fromkeys(summary.not_started, reason)
            # Where a job was stopped from elsewhere its other runs wait for the next call; else repeating the command repeats the failure.
            if not summary.interrupted:
                summary.failed, summary.not_started = [*summary.failed, *summary.not_started], []
    summary.stopped_by = stops[0] if stops else None
    return summary


class _Follower:
    """Turns changes of manifests into events."""

    def __init__(self, work: Work, before: set[str], progress: Progress) -> None:
        self._work, self._progress = work, progress
        self._specs: dict[str, Runnable] = {spec.run_id: spec for spec in work.specs}
        self.names = {
            run_id: run_name(run_id, spec.arm_id, spec.seed, spec.labels)
            for run_id, spec in self._specs.items()
        }
        self._finished = set(before)
        self._seen: dict[str, tuple[Any, int]] = {
            run_id: self._state(run_id)[:2] for run_id in self._specs if run_id not in before
        }
        self._running: dict[str, RunProgress] = {}

    def _state(self, run_id: str) -> tuple[Any, int, str]:
        try:
            manifest = self._work.store.run(run_id).manifest()
        except StoreError as error:
            return "failed", 0, str(error)
        if manifest is None:
            return None, 0, ""
        return manifest["status"], len(manifest["attempts"]), manifest.get("error") or ""

    def look(self, *, stopping: bool) -> None:
        """Compare the store with what was seen before and tell `progress`."""
        now, failed = time.monotonic(), 0
        for run_id in self._specs.keys() - self._finished:
            status, attempts, error = self._state(run_id)
            changed = (status, attempts) != self._seen.get(run_id)
            self._seen[run_id] = (status, attempts)
            if status == "running":
                if changed or run_id not in self._running:
                    self._progress.started(self.names[run_id], run_id, attempts - 1)
                    self._running[run_id] = RunProgress(
                        self.names[run_id], total_steps(self._specs[run_id].labels)
                    )
                run = self._work.store.run(run_id)
                self._running[run_id].observe(run.last_step(), now, run.phase())
                continue
            self._running.pop(run_id, None)
            failed += status == "failed"
            if status == "finished":
                self._finished.add(run_id)
            if changed and status in _ENDED:
                self._progress.ended(self.names[run_id], run_id, str(status), error)
        waiting = len(self._specs) - len(self._finished) - len(self._running) - failed
        self._progress.update(
            Snapshot(
                total=len(self._specs),
                finished=len(self._finished),
                failed=failed,
                waiting=waiting,
                waiting_steps=None,
                running=list(self._running.values()),
                stopping=stopping,
            )
        )


class _signals:
    """Collect SIGINT and SIGTERM in a list, in the main thread."""

    def __init__(self, stops: list[int]) -> None:
        self._stops, self._old = stops, dict[int, Callable[[int, FrameType | None], Any] | int | None]()

    def __enter__(self) -> None:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._old[number] = signal.signal(number, lambda number, _: self._stops.append(number))

    def __exit__(self, *_: object) -> None:
        for number, handler in self._old.items():
            signal.signal(number, handler)

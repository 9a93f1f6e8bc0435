"""Follow jobs on other machines through the store, as if their runs were here."""

from __future__ import annotations

import signal
import time
from collections import Counter
from collections.abc import Mapping
from typing import Protocol

from harness.execution.launch._supervise import RunBatch
from harness.execution.progress import Progress, Snapshot
from harness.execution.supervise import Summary
from harness.execution.supervise.stop import on_signals
from harness.store import ResultStore
from harness.store.progress import RunState, run_state

_ENDED = {
    "finished": "finished",
    "failed": "failed",
    "unreadable": "failed",
    "interrupted": "interrupted",
}


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


def watch(
    work: RunBatch, before: Mapping[str, RunState], jobs: Jobs, progress: Progress, poll_seconds: float = 1.0
) -> Summary:
    """Report until no job is alive. A stop signal asks the jobs to checkpoint and end; a second one kills them.

    `before`: the `states` of the runs before the jobs were submitted. A run that its job left so has failed, unless jobs were stopped.
    """
    stops: list[int] = []
    done, now = 0, dict(before)
    progress.begin(len(before), len(finished(before)))
    try:
        with on_signals((signal.SIGINT, signal.SIGTERM), stops.append):
            while True:
                alive = jobs.alive()
                _look(work.store, now, progress, stopping=bool(stops))
                if not alive:
                    break
                if len(stops) > done:
                    done = len(stops)
                    if done == 1:
                        jobs.cancel_pending()
                        for run_id in before:
                            work.store.run(run_id).request_stop()
                    else:
                        jobs.kill()
                time.sleep(poll_seconds)
    finally:
        progress.close()
    summary = _summary(before, now)
    if summary.not_started and not stops:
        said = jobs.last_words() or "no job says why"
        reason = f"its job ended before it began the run: {said}"
        summary.errors |= dict.fromkeys(summary.not_started, reason)
        # Where a job was stopped from elsewhere its other runs wait for the next call; else repeating the command repeats the failure.
        if not summary.interrupted:
            summary.failed, summary.not_started = [*summary.failed, *summary.not_started], []
    summary.stopped_by = stops[0] if stops else None
    return summary


def states(work: RunBatch) -> dict[str, RunState]:
    """Read the states of the runs as they stand now, by run id."""
    return {spec.run_id: run_state(work.store, spec.run_id) for spec in work.specs}


def finished(found: Mapping[str, RunState]) -> list[str]:
    """List the finished runs among these, sorted."""
    return sorted(run_id for run_id, state in found.items() if state.status == "finished")


def _look(store: ResultStore, seen: dict[str, RunState], progress: Progress, *, stopping: bool) -> None:
    """Bring what was seen of the runs up to date and tell `progress` of every change."""
    for run_id, before in seen.items():
        if before.status == "finished":
            continue
        seen[run_id] = now = run_state(store, run_id)
        if (now.status, now.attempts) == (before.status, before.attempts):
            continue
        if now.status == "running":
            progress.started(now.name, run_id, now.attempts - 1)
        elif now.status in _ENDED:
            progress.ended(now.name, run_id, _ENDED[now.status], now.problem)
    counts = Counter(_ENDED.get(state.status, state.status) for state in seen.values())
    done, failed, running = counts["finished"], counts["failed"], counts["running"]
    progress.update(
        Snapshot(
            total=len(seen),
            finished=done,
            failed=failed,
            waiting=len(seen) - done - failed - running,
            waiting_steps=None,
            running=[state for state in seen.values() if state.status == "running"],
            stopping=stopping,
        )
    )


def _summary(before: Mapping[str, RunState], now: Mapping[str, RunState]) -> Summary:
    """Summarise what became of the runs. `not_started`: the jobs left them as they stood before."""
    summary = Summary(skipped=finished(before))
    for run_id, state in now.items():
        if before[run_id].status == "finished":
            continue
        if state.status == "finished":
            summary.finished.append(run_id)
        elif state.status in ("claimed", "running"):
            summary.elsewhere.append(run_id)
        elif (state.status, state.attempts) == (before[run_id].status, before[run_id].attempts):
            summary.not_started.append(run_id)
        elif state.status in ("failed", "unreadable"):
            summary.failed.append(run_id)
            summary.errors[run_id] = state.problem
        else:
            summary.interrupted.append(run_id)
    return summary

"""Jobs on other machines: each supervises its runs there, and whoever sent them follows them here through the store."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from harness.execution.launch import local
from harness.execution.progress import PlainProgress, Progress, Snapshot
from harness.execution.supervisor import RunBatch, Summary, on_signals
from harness.store import ResultStore
from harness.store.reader import RunState, run_state

# What Slurm sends ahead of the time limit (`--signal`). SIGTERM is a cancellation, or a pre-emption with a time of grace.
_TIME_IS_UP = (signal.SIGUSR1, signal.SIGUSR2)
_ENDED = {
    "finished": "finished",
    "failed": "failed",
    "unreadable": "failed",
    "interrupted": "interrupted",
}


class RequeueFailed(RuntimeError):
    """A job had to leave and is not in the queue again; its log says why."""


@dataclass(frozen=True)
class Job:
    """Callable that submitit and Ray send to a machine. Does nothing for runs that are finished or claimed elsewhere."""

    work: RunBatch

    def __call__(self) -> dict[str, Any]:
        """Supervise the runs; returns the summary as plain data.

        Raises:
            RequeueFailed: time was up, or another job took the place, and this one does not come back.
        """
        before = self._checkpoints()
        with tempfile.TemporaryDirectory(prefix="harness-leases-") as leases:
            summary = local.launch(local.Config(), self.work, PlainProgress(sys.stdout), leases=Path(leases))
        if summary.complete or summary.stopped_by is None:
            return asdict(summary)
        if summary.stopped_by in _TIME_IS_UP:
            if slurm_job() is not None and self._checkpoints() == before:
                raise RequeueFailed(
                    "time was up before any run of this job had a new checkpoint, and would be again: not requeued. Raise "
                    "runtime.launcher.minutes, or lower runtime.checkpoint_every or runtime.launcher.runs_per_job"
                )
            requeue()
        elif summary.stopped_by == signal.SIGTERM and pre_empted():
            requeue()
        return asdict(summary)

    def _checkpoints(self) -> dict[str, int]:
        """How far each run could be resumed from: its newest checkpoint, and one more where it is finished."""
        runs = [self.work.store.run(spec.run_id) for spec in self.work.specs]
        steps = {run.run_id: max((step for step, _ in run.checkpoints()), default=-1) for run in runs}
        left = {spec.run_id for spec in self.work.unfinished()}
        return {run_id: step + (run_id not in left) for run_id, step in steps.items()}


def slurm_job() -> str | None:
    """This job as `scontrol` takes it, None outside Slurm. One task's own number is also that of its whole array: a task is ARRAY_TASK."""
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else os.environ.get("SLURM_JOB_ID")


def requeue() -> bool:
    """Put this Slurm job back into the queue; False outside Slurm. Raises `RequeueFailed` where Slurm refuses."""
    job = slurm_job()
    if job is None:
        return False
    answer = subprocess.run(["scontrol", "requeue", job], capture_output=True, text=True, check=False)
    if answer.returncode:
        raise RequeueFailed(
            f"`scontrol requeue {job}` was refused ({answer.stderr.strip()}); run the same `harness run` again to go on"
        )
    return True


def pre_empted() -> bool:
    """Ask whether this Slurm job makes way for another. Slurm requeues it only if it has to kill it, so one that ends by itself asks."""
    job = slurm_job()
    if job is None:
        return False
    shown = subprocess.run(
        ["scontrol", "show", "job", job], capture_output=True, text=True, check=False
    ).stdout
    match = re.search(r"PreemptTime=(\S+)", shown)
    return match is not None and match[1] not in ("None", "Unknown")


def jobs_for(work: RunBatch, runs_per_job: int) -> list[Job]:
    left = work.unfinished()
    return [
        Job(replace(work, specs=left[start : start + runs_per_job]))
        for start in range(0, len(left), runs_per_job)
    ]


# ---- the follower's side ----


class Jobs(Protocol):
    """Submitted jobs of one launcher. `poll_seconds`: shortest and longest pause between two looks at them and at their runs."""

    poll_seconds: tuple[float, float]

    def alive(self) -> int:
        """Count those that are pending or running."""
        ...

    def stop(self) -> None:
        """Take those out of the queue that have not begun, and signal the others to checkpoint and end."""
        ...

    def kill(self) -> None:
        """End all of them at once."""
        ...

    def last_words(self) -> str:
        """Quote a job that ended with an error, and where; empty if none did. Asked for when none is alive."""
        ...


def states(work: RunBatch) -> dict[str, RunState]:
    return {spec.run_id: run_state(work.store, spec.run_id) for spec in work.specs}


def finished(by_id: Mapping[str, RunState]) -> list[str]:
    return sorted(run_id for run_id, state in by_id.items() if state.status == "finished")


def watch(work: RunBatch, before: Mapping[str, RunState], jobs: Jobs, progress: Progress) -> Summary:
    """Report until no job is alive. A stop signal asks the jobs to checkpoint and end; a second one kills them.

    The pause between two looks doubles while nothing changes. `before`: the `states` of the runs before the jobs were submitted. A run
    that its job left so has failed, unless jobs were stopped.
    """
    stops: list[int] = []
    wake = threading.Event()

    def stop(number: int) -> None:
        stops.append(number)
        wake.set()

    shortest, longest = jobs.poll_seconds
    done, pause, now, count = 0, shortest, dict(before), -1
    progress.begin(len(before), len(finished(before)))
    try:
        with on_signals((signal.SIGINT, signal.SIGTERM), stop):
            while True:
                alive = jobs.alive()
                changed = _look(work.store, now, progress, stopping=bool(stops)) or alive != count
                if not alive:
                    break
                count = alive
                pause = shortest if changed or stops else min(2 * pause, longest)
                if len(stops) > done:
                    (jobs.kill if done else jobs.stop)()
                    done = len(stops)
                wake.wait(pause)
                wake.clear()
    finally:
        progress.close()
    return _summary(before, now, jobs, stops)


def _look(store: ResultStore, seen: dict[str, RunState], progress: Progress, *, stopping: bool) -> bool:
    """Bring what was seen of the runs up to date and tell `progress` of every change; returns whether there was one."""
    changed = False
    for run_id, before in seen.items():
        if before.status == "finished":
            continue
        seen[run_id] = now = run_state(store, run_id)
        if (now.status, now.attempts) == (before.status, before.attempts):
            continue
        changed = True
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
    return changed


def _summary(
    before: Mapping[str, RunState], now: Mapping[str, RunState], jobs: Jobs, stops: list[int]
) -> Summary:
    """Summarise what became of the runs, with the last words of a job that left some of them."""
    summary = Summary(skipped=finished(before), stopped_by=stops[0] if stops else None)
    for run_id, state in now.items():
        if before[run_id].status == "finished":
            continue
        if state.status == "finished":
            summary.finished.append(run_id)
        elif state.status == "running":
            summary.elsewhere.append(run_id)
        elif (state.status, state.attempts) == (before[run_id].status, before[run_id].attempts):
            summary.not_started.append(run_id)
        elif state.status in ("failed", "unreadable"):
            summary.failed.append(run_id)
            summary.errors[run_id] = state.problem
        else:
            summary.interrupted.append(run_id)
    left = [*summary.not_started, *summary.interrupted]
    if not left or stops:
        return summary
    words = jobs.last_words()
    summary.errors |= dict.fromkeys(summary.interrupted, words)
    reason = f"its job ended before it began the run: {words or 'no job says why'}"
    summary.errors |= dict.fromkeys(summary.not_started, reason)
    # Where a job was stopped from elsewhere its other runs wait for the next call; else repeating the command repeats the failure.
    if not summary.interrupted:
        summary.failed, summary.not_started = [*summary.failed, *summary.not_started], []
    return summary

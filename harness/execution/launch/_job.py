"""A job on another machine: it supervises its runs, and goes back into the queue when its time is up."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from harness.execution.launch._supervise import RunBatch, supervise_here
from harness.execution.progress import PlainProgress

# What Slurm sends ahead of the time limit (`--signal`). SIGTERM is a cancellation, or a pre-emption with a time of grace.
_TIME_IS_UP = (signal.SIGUSR1, signal.SIGUSR2)


@dataclass(frozen=True)
class Job:
    """Callable that submitit and Ray send to a machine. Does nothing for runs that are finished or claimed elsewhere."""

    work: RunBatch

    def __call__(self) -> dict[str, Any]:
        """Returns the supervisor's summary as plain data."""
        with tempfile.TemporaryDirectory(prefix="harness-leases-") as leases:
            summary = supervise_here(self.work, PlainProgress(sys.stdout), leases=Path(leases))
        leaving = summary.stopped_by in _TIME_IS_UP or (summary.stopped_by == signal.SIGTERM and pre_empted())
        if leaving and not summary.complete:
            requeue()
        return asdict(summary)


def slurm_job() -> str | None:
    """This job as `scontrol` takes it, None outside Slurm. One task's own number is also that of its whole array: a task is ARRAY_TASK."""
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else os.environ.get("SLURM_JOB_ID")


def requeue() -> bool:
    """Put this Slurm job back into the queue; False outside Slurm."""
    job = slurm_job()
    if job is None:
        return False
    return subprocess.run(["scontrol", "requeue", job], check=False).returncode == 0


def pre_empted() -> bool:
    """Ask whether this Slurm job makes way for another. Slurm requeues it only if it has to kill it, so one that ends by itself asks."""
    job = slurm_job()
    if job is None:
        return False
    shown = subprocess.run(
        ["scontrol", "show", "job", job], capture_output=True, text=True, check=False
    ).stdout
    found = re.search(r"PreemptTime=(\S+)", shown)
    return found is not None and found[1] not in ("None", "Unknown")


def chunks(work: RunBatch, runs_per_job: int) -> list[Job]:
    """The unfinished runs as jobs, `runs_per_job` each."""
    distinct = {spec.run_id: spec for spec in work.specs}.values()
    left = [spec for spec in distinct if work.store.run(spec.run_id).status != "finished"]
    return [
        Job(replace(work, specs=left[start : start + runs_per_job]))
        for start in range(0, len(left), runs_per_job)
    ]

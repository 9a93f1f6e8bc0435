"""What a job of Slurm does at its time limit, or where another job takes its place: it goes back into the queue with its checkpoint."""

import os
import re
import signal
import subprocess

from harness.execution.supervisor import Summary

# What Slurm sends ahead of the time limit (`--signal`). SIGTERM is a cancellation, or a pre-emption with a time of grace.
_TIME_IS_UP = (signal.SIGUSR1, signal.SIGUSR2)


class RequeueError(RuntimeError):
    """A job had to leave and is not in the queue again; its log says why."""


def requeue_if_it_has_to_leave(summary: Summary, has_new_checkpoint: bool) -> bool:
    """Put this job back into the queue where Slurm stopped it and its run goes on from a newer checkpoint; returns whether it did.

    Raises:
        RequeueError: time was up before a run had a new checkpoint, Slurm refuses, or `scontrol` cannot be started.
    """
    job = slurm_job()
    if job is None or summary.complete or summary.stopped_by is None:
        return False
    if summary.stopped_by in _TIME_IS_UP:
        if not has_new_checkpoint:
            raise RequeueError("time was up before a new checkpoint: not requeued. Raise hydra.launcher.timeout_min")
    elif summary.stopped_by != signal.SIGTERM or not is_pre_empted(job):
        return False
    requeue(job)
    return True


def slurm_job() -> str | None:
    """This job as `scontrol` takes it, None outside Slurm. One task's own number is also that of its whole array: a task is ARRAY_TASK."""
    array, task = os.environ.get("SLURM_ARRAY_JOB_ID"), os.environ.get("SLURM_ARRAY_TASK_ID")
    return f"{array}_{task}" if array and task else os.environ.get("SLURM_JOB_ID")


def requeue(job: str) -> None:
    """Put a Slurm job back into the queue. Raises `RequeueError` where Slurm refuses."""
    # By which Slurm ends this job now; submitit's handler would ignore it.
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    answer = _scontrol("requeue", job)
    if answer.returncode:
        raise RequeueError(f"`scontrol requeue {job}` was refused ({answer.stderr.strip()}); repeat the command")


def is_pre_empted(job: str) -> bool:
    """Ask whether a Slurm job makes way for another. Slurm requeues it only if it has to kill it, so one that ends by itself asks."""
    job_record = _scontrol("show", "job", job).stdout
    match = re.search(r"PreemptTime=(\S+)", job_record)
    return match is not None and match[1] not in ("None", "Unknown")


def _scontrol(*arguments: str) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(["scontrol", *arguments], capture_output=True, text=True, check=False)
    except OSError as error:  # a container without Slurm's programs
        raise RequeueError(f"scontrol cannot be started ({error}): run the same command again") from error

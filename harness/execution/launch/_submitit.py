"""Jobs by submitit, for its local executor and for Slurm alike."""

from __future__ import annotations

import contextlib
import importlib
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.configuration.error import ConfigError
from harness.execution.launch._job import chunks
from harness.execution.launch._supervise import RunBatch
from harness.execution.launch._watch import finished, states, watch
from harness.execution.progress import Progress
from harness.execution.supervise import Summary

_LOOKS = 2


def submit(
    work: RunBatch,
    progress: Progress,
    *,
    cluster: str,
    parameters: Mapping[str, Any],
    runs_per_job: int,
    wait: bool,
) -> Summary:
    """Submit the unfinished runs as one array and, if asked, follow them to their end.

    Raises:
        ConfigError: submitit is absent, or the scheduler refused the jobs.
    """
    before = states(work)
    jobs = chunks(work, runs_per_job)
    if not jobs:
        return Summary(skipped=finished(before))
    try:
        submitit = importlib.import_module("submitit")
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"launcher={cluster} needs submitit; install it with: pip install -e '.[slurm]'"
        ) from error
    folder = work.store.cache_dir("jobs") / work.experiment
    try:
        executor = submitit.AutoExecutor(folder=str(folder), cluster=cluster)
        executor.update_parameters(**parameters)
        with executor.batch():
            submitted = [executor.submit(job) for job in jobs]
    except (RuntimeError, submitit.core.utils.FailedJobError, subprocess.CalledProcessError) as error:
        raise ConfigError(f"launcher={cluster} refused the jobs: {str(error).strip()}") from error
    if not wait:
        return Summary(skipped=finished(before), submitted=sorted(before.keys() - finished(before)))
    followed = _SlurmJobs(submitted) if cluster == "slurm" else _LocalJobs(submitted)
    return watch(work, before, followed, progress)


class _Submitted:
    """Jobs and the files that they write."""

    def __init__(self, jobs: list[Any]) -> None:
        self._jobs = jobs

    def last_words(self) -> str:
        for job in self._jobs:
            log = Path(job.paths.stderr)
            lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
            told = [line for line in lines if "Error" in line] or lines
            if told:
                return f"{told[-1].strip()} ({log})"
        return ""


class _LocalJobs(_Submitted):
    """Processes that submitit started on this machine."""

    def alive(self) -> int:
        return sum(not job.done() for job in self._jobs)

    def cancel_pending(self) -> None:
        """None is pending: they all start at once."""

    def kill(self) -> None:
        for job in self._jobs:
            with contextlib.suppress(ProcessLookupError):
                job.cancel(check=False)


class _SlurmJobs(_Submitted):
    """Array tasks by Slurm's queue. submitit would ask `sacct`, which many clusters do not have and which lags behind requeues."""

    def __init__(self, jobs: list[Any]) -> None:
        super().__init__(jobs)
        self._arrays = sorted({str(job.job_id).partition("_")[0] for job in jobs})
        self._gone = 0

    def alive(self) -> int:
        listed = subprocess.run(
            ["squeue", "--noheader", "--array", "--format=%T", f"--jobs={','.join(self._arrays)}"],
            capture_output=True,
            text=True,
            check=False,
        )
        # A controller that does not answer for a moment is no end; a job id that it no longer knows is.
        if listed.returncode and "Invalid job id" not in listed.stderr:
            return 1
        # A job between its end and its requeue may be missing for one look.
        count = len(listed.stdout.split())
        self._gone = 0 if count else self._gone + 1
        return count if count or self._gone >= _LOOKS else 1

    def cancel_pending(self) -> None:
        subprocess.run(["scancel", "--state=PENDING", *self._arrays], check=False)

    def kill(self) -> None:
        subprocess.run(["scancel", *self._arrays], check=False)

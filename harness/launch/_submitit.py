"""Jobs by submitit, for its local executor and for Slurm alike."""

from __future__ import annotations

import contextlib
import importlib
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.config_error import ConfigError
from harness.launch._job import chunks
from harness.launch._watch import watch
from harness.launch._work import Work
from harness.progress import Progress
from harness.supervise import Summary

_PENDING = ("PENDING", "REQUEUED", "REQUEUE_HOLD", "CONFIGURING")


def submit(
    work: Work,
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
    left = {spec.run_id for spec in work.unfinished()}
    before = {spec.run_id for spec in work.specs} - left
    jobs = chunks(work, runs_per_job)
    if not jobs:
        return Summary(skipped=sorted(before))
    try:
        submitit = importlib.import_module("submitit")
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"launcher={cluster} needs submitit; install it with: pip install 'rlvr-harness[slurm]'"
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
        return Summary(skipped=sorted(before), submitted=sorted(left))
    return watch(work, before, _Jobs(submitted, folder), progress)


class _Jobs:
    """Submitted submitit jobs."""

    def __init__(self, jobs: list[Any], folder: Path) -> None:
        self._jobs, self.folder = jobs, folder

    def alive(self) -> int:
        return sum(not _done(job) for job in self._jobs)

    def cancel_pending(self) -> None:
        for job in self._jobs:
            if job.state in _PENDING:
                job.cancel(check=False)

    def kill(self) -> None:
        for job in self._jobs:
            with contextlib.suppress(ProcessLookupError):
                job.cancel(check=False)


def _done(job: Any) -> bool:
    """Whether the scheduler is through with a job (a requeued job has no result file, so its state decides)."""
    return bool(job.done(force_check=False))

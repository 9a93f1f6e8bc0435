"""A Slurm job array by submitit: one task per job of `runs_per_job` runs, requeued when its time is up."""

from __future__ import annotations

import contextlib
import importlib
import math
import os
import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.configuration.error import Checked, ConfigError, choice, ranged
from harness.configuration.sections import RuntimeConfig
from harness.execution.launch._jobs import finished, jobs_for, states, watch
from harness.execution.progress import Progress
from harness.execution.supervisor import RunBatch, Summary
from harness.training.torchrun import wanted_ranks

_LOOKS = 2


@dataclass
class Config(Checked, key="runtime.launcher"):
    """The resources that are asked of Slurm.

    Attributes:
        cluster: slurm, or local: the same path without Slurm, in processes of this machine that all start at once.
        runs_per_job: runs that one job supervises (several small runs share its cores or GPUs).
        jobs: array tasks running at once at most.
        wait: follow the jobs here; false: submit and return (`harness status` shows them).
        minutes: time limit of a job; nearing it, a job checkpoints and is requeued.
        partition: as sbatch's; null: the cluster's default.
        account: as sbatch's.
        qos: as sbatch's.
        constraint: as sbatch's.
        gpus: GPUs of a job on each node; 0: what its runs at once need (`runtime.gpus_per_run`, `runs_per_gpu`) where device=cuda.
        cpus: cores of a job on each node; 0: `runtime.threads` for each rank of its runs at once.
        memory_gib: memory of a job; 0: the cluster's default.
        grace_seconds: how long before the time limit a job is told.
        setup: shell lines before the job, for example to load modules.
        additional: further sbatch options by name.
    """

    kind: str = "slurm"
    cluster: str = choice("slurm", of=("slurm", "local"))
    runs_per_job: int = ranged(1, low=1)
    jobs: int = ranged(64, low=1)
    wait: bool = True
    minutes: int = ranged(1440, low=1)
    partition: str | None = None
    account: str | None = None
    qos: str | None = None
    constraint: str | None = None
    gpus: int = 0
    cpus: int = 0
    memory_gib: int = 0
    grace_seconds: int = 120
    setup: list[str] = field(default_factory=list)
    additional: dict[str, Any] = field(default_factory=dict)


def launch(config: Config, work: RunBatch, progress: Progress) -> Summary:
    """Submit the unfinished runs as one array and, unless `wait` is off, follow them to their end.

    Raises:
        ConfigError: submitit is absent, or the scheduler refused the jobs.
    """
    before = states(work)
    jobs = jobs_for(work, config.runs_per_job)
    if not jobs:
        return Summary(skipped=finished(before))
    try:
        submitit = importlib.import_module("submitit")
    except ModuleNotFoundError as error:
        raise ConfigError(
            "launcher=slurm needs submitit; install it with: pip install -e '.[slurm]'"
        ) from error
    folder = work.store.cache_dir("jobs") / work.experiment
    try:
        executor = submitit.AutoExecutor(folder=str(folder), cluster=config.cluster)
        executor.update_parameters(**parameters(config, work.runtime, work.experiment))
        with executor.batch():
            submitted = [executor.submit(job) for job in jobs]
    except (RuntimeError, submitit.core.utils.FailedJobError, subprocess.CalledProcessError) as error:
        raise ConfigError(f"launcher=slurm refused the jobs: {str(error).strip()}") from error
    if not config.wait:
        return Summary(skipped=finished(before), submitted=sorted(before.keys() - finished(before)))
    follow = _SlurmJobs if config.cluster == "slurm" else _LocalJobs
    return watch(work, before, follow(submitted), progress)


def parameters(config: Config, runtime: RuntimeConfig, name: str) -> dict[str, Any]:
    if config.cluster == "local":
        return {"timeout_min": config.minutes}
    at_once = min(runtime.workers or config.runs_per_job, config.runs_per_job)
    shares = math.ceil(at_once / runtime.runs_per_gpu)
    gpus = config.gpus or (0 if runtime.device != "cuda" else runtime.gpus_per_run * shares)
    optional = {
        # Over several nodes the job's own step runs on the first one, where it is told of the time limit; verl's Ray spans the others.
        "slurm_srun_args": ["--nodes=1", "--ntasks=1", "--overlap"] if runtime.nodes > 1 else None,
        "slurm_partition": config.partition,
        "slurm_account": config.account,
        "slurm_qos": config.qos,
        "slurm_constraint": config.constraint,
        "slurm_setup": config.setup or None,
        "mem_gb": config.memory_gib or None,
        "gpus_per_node": gpus or None,
    }
    return {
        "name": name,
        "timeout_min": config.minutes,
        "nodes": runtime.nodes,
        "tasks_per_node": 1,
        "cpus_per_task": config.cpus or runtime.threads * at_once * wanted_ranks(runtime),
        "slurm_array_parallelism": config.jobs,
        "slurm_signal_delay_s": config.grace_seconds,
        "slurm_additional_parameters": {"requeue": True, "open-mode": "append", **config.additional},
        **{key: value for key, value in optional.items() if value is not None},
    }


class _LocalJobs:
    """Processes that submitit started on this machine, and the files that they write."""

    poll_seconds: tuple[float, float] = (0.5, 1.0)

    def __init__(self, jobs: list[Any]) -> None:
        self._jobs = jobs

    def alive(self) -> int:
        return sum(not job.done() for job in self._jobs)

    def stop(self) -> None:
        for job in self._jobs:  # submitit passes the signal on to the job's supervisor
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(job.job_id), signal.SIGTERM)

    def kill(self) -> None:
        for job in self._jobs:
            with contextlib.suppress(ProcessLookupError):
                job.cancel(check=False)

    def last_words(self) -> str:
        for job in self._jobs:
            log = Path(job.paths.stderr)
            lines = log.read_text(errors="replace").strip().splitlines() if log.exists() else []
            if lines:
                errors = [line for line in lines if "Error" in line or "RequeueFailed" in line]
                return f"{(errors or lines)[-1].strip()} ({log})"
        return ""


class _SlurmJobs(_LocalJobs):
    """Array tasks by Slurm's queue. submitit would ask `sacct`, which many clusters do not have and which lags behind requeues."""

    poll_seconds = (2.0, 60.0)

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

    def stop(self) -> None:
        subprocess.run(["scancel", "--state=PENDING", *self._arrays], check=False)
        # A signal instead of a cancellation, which would kill what is not through after a while.
        subprocess.run(["scancel", "--signal=TERM", "--state=RUNNING", *self._arrays], check=False)

    def kill(self) -> None:
        subprocess.run(["scancel", *self._arrays], check=False)

"""A Slurm job array by submitit: one task per job of `runs_per_job` runs, requeued when its time is up."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from harness.configuration.limits import Checked, ranged
from harness.configuration.runtime import RuntimeConfig
from harness.execution.launch._submitit import submit
from harness.execution.launch._supervise import RunBatch
from harness.execution.progress import Progress
from harness.execution.supervise import Summary
from harness.training.torchrun import wanted_ranks


@dataclass
class Config(Checked, key="runtime.launcher"):
    """The resources that are asked of Slurm.

    Attributes:
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
    """Submit the array and, unless `wait` is off, follow it."""
    return submit(
        work,
        progress,
        cluster="slurm",
        parameters=parameters(config, work.runtime, work.experiment),
        runs_per_job=config.runs_per_job,
        wait=config.wait,
    )


def parameters(config: Config, runtime: RuntimeConfig, name: str) -> dict[str, Any]:
    """The options of submitit's executor."""
    at_once = min(runtime.workers or config.runs_per_job, config.runs_per_job)
    shares = math.ceil(at_once / runtime.runs_per_gpu)
    gpus = config.gpus or (0 if runtime.device != "cuda" else runtime.gpus_per_run * shares)
    optional = {
        # Over several nodes the job's own step runs on the first one, where it is told of the time limit, and starts torchrun on all of
        # them (harness.training.torchrun).
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

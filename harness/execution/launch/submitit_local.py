"""Jobs in processes of their own on this machine, by submitit's local executor: Slurm's path without Slurm."""

from __future__ import annotations

from dataclasses import dataclass

from harness.configuration.limits import Checked, ranged
from harness.execution.launch._submitit import submit
from harness.execution.launch._supervise import RunBatch
from harness.execution.progress import Progress
from harness.execution.supervise import Summary


@dataclass
class Config(Checked, key="runtime.launcher"):
    """Local jobs, which all start at once.

    Attributes:
        runs_per_job: runs that one job supervises.
        wait: follow the jobs here; false: submit and return (`harness status` shows them).
        minutes: time limit of a job.
    """

    kind: str = "submitit_local"
    runs_per_job: int = ranged(1, low=1)
    wait: bool = True
    minutes: int = 1440


def launch(config: Config, work: RunBatch, progress: Progress) -> Summary:
    """Submit, and follow unless told not to."""
    parameters = {"timeout_min": config.minutes}
    return submit(
        work,
        progress,
        cluster="local",
        parameters=parameters,
        runs_per_job=config.runs_per_job,
        wait=config.wait,
    )

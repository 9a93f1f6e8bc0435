"""Tasks on a Ray cluster. A task whose node dies is started again elsewhere and resumes from the store's newest checkpoint."""

from __future__ import annotations

import contextlib
import importlib
from dataclasses import dataclass
from typing import Any

from harness.configuration.error import Checked, ConfigError, ranged
from harness.execution.launch._jobs import finished, jobs_for, states, watch
from harness.execution.progress import Progress
from harness.execution.supervisor import RunBatch, Summary


@dataclass
class Config(Checked, key="runtime.launcher"):
    """The resources that are asked of Ray.

    Attributes:
        runs_per_job: runs that one task supervises.
        address: of the cluster (auto: the one that this machine belongs to); null: start one here for the time of the command.
        gpus: GPUs of a task; 0: `runtime.gpus_per_run` / `runtime.runs_per_gpu` where device=cuda.
        cpus: cores of a task; 0: `runtime.threads`.
        retries: how often a task is started again after its node died.
    """

    kind: str = "ray"
    runs_per_job: int = ranged(1, low=1)
    address: str | None = "auto"
    gpus: float = 0
    cpus: float = 0
    retries: int = 3


def launch(config: Config, work: RunBatch, progress: Progress) -> Summary:
    """Send the unfinished runs to the cluster and follow them.

    Raises:
        ConfigError: Ray is absent, or no cluster answers at the address.
    """
    before = states(work)
    jobs = jobs_for(work, config.runs_per_job)
    if not jobs:
        return Summary(skipped=finished(before))
    try:
        ray = importlib.import_module("ray")
    except ModuleNotFoundError as error:
        raise ConfigError("launcher=ray needs Ray; install it with: pip install -e '.[ray]'") from error
    try:
        ray.init(
            address=config.address, log_to_driver=False, logging_level="warning", ignore_reinit_error=True
        )
    except (ConnectionError, RuntimeError, ValueError) as error:
        raise ConfigError(
            f"no Ray cluster at runtime.launcher.address={config.address} ({error}); start one with `ray start --head`, "
            "or set runtime.launcher.address=null to start one for this command"
        ) from error
    runtime = work.runtime
    gpus = config.gpus or (runtime.gpus_per_run / runtime.runs_per_gpu if runtime.device == "cuda" else 0)
    remote = ray.remote(num_cpus=config.cpus or runtime.threads, num_gpus=gpus, max_retries=config.retries)(
        _call
    )
    try:
        return watch(work, before, _Tasks(ray, [remote.remote(job) for job in jobs]), progress)
    finally:
        ray.shutdown()


def _call(job: Any) -> dict[str, Any]:
    return dict(job())


class _Tasks:
    """Tasks sent to the cluster. Their results are not read: the store has them."""

    poll_seconds = (1.0, 5.0)

    def __init__(self, ray: Any, tasks: list[Any]) -> None:
        self._ray, self._tasks, self._all = ray, tasks, tasks

    def alive(self) -> int:
        if self._tasks:
            self._tasks = self._ray.wait(self._tasks, num_returns=len(self._tasks), timeout=0)[1]
        return len(self._tasks)

    def stop(self) -> None:
        # `cancel` interrupts a running task too: as SIGINT, which its supervisor takes as the wish to checkpoint and end.
        for task in self._tasks:
            with contextlib.suppress(Exception):
                self._ray.cancel(task, force=False)

    def kill(self) -> None:
        for task in self._tasks:
            with contextlib.suppress(Exception):
                self._ray.cancel(task, force=True)

    def last_words(self) -> str:
        for task in self._all:
            try:
                self._ray.get(task, timeout=0)
            except Exception as error:
                return str(error).strip().splitlines()[-1]
        return ""

"""`hydra/launcher=processes`: the jobs of a sweep as processes of this machine, supervised, resumed and never run twice."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn, JobStatus, configure_log, env_override
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


@dataclass
class ProcessesConf:
    """How many run at once is `runtime.workers`, how they share GPUs `runtime.runs_per_gpu` and `runtime.gpus_per_run`."""

    _target_: str = "hydra_plugins.rlvr_harness.launcher.ProcessLauncher"


ConfigStore.instance().store(group="hydra/launcher", name="processes", node=ProcessesConf, provider="rlvr_harness")


class ProcessLauncher(Launcher):
    """Has the application (`harness.train`) bring runs to their end by the project's own supervisor. One failure never ends the rest."""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """The task is not called, since each worker is a process of its own."""
        self.config = config
        self.application: Any = task_function.__self__  # type: ignore[attr-defined]

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Bring the jobs to their end. A job that failed returns NaN, so that a sweeper goes on with the others."""
        from harness.execution.progress import progress_on

        configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)
        with env_override(self.config.hydra.job.env_set):
            specs = self.application.take(self.config, job_overrides, initial_job_idx)
            self.application.train([spec for spec in specs if spec], progress_on())
            return [self._job_return(*job) for job in zip(job_overrides, specs, strict=True)]

    def _job_return(self, overrides: Sequence[str], spec: Any) -> JobReturn:
        folder = None if spec is None else str(self.application.folder_of(spec.run_id))
        job_return = JobReturn(list(overrides), self.config, self.config, folder, "train", JobStatus.COMPLETED)
        job_return.return_value = math.nan if spec is None else self.application.value_of(spec.run_id)
        return job_return

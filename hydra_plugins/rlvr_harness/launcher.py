"""`hydra/launcher=processes`: the jobs of a sweep as processes of this machine, supervised, resumed and never run twice."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

from hydra.core.utils import JobReturn, JobStatus, configure_log, env_override
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, open_dict


class ProcessLauncher(Launcher):
    """Has the application (`harness.train`) bring runs to their end by the project's own supervisor. One failure never ends the rest."""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Keep what callbacks are told of; the task is not called, since each worker is a process of its own."""
        self.context, self.task, self.config = hydra_context, task_function, config
        self.application: Any = task_function.__self__  # type: ignore[attr-defined]

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Bring the jobs to their end. A job that failed returns NaN, so that a sweeper goes on with the others."""
        configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)
        with env_override(self.config.hydra.job.env_set):
            specs = self.application.take(self.config, job_overrides, initial_job_idx)
            jobs = [
                (number, *job) for number, job in enumerate(zip(job_overrides, specs, strict=True), initial_job_idx)
            ]
            progress = self._progress({spec.run_id: (number, overrides) for number, overrides, spec in jobs if spec})
            self.application.train([spec for spec in specs if spec], progress)
            return [
                self._job_return(overrides, None if spec is None else spec.run_id, self.config)
                for _, overrides, spec in jobs
            ]

    def _progress(self, jobs: dict[str, tuple[int, Sequence[str]]]) -> Any:
        """What is shown. Callbacks of others are told of each job besides, as they are by other launchers; `jobs` by run id."""
        from harness.execution.progress import Hooked, progress_on

        if not self.config.hydra.callbacks:
            return progress_on()
        callbacks = self.context.callbacks
        configs = {run_id: self._job_config(run_id, *job) for run_id, job in jobs.items()}

        def end(run_id: str) -> None:
            job_return = self._job_return(jobs[run_id][1], run_id, configs[run_id])
            callbacks.on_job_end(config=configs[run_id], job_return=job_return)

        start = partial(callbacks.on_job_start, task_function=self.task)
        return Hooked(progress_on(), lambda run_id: start(config=configs[run_id]), end)

    def _job_config(self, run_id: str, number: int, overrides: Sequence[str]) -> DictConfig:
        config = self.context.config_loader.load_sweep_config(self.config, list(overrides))
        with open_dict(config):
            config.hydra.job.num, config.hydra.job.id = number, str(number)
            config.hydra.runtime.output_dir = str(self.application.folder_of(run_id))
        return config

    def _job_return(self, overrides: Sequence[str], run_id: str | None, config: DictConfig) -> JobReturn:
        folder = None if run_id is None else str(self.application.folder_of(run_id))
        job_return = JobReturn(list(overrides), config, config, folder, "train", JobStatus.COMPLETED)
        job_return.return_value = math.nan if run_id is None else self.application.value_of(run_id)
        return job_return

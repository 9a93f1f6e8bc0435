"""`hydra/launcher=processes`: the jobs of a sweep as processes of this machine, supervised, resumed and never run twice."""

from collections.abc import Sequence
from dataclasses import dataclass

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn, configure_log, env_override
from hydra.plugins.launcher import Launcher
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


@dataclass
class ProcessesConf:
    """How many run at once is `runtime.workers`, how they share GPUs `runtime.runs_per_gpu` and `runtime.gpus_per_run`."""

    _target_: str = "hydra_plugins.rlvr_harness.launcher.ProcessLauncher"


ConfigStore.instance().store(group="hydra/launcher", name="processes", node=ProcessesConf, provider="rlvr_harness")


class ProcessLauncher(Launcher):
    """Runs jobs by the project's own supervisor (`harness.execution.supervisor`). One failure never ends the rest."""

    skips_finished_runs = True
    config: DictConfig

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Keep the configuration of the sweep; the task is not called, since each worker is a process of its own."""
        self.config = config

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        """Bring the jobs to their end. A job that failed returns NaN, so that a sweeper goes on with the others."""
        from harness.commands._sweep import launch_here

        configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)
        with env_override(self.config.hydra.job.env_set):
            return launch_here(self.config, [list(overrides) for overrides in job_overrides])

"""`hydra/sweeper=design`: the runs of a declared experiment or search, of a multirun, or a single one."""

from typing import Any

from hydra.core.plugins import Plugins
from hydra.core.utils import configure_log
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


class DesignSweeper(Sweeper):
    """Has the application (`harness.train`) plan the runs, and hands them to whatever launcher is chosen."""

    config: DictConfig
    launcher: Launcher

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Make the launcher that `hydra/launcher=` names."""
        self.config = config
        self.application: Any = task_function.__self__  # type: ignore[attr-defined]
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> Any:
        """Plan what is asked, and launch what is not finished of it; the application knows the arguments."""
        configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)
        return self.application.sweep(self.config, self.launcher)

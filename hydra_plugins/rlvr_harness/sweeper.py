"""`hydra/sweeper=design`: the jobs of a declared experiment, arms and seeds, look by look where it is sequential."""

from dataclasses import dataclass
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.core.utils import configure_log
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


@dataclass
class DesignConf:
    """Everything is declared under `experiment`: the design, its arms, seeds and looks (`harness keys experiment`)."""

    _target_: str = "hydra_plugins.rlvr_harness.sweeper.DesignSweeper"


ConfigStore.instance().store(group="hydra/sweeper", name="design", node=DesignConf, provider="rlvr_harness")


class DesignSweeper(Sweeper):
    """Turns the declaration under `experiment` into jobs and hands them to whatever launcher is chosen."""

    config: DictConfig
    launcher: Launcher

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        """Make the launcher that `hydra/launcher=` names."""
        self.config = config
        self.launcher = Plugins.instance().instantiate_launcher(
            hydra_context=hydra_context, task_function=task_function, config=config
        )

    def sweep(self, arguments: list[str]) -> Any:
        """Plan the experiment that `arguments` declare, and launch what is not finished of it."""
        from harness.commands._sweep import sweep_design

        configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)
        return sweep_design(self.config, arguments, self.launcher)

"""`hydra/sweeper=design`: the jobs of a declared experiment, arms and seeds, look by look where it is sequential."""

from dataclasses import dataclass, field
from typing import Any, List  # noqa: UP035

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


@dataclass
class SearchConf:
    """A search over the ranges on the command line, `KEY=interval(low,high)` or `KEY=choice(a,b)`, by Optuna.

    The fields are those of `experiment.search`; `seeds` are the training seeds of each trial.
    """

    _target_: str = "hydra_plugins.rlvr_harness.sweeper.SearchSweeper"
    sampler: str = "tpe"
    trials: int = 20
    objectives: List[str] = field(default_factory=lambda: ["avg"])  # noqa: UP006  # Hydra reads the type
    seeds: List[int] = field(default_factory=lambda: [0])  # noqa: UP006
    seed: int = 0


ConfigStore.instance().store(group="hydra/sweeper", name="search", node=SearchConf, provider="rlvr_harness")


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


class SearchSweeper(DesignSweeper):
    """Asks Optuna for trials, has the launcher run them, and tells the study their scores."""

    def __init__(self, **options: Any) -> None:
        self.options = options

    def sweep(self, arguments: list[str]) -> Any:
        """Search until the study has its trials."""
        from harness.commands._sweep import sweep_search

        options = {key: list(value) if key in ("objectives", "seeds") else value for key, value in self.options.items()}
        return sweep_search(self.config, arguments, self.launcher, options)

"""`hydra/sweeper=design`: the runs of a declared experiment, of a multirun, or a single one; `search`: what Optuna asks for."""

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
    """Runs are arms and seeds: what is declared under `experiment` (`harness keys experiment`), else what the overrides multiply to."""

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


class SearchSweeper(DesignSweeper):
    """Asks Optuna for trials, has the launcher run them, and tells the study their scores."""

    def __init__(self, **options: Any) -> None:
        self.options = options

    def sweep(self, arguments: list[str]) -> Any:
        """Search until the study has its trials."""
        configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)
        options = {key: list(value) if key in ("objectives", "seeds") else value for key, value in self.options.items()}
        return self.application.search(self.config, self.launcher, options)

"""The declaration of a search, and its study in the store: an append-only journal that belongs to one declaration."""

from __future__ import annotations

import json
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import optuna
from optuna.distributions import CategoricalDistribution

from harness.configuration.error import ConfigError, require, require_range
from harness.configuration.schema import load_dataclass
from harness.experiment.declaration import Experiment
from harness.search.space import Parameter
from harness.store import METRICS, ResultStore, TornFile, layout

SAMPLERS = ("tpe", "random", "grid", "cmaes", "nsga2")
OBJECTIVES = ("avg", "seconds", *METRICS, "verifier_faults", "generated_groups", "surplus_groups")
_OF_THE_CURRICULUM = "curriculum_"  # columns that each curriculum names itself


@dataclass
class Search:
    """The declaration under `experiment.search`.

    Attributes:
        space: overrides with `interval`, `range` or `choice` values (`tag(log,interval(...))` for a logarithmic scale).
        sampler: tpe, random, grid (all values countable), cmaes (numbers only, one objective) or nsga2.
        trials: how many the study is to have in total, counting those it has.
        objectives: avg (the experiment's benchmark at the training cap), or a column of the newest metrics row such as
            generated_tokens_total; a minus sign in front: less is better. Two or more: a Pareto front.
        seed: of the sampler.
    """

    space: list[str] = field(default_factory=list)
    sampler: str = "tpe"
    trials: int = 20
    objectives: list[str] = field(default_factory=lambda: ["avg"])
    seed: int = 0

    def __post_init__(self) -> None:
        require("experiment.search.sampler", self.sampler, SAMPLERS)
        require_range("experiment.search.trials", self.trials, 1)
        if not self.objectives:
            raise ConfigError("experiment.search.objectives must name at least one, for example [avg]")
        for name in self.objectives:
            if not name.lstrip("-").startswith(_OF_THE_CURRICULUM):
                require("experiment.search.objectives", name.lstrip("-"), OBJECTIVES)
        if len(self.objectives) > 1 and self.sampler == "cmaes":
            raise ConfigError("experiment.search.sampler=cmaes has a single objective; use tpe or nsga2")

    @property
    def directions(self) -> list[str]:
        """Optuna's direction of each objective."""
        return ["minimize" if name.startswith("-") else "maximize" for name in self.objectives]


def open_study(
    search: Search,
    parameters: Sequence[Parameter],
    store: ResultStore,
    name: str,
    declaration: dict[str, Any] | None = None,
) -> optuna.Study:
    """The study of this name in the store, made or continued.

    Args:
        search: what is declared.
        parameters: of its space.
        store: where the study lies.
        name: of the experiment.
        declaration: everything that the trials of one study must have in common, by name; kept with the study.

    Raises:
        ConfigError: the sampler cannot search this space, or the stored study is of another declaration.
    """
    path = layout.plan_file(store.root, name).with_name(layout.STUDY)
    path.parent.mkdir(parents=True, exist_ok=True)
    backend = optuna.storages.journal.JournalFileBackend(str(path))
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    try:
        storage = optuna.storages.JournalStorage(backend)
        study = optuna.create_study(
            storage=storage, study_name=name, directions=search.directions, load_if_exists=True
        )
    except (ValueError, KeyError, TypeError) as error:
        raise TornFile(
            f"{path} is no journal of a study ({error}); remove it to begin the search anew: its runs stay, and are found finished"
        ) from error
    if [direction.name.lower() for direction in study.directions] != search.directions:
        raise ConfigError(f"{path} has other objectives; give the search another experiment.name")
    study.sampler = sampler_of(search, parameters, search.seed)
    _refuse_another(study, declaration or {}, str(path))
    return study


def _refuse_another(study: optuna.Study, declaration: dict[str, Any], path: str) -> None:
    """Trials of different configurations, spaces or seeds are not comparable: a study keeps what it was begun with."""
    now = json.loads(json.dumps(declaration))
    begun = study.user_attrs.get("declaration")
    if begun is None:
        study.set_user_attr("declaration", now)
        return
    changed = [key for key in {**begun, **now} if begun.get(key) != now.get(key)]
    if changed:
        pairs = "; ".join(f"{key}: {begun.get(key)} before, {now.get(key)} now" for key in changed[:3])
        raise ConfigError(
            f"the study in {path} was begun with another declaration ({pairs}); trials of both could not be compared. Give this "
            "search another experiment.name, or remove the file to begin anew"
        )


def sampler_of(search: Search, parameters: Sequence[Parameter], seed: int) -> optuna.samplers.BaseSampler:
    """Optuna's sampler of the declared name. Raises `ConfigError` where it cannot search these parameters."""
    samplers = optuna.samplers
    if search.sampler == "random":
        return samplers.RandomSampler(seed=seed)
    if search.sampler == "nsga2":
        return samplers.NSGAIISampler(seed=seed)
    if search.sampler == "grid":
        sampler = samplers.GridSampler(grid_values(parameters), seed=search.seed)
        # It would stop `Study.optimize` after the last point, which we do not use: the number of points bounds the trials.
        sampler.after_trial = lambda *_: None
        return sampler
    if search.sampler == "cmaes":
        if any(isinstance(parameter.distribution, CategoricalDistribution) for parameter in parameters):
            raise ConfigError("experiment.search.sampler=cmaes needs numbers; use tpe for choice(...)")
        try:
            return samplers.CmaEsSampler(seed=seed, warn_independent_sampling=False)
        except ImportError as error:
            raise ConfigError(
                "experiment.search.sampler=cmaes needs the package cmaes: pip install cmaes"
            ) from error
    # constant_liar: trials that still run count as bad ones, so that parallel workers spread out.
    return samplers.TPESampler(
        seed=seed, constant_liar=True, n_startup_trials=min(10, max(2, search.trials // 3))
    )


def grid_values(parameters: Sequence[Parameter]) -> dict[str, list[Any]]:
    """All values of each parameter. Raises `ConfigError` for one that has no end of them."""
    values: dict[str, list[Any]] = {}
    for parameter in parameters:
        if parameter.values is None:
            raise ConfigError(
                f"experiment.search.sampler=grid cannot count the values of {parameter.key}; use choice() or range()"
            )
        values[parameter.key] = parameter.values
    return values


def search_of(experiment: Experiment) -> Search | None:
    """The experiment's search, None where it declares arms. Raises `ConfigError` for an unknown key."""
    if experiment.search is None:
        return None
    return load_dataclass(Search, experiment.search, "experiment.search")

"""The declaration of a search, and its study in the store: an append-only journal that belongs to one declaration."""

from __future__ import annotations

import json
import math
import os
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

import optuna
from hydra.core.override_parser.types import ChoiceSweep, IntervalSweep, Override, RangeSweep
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from harness.configuration.compose import parse_overrides
from harness.configuration.error import ConfigError, require, require_range
from harness.configuration.schema import load_dataclass
from harness.experiment.declaration import Experiment, refuse_seed
from harness.store import METRICS, ResultStore, TornFile, layout

SAMPLERS = ("tpe", "random", "grid")
OBJECTIVES = ("avg", "seconds", *METRICS, "verifier_faults", "generated_groups", "surplus_groups")
_OF_THE_CURRICULUM = "curriculum_"  # columns that each curriculum names itself


@dataclass
class SearchSettings:
    """The declaration under `experiment.search`.

    Attributes:
        space: overrides with `interval`, `range` or `choice` values (`tag(log,interval(...))` for a logarithmic scale).
        sampler: tpe, random or grid (all values countable).
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
        # A sampler's generator takes 32 bits.
        require_range("experiment.search.seed", self.seed, 0, 2**32 - 1 - self.trials)
        refuse_seed(self.space, where="experiment.search.space: ")
        if not self.objectives:
            raise ConfigError("experiment.search.objectives must name at least one, for example [avg]")
        for name in self.objectives:
            if not name.lstrip("-").startswith(_OF_THE_CURRICULUM):
                require("experiment.search.objectives", name.lstrip("-"), OBJECTIVES)

    @property
    def directions(self) -> list[str]:
        return ["minimize" if name.startswith("-") else "maximize" for name in self.objectives]


def open_study(
    search: SearchSettings, parameters: Sequence[Parameter], store: ResultStore, name: str, declaration: dict[str, Any]
) -> optuna.Study:
    """The study of this name in the store, made or continued; `declaration` is what all its trials have in common, by name.

    Raises `ConfigError` where the sampler cannot search this space, or the stored study is of another declaration.
    """
    path = layout.plan_file(store.root, name).with_name(layout.STUDY)
    path.parent.mkdir(parents=True, exist_ok=True)
    lock = optuna.storages.journal.JournalFileSymlinkLock(str(path))
    _drop_torn_line(path, lock)
    backend = optuna.storages.journal.JournalFileBackend(str(path), lock)
    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    try:
        storage = optuna.storages.JournalStorage(backend)
        study = optuna.create_study(storage=storage, study_name=name, directions=search.directions, load_if_exists=True)
    except (ValueError, LookupError, TypeError, AttributeError, AssertionError, RecursionError) as error:
        raise TornFile(
            f"{path} is no journal of a study ({error}); remove it to begin the search anew: its runs stay, and are found finished"
        ) from error
    study.sampler = sampler_of(search, parameters, search.seed)
    _refuse_another(study, declaration, str(path))
    return study


def _drop_torn_line(path: Path, lock: Any) -> None:
    """End a journal at its last whole line: what a killed process was writing must not run into what is appended."""
    lock.acquire()
    try:
        content = path.read_bytes() if path.exists() else b""
        lines = content.rpartition(b"\n")[0]
        if lines and not content.endswith(b"\n"):
            os.truncate(path, len(lines) + 1)
    finally:
        lock.release()


def _refuse_another(study: optuna.Study, declaration: dict[str, Any], path: str) -> None:
    """Trials of different configurations, spaces or seeds are not comparable: a study keeps what it was begun with."""
    new = json.loads(json.dumps(declaration))
    old = study.user_attrs.get("declaration")
    if old is None:
        study.set_user_attr("declaration", new)
        return
    changed_keys = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    if changed_keys:
        pairs = "; ".join(f"{key}: {old.get(key)} before, {new.get(key)} now" for key in changed_keys[:3])
        raise ConfigError(
            f"the study in {path} was begun with another declaration ({pairs}); trials of both could not be compared. Give this "
            "search another experiment.name, or remove the file to begin anew"
        )


def sampler_of(search: SearchSettings, parameters: Sequence[Parameter], seed: int) -> optuna.samplers.BaseSampler:
    """Optuna's sampler of the declared name. Raises `ConfigError` where it cannot search these parameters."""
    samplers = optuna.samplers
    if search.sampler == "random":
        return samplers.RandomSampler(seed=seed)
    if search.sampler == "grid":
        sampler = samplers.GridSampler(grid_values(parameters), seed=search.seed)
        # It would stop `Study.optimize` after the last point, which we do not use: the number of points bounds the trials.
        sampler.after_trial = lambda *_: None
        return sampler
    # constant_liar: trials that still run count as bad ones, so that parallel workers spread out.
    return samplers.TPESampler(seed=seed, constant_liar=True, n_startup_trials=min(10, max(2, search.trials // 3)))


def grid_values(parameters: Sequence[Parameter]) -> dict[str, list[Any]]:
    """All values of each parameter. Raises `ConfigError` for one that has no end of them."""
    values: dict[str, list[Any]] = {}
    for parameter in parameters:
        if parameter.values is None:
            raise ConfigError(f"sampler=grid cannot count the values of {parameter.key}; use choice() or range()")
        values[parameter.key] = parameter.values
    return values


def search_of(experiment: Experiment) -> SearchSettings:
    """The experiment's search. Raises `ConfigError` where it declares none, and for an unknown key."""
    if experiment.search is None:
        raise ConfigError(
            f"experiment {experiment.name!r} declares no search; hydra/sweeper=search needs experiment.search, or ranges of keys"
        )
    return load_dataclass(SearchSettings, experiment.search, "experiment.search")


@dataclass(frozen=True)
class Parameter:
    """One key and the values that Optuna may suggest for it."""

    key: str
    distribution: BaseDistribution

    def override(self, value: Any) -> str:
        if isinstance(self.distribution, FloatDistribution):
            return f"{self.key}={float(value if self.distribution.step is None else round(value, 12))!r}"
        return f"{self.key}={value}"

    @property
    def edge_overrides(self) -> list[str]:
        """The overrides of every choice, or of both bounds."""
        distribution = self.distribution
        if isinstance(distribution, CategoricalDistribution):
            return [self.override(value) for value in distribution.choices]
        return [self.override(value) for value in (distribution.low, distribution.high)]

    @property
    def values(self) -> list[Any] | None:
        """All values where they can be counted, else None."""
        distribution = self.distribution
        if isinstance(distribution, CategoricalDistribution):
            return list(distribution.choices)
        if distribution.step is None:
            return None
        count = round((distribution.high - distribution.low) / distribution.step) + 1
        return [round(distribution.low + index * distribution.step, 12) for index in range(count)]


def parse_space(space: Sequence[str]) -> list[Parameter]:
    """The parameters of a search. Raises `ConfigError` for an override that cannot be parsed, varies nothing, or occurs twice."""
    parameters = [_parameter(item) for item in parse_overrides(space)]
    keys = [parameter.key for parameter in parameters]
    for key in keys:
        if keys.count(key) > 1:
            raise ConfigError(f"experiment.search.space varies {key} twice; keep one")
    if not parameters:
        raise ConfigError("nothing to search: give 'optimizer.learning_rate=tag(log,interval(1e-5,1e-3))'")
    return parameters


def _parameter(item: Override) -> Parameter:
    key, line = item.get_key_element(), item.input_line
    value = item.value()
    if isinstance(value, ChoiceSweep):
        choices = list(item.sweep_string_iterator())
        return Parameter(key, CategoricalDistribution(choices))
    if isinstance(value, IntervalSweep):
        low, high = _bounds(value.start, value.end, line)
        log = "log" in value.tags
        if log and low <= 0:
            raise ConfigError(f"{line}: a logarithmic scale needs a lower bound above 0")
        if isinstance(low, int) and isinstance(high, int):
            return Parameter(key, IntDistribution(low, high, log=log))
        return Parameter(key, FloatDistribution(float(low), float(high), log=log))
    if isinstance(value, RangeSweep):
        low, stop = _bounds(value.start, value.stop, line)
        if value.step <= 0:
            raise ConfigError(f"{line} has no values: range(start, stop, step) leaves stop out")
        # In decimals: as binary numbers 1.1 - 0.8 is more than three times 0.1.
        start, end, step = (Decimal(str(number)) for number in (low, stop, value.step))
        high = start + (math.ceil((end - start) / step) - 1) * step  # the last before the stop
        if all(isinstance(number, int) for number in (low, stop, value.step)):
            return Parameter(key, IntDistribution(low, int(high), step=value.step))
        return Parameter(key, FloatDistribution(float(low), float(high), step=float(step)))
    raise ConfigError(f"{line} has one value only; a search needs interval(), range() or choice()")


def _bounds(low: Any, high: Any, line: str) -> tuple[Any, Any]:
    if low is None or high is None or not float(low) < float(high):
        raise ConfigError(f"{line}: the first bound must be below the second")
    return low, high


def overrides_of(parameters: Sequence[Parameter], values: Mapping[str, Any]) -> list[str]:
    """The overrides of a trial that was asked before."""
    return [parameter.override(values[parameter.key]) for parameter in parameters]


optuna.logging.set_verbosity(optuna.logging.WARNING)

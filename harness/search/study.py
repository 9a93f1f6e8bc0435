"""The declaration of a search: what is varied, in Hydra's grammar, and how Optuna is asked for it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

import optuna
from hydra.core.override_parser.types import ChoiceSweep, IntervalSweep, Override, RangeSweep
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from harness.configuration.compose import parse_overrides
from harness.configuration.error import ConfigError, require, require_range
from harness.experiment.declaration import refuse_seed
from harness.store import METRICS

SAMPLERS = ("tpe", "random")
OBJECTIVES = ("avg", "seconds", *METRICS, "verifier_faults", "generated_groups", "surplus_groups")
_OF_THE_CURRICULUM = "curriculum_"  # columns that each curriculum names itself


@dataclass
class SearchSettings:
    """The declaration under `experiment.search`.

    Attributes:
        space: overrides with `interval`, `range` or `choice` values (`tag(log,interval(...))` for a logarithmic scale).
        sampler: tpe or random; `experiment.grid` tries every combination.
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

    def sampler_at(self, trial: int) -> optuna.samplers.BaseSampler:
        """Optuna's sampler of the declared name, seeded by the trial's number: a search that goes on proposes no point again."""
        if self.sampler == "random":
            return optuna.samplers.RandomSampler(seed=self.seed + trial)
        # constant_liar: trials that still run count as bad ones, so that those proposed together spread out.
        startup_trials = min(10, max(2, self.trials // 3))
        return optuna.samplers.TPESampler(seed=self.seed + trial, constant_liar=True, n_startup_trials=startup_trials)


@dataclass(frozen=True)
class Parameter:
    """One key and the values that Optuna may suggest for it."""

    key: str
    distribution: BaseDistribution

    def override(self, value: Any) -> str:
        if isinstance(self.distribution, FloatDistribution):
            return f"{self.key}={float(value if self.distribution.step is None else round(value, 12))!r}"
        return f"{self.key}={value}"

    def value(self, text: str) -> Any:
        """What `override` has written behind the key. Raises `ValueError` for what the space does not have."""
        distribution = self.distribution
        if isinstance(distribution, CategoricalDistribution):
            return distribution.choices[distribution.choices.index(text)]
        value = int(text) if isinstance(distribution, IntDistribution) else float(text)
        if not distribution.low <= value <= distribution.high:
            raise ValueError(f"{self.key}={text} is outside of the space")
        return value

    @property
    def edge_overrides(self) -> list[str]:
        """The overrides of every choice, or of both bounds."""
        distribution = self.distribution
        if isinstance(distribution, CategoricalDistribution):
            return [self.override(value) for value in distribution.choices]
        return [self.override(value) for value in (distribution.low, distribution.high)]


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
    if getattr(value, "tags", set()) - ({"log"} if isinstance(value, IntervalSweep) else set()):
        raise ConfigError(f"{line}: the only tag is log, of an interval")
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

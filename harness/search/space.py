"""The space of a search: Hydra's own override grammar in, Optuna's distributions out.

`optimizer.learning_rate=tag(log,interval(1e-5,1e-3))`, `algorithm.surrogate.clip_high=choice(0.2,0.24,0.28)`,
`algorithm.responses_per_prompt=range(4,17,4)`, `algorithm=choice(grpo,dapo)`, `sampling.top_k=int(interval(1,50))`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hydra.core.override_parser.types import ChoiceSweep, IntervalSweep, Override, RangeSweep
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution, IntDistribution

from harness.configuration.compose import parse_overrides
from harness.configuration.error import ConfigError


@dataclass(frozen=True)
class Parameter:
    """One key and the values that Optuna may suggest for it."""

    key: str
    distribution: BaseDistribution

    def override(self, value: Any) -> str:
        """The override of a value that a trial was given."""
        if isinstance(self.distribution, FloatDistribution):
            return f"{self.key}={float(value if self.distribution.step is None else round(value, 12))!r}"
        return f"{self.key}={value}"

    @property
    def tried_first(self) -> list[str]:
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
        return [distribution.low + index * distribution.step for index in range(count)]


def parse_space(space: Sequence[str]) -> list[Parameter]:
    """The parameters of a search.

    Raises:
        ConfigError: an override that cannot be parsed, varies nothing, or occurs twice.
    """
    parameters = [_parameter(item) for item in parse_overrides(space)]
    keys = [parameter.key for parameter in parameters]
    for key in keys:
        if keys.count(key) > 1:
            raise ConfigError(f"experiment.search.space varies {key} twice; keep one")
    if not parameters:
        raise ConfigError(
            "nothing to search: give overrides such as 'optimizer.learning_rate=tag(log,interval(1e-5,1e-3))'"
        )
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
        step = value.step
        if step <= 0:
            raise ConfigError(f"{line} has no values: range(start, stop, step) leaves stop out")
        high = low + (-(-(stop - low) // step) - 1) * step  # the last before the stop
        if all(isinstance(bound, int) for bound in (low, stop, step)):
            return Parameter(key, IntDistribution(int(low), int(high), step=int(step)))
        return Parameter(key, FloatDistribution(float(low), float(high), step=float(step)))
    raise ConfigError(
        f"{line} has one value only; a search needs interval(), range() or choice() (fixed overrides stand beside them)"
    )


def _bounds(low: Any, high: Any, line: str) -> tuple[Any, Any]:
    if low is None or high is None or not float(low) < float(high):
        raise ConfigError(f"{line}: the first bound must be below the second")
    return low, high


def overrides_of(parameters: Sequence[Parameter], values: Mapping[str, Any]) -> list[str]:
    """The overrides of a trial that was asked before."""
    return [parameter.override(values[parameter.key]) for parameter in parameters]

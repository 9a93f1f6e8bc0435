"""What a search varies, in Hydra's own override grammar, as suggestions of an Optuna trial.

`optimizer.learning_rate=tag(log,interval(1e-5,1e-3))`, `algorithm.surrogate.clip_high=choice(0.2,0.24,0.28)`,
`algorithm.responses_per_prompt=range(4,17,4)`, `algorithm=choice(grpo,dapo)`, `sampling.top_k=int(interval(1,50))`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import ChoiceSweep, IntervalSweep, Override, RangeSweep
from hydra.errors import HydraException

from harness.configuration.error import ConfigError


@dataclass(frozen=True)
class Parameter:
    """One key: numbers from `low` to `high` (both included; on a logarithmic scale, or in steps), or one of `choices`."""

    key: str
    choices: tuple[str, ...] = ()
    low: float = 0.0
    high: float = 0.0
    log: bool = False
    integer: bool = False
    step: float | None = None

    def suggest(self, trial: Any) -> str:
        """The override that a trial tries."""
        if self.choices:
            return f"{self.key}={trial.suggest_categorical(self.key, list(self.choices))}"
        if self.integer:
            step = 1 if self.step is None else int(self.step)
            return f"{self.key}={trial.suggest_int(self.key, int(self.low), int(self.high), step=step, log=self.log)}"
        value = trial.suggest_float(self.key, self.low, self.high, step=self.step, log=self.log)
        return self.override(value)

    def override(self, value: Any) -> str:
        """The override of a value that a trial was given."""
        if self.choices or self.integer:
            return f"{self.key}={value}"
        return f"{self.key}={float(value if self.step is None else round(value, 12))!r}"

    @property
    def values(self) -> list[Any] | None:
        """All values where they can be counted, else None."""
        if self.choices:
            return list(self.choices)
        if self.step is None:
            return list(range(int(self.low), int(self.high) + 1)) if self.integer else None
        count = int((self.high - self.low) / self.step + 1e-9) + 1
        points = [self.low + index * self.step for index in range(count)]
        return [int(point) for point in points] if self.integer else points


def parse_space(space: Sequence[str]) -> list[Parameter]:
    """The parameters of a search.

    Raises:
        ConfigError: an override that cannot be parsed, varies nothing, or occurs twice.
    """
    try:
        parsed = OverridesParser.create().parse_overrides(list(space))
    except HydraException as error:
        raise ConfigError(f"experiment.search.space: {str(error).splitlines()[0]}") from error
    parameters = [_parameter(item) for item in parsed]
    keys = [parameter.key for parameter in parameters]
    for key in keys:
        if keys.count(key) > 1:
            raise ConfigError(f"experiment.search.space varies {key} twice; keep one")
    if not parameters:
        raise ConfigError(
            "nothing to search: give overrides such as 'optimizer.learning_rate=tag(log,interval(1e-5,1e-3))'"
        )
    return parameters


def is_varied(override: str) -> bool:
    """Whether an override has several values."""
    try:
        return bool(OverridesParser.create().parse_override(override).is_sweep_override())
    except HydraException as error:
        raise ConfigError(f"cannot read {override!r}: {str(error).splitlines()[0]}") from error


def _parameter(item: Override) -> Parameter:
    key, value = item.get_key_element(), item.value() if not item.is_sweep_override() else item._value
    if isinstance(value, ChoiceSweep):
        return Parameter(key, choices=tuple(Override._get_value_element_as_str(one) for one in value.list))
    if isinstance(value, IntervalSweep):
        low, high = _bounds(value.start, value.end, item.input_line)
        integer, log = isinstance(value.start, int) and isinstance(value.end, int), "log" in value.tags
        if log and low <= 0:
            raise ConfigError(f"{item.input_line}: a logarithmic scale needs a lower bound above 0")
        return Parameter(key, low=low, high=high, log=log, integer=integer)
    if isinstance(value, RangeSweep):
        low, stop = _bounds(value.start, value.stop, item.input_line)
        step = float(value.step)
        integer = all(isinstance(one, int) for one in (value.start, value.stop, value.step))
        count = int(-(-(stop - low) // step)) if step > 0 else 0
        if count < 1:
            raise ConfigError(f"{item.input_line} has no values: range(start, stop, step) leaves stop out")
        return Parameter(key, low=low, high=low + (count - 1) * step, integer=integer, step=step)
    raise ConfigError(
        f"{item.input_line} has one value only; a search needs interval(), range() or choice() (fixed overrides stand beside them)"
    )


def _bounds(low: Any, high: Any, line: str) -> tuple[float, float]:
    if low is None or high is None or not float(low) < float(high):
        raise ConfigError(f"{line}: the first bound must be below the second")
    return float(low), float(high)


def overrides_of(parameters: Sequence[Parameter], values: Mapping[str, Any]) -> list[str]:
    """The overrides of a trial that was asked before."""
    return [parameter.override(values[parameter.key]) for parameter in parameters]

"""The metrics and margins that an experiment asks about, checked before anything runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from harness.configuration.compose import compose_values
from harness.configuration.error import ConfigError
from harness.configuration.registry import nearest
from harness.configuration.schema import RunConfig
from harness.evaluation.metrics.names import TRAINING, Metric, UnknownMetric, metric
from harness.store import METRICS


def asked_metrics(names: Sequence[str]) -> list[Metric]:
    """The metrics of these names.

    Raises:
        ConfigError: none at all, one twice, an unknown one, or a column that no step logs.
    """
    if not names:
        raise ConfigError("experiment.metric=[] asks for nothing; leave it out for avg")
    if len(set(names)) < len(names):
        raise ConfigError(f"experiment.metric={list(names)} names a metric twice")
    try:
        found = [metric(name) for name in names]
    except UnknownMetric as error:
        raise ConfigError(f"experiment.metric: {error}") from error
    for one in found:
        if one.kind == TRAINING and one.parameter not in METRICS:
            hint = nearest(str(one.parameter), list(METRICS))
            raise ConfigError(f"experiment.metric={one.name!r}: no step logs {one.parameter!r}{hint}")
    return found


def check_metrics(names: Sequence[str], margin: float | Mapping[str, float] | None) -> None:
    """Raises `ConfigError` for metrics that cannot be, and for margins that are not above zero or of no metric."""
    units = {one.name: one.unit for one in asked_metrics(names)}
    if margin is None:
        return
    if not isinstance(margin, Mapping):
        if len(names) > 1:
            example = ", ".join(f"{name}: {margin:g}" for name in names)
            raise ConfigError(
                f"experiment.margin={margin:g} with {len(names)} metrics has no unit; say it for each: {{{example}}}"
            )
        margin = {names[0]: margin}
    for name, size in margin.items():
        if name not in units:
            raise ConfigError(f"experiment.margin: {name!r} is not asked about{nearest(name, list(units))}")
        if not 0 < size < math.inf:
            raise ConfigError(
                f"experiment.margin={size:g} must be above zero: the {units[name]} of {name} that do not matter; leave it out to call "
                "nothing equivalent"
            )


def refuse_too_few(names: Sequence[str], arm: str, config: RunConfig) -> None:
    """Raises `ConfigError` for a k above the samples that an arm takes of a problem."""
    samples = config.evaluation.samples_per_problem
    for one in asked_metrics(names):
        if isinstance(one.parameter, int) and one.parameter > samples:
            raise ConfigError(
                f"experiment.metric={one.name} needs {one.parameter} samples a problem, and arm {arm!r} takes {samples}; set "
                f"evaluation.samples_per_problem={one.parameter}"
            )


_OF_A_MULTIRUN = {"name", "title", "question", "metric", "margin", "benchmark", "paired"}


def asked_of_a_multirun(overrides: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Return what the `experiment.*` overrides of a multirun ask, and the overrides that are left.

    Raises:
        ConfigError: a key that the jobs of a multirun decide.
    """
    own = [item for item in overrides if item.lstrip("+").startswith("experiment.")]
    rest = [item for item in overrides if item not in own]
    values = compose_values([f"++{item.lstrip('+')}" for item in own])["experiment"] if own else {}
    decided = sorted(values.keys() - _OF_A_MULTIRUN)
    if decided:
        raise ConfigError(
            f"experiment.{decided[0]} is not for a multirun, whose jobs are its arms and seeds; it may say "
            f"{', '.join(f'experiment.{key}' for key in sorted(_OF_A_MULTIRUN))}"
        )
    return values, rest

"""Answers as plain values for programs: what `harness report`, `judge` and `compare` print as JSON, in shown units."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analysis.effects import Effect
    from analysis.results import Results


@dataclass(frozen=True)
class EffectRow:
    """One effect: columns of `effects.csv` (docs/python.md). NaN where there is no number, and `absent` may say why."""

    kind: str
    group: str
    benchmark: str
    metric: str
    arm: str
    reference: str
    value: float | None
    low: float | None
    high: float | None
    level: float
    family: int
    seeds: int
    margin: float | None
    word: str
    engaged: str
    absent: str

    @classmethod
    def of(cls, effect: Effect) -> EffectRow:
        row: dict[str, Any] = effect.row
        return cls(**{name: row[name] for name in cls.__annotations__})


@dataclass(frozen=True)
class ArmRecord:
    """One arm in one metric: its mean over seeds with the 95 % interval, and its value by seed."""

    name: str
    label: str
    mean: float | None
    low: float | None
    high: float | None
    by_seed: dict[int, float | None]


@dataclass(frozen=True)
class MetricRecord:
    """What an experiment found in one metric. `better`: higher, lower, or empty. `finding`: of the claim that it declares, or empty."""

    name: str
    title: str
    unit: str
    better: str
    margin: float | None
    arms: list[ArmRecord]
    effects: list[EffectRow]
    finding: str


def metric_records(results: Results) -> list[MetricRecord]:
    """The answer of an experiment in each of its metrics, the first one first."""
    return [_in_one_metric(view) for view in results.each_metric()]


def _in_one_metric(results: Results) -> MetricRecord:
    from analysis.answer import finding_of
    from analysis.effects import declared_effects

    metric, arms = results.metric, []
    for arm in results.experiment.plan.arms:
        mean = results.mean(arm).rescale(metric.scale)
        by_seed: dict[int, float | None] = {seed: metric.scale * value for seed, value in results.values(arm).items()}
        arms.append(ArmRecord(arm.name, arm.label, mean.value, mean.low, mean.high, by_seed))
    effects, finding = list(map(EffectRow.of, declared_effects(results))), str(finding_of(results) or "")
    margin = results.shown_margin
    return MetricRecord(metric.name, metric.title, metric.unit, metric.better, margin, arms, effects, finding)

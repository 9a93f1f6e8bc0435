"""Answers as plain values for programs: what `harness report`, `judge` and `compare` print as JSON, in shown units."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from harness.statistics.intervals import Estimate

if TYPE_CHECKING:
    from analysis.effects import Effect
    from analysis.results import Results


@dataclass(frozen=True)
class Interval:
    """A value with its interval; None where there is none, and `absent` may say why.

    `level` is that of the single interval; where `family` is above 1, all of the family hold together at 0.95. `verdict` is the word that
    the interval allows of a difference; empty for a mean.
    """

    value: float | None
    low: float | None
    high: float | None
    level: float
    family: int
    seeds: int
    margin: float | None
    verdict: str
    absent: str

    @classmethod
    def of(cls, estimate: Estimate, scale: float = 1.0, *, difference: bool = True) -> Interval:
        """An estimate in its shown unit, stored values times `scale`; `difference`: with its verdict."""
        result = estimate.rescale(scale)
        numbers = (result.value, result.low, result.high)
        value, low, high = (number if math.isfinite(number) else None for number in numbers)
        verdict = result.verdict.value if difference and value is not None else ""
        return cls(value, low, high, result.level, result.family, result.seeds, result.margin, verdict, result.absent)


@dataclass(frozen=True)
class EffectRow:
    """One difference of `judge` or `compare`, in the shown unit: some columns of `effects.csv` (docs/frames.md)."""

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
    word: str

    @classmethod
    def of(cls, effect: Effect) -> EffectRow:
        """The row of an effect."""
        row: dict[str, Any] = effect.row
        return cls(**{name: row[name] for name in cls.__annotations__})


@dataclass(frozen=True)
class ArmRecord:
    """One arm in one metric: its mean over seeds, its value by seed, its difference to `reference` (both None for the reference itself)."""

    name: str
    label: str
    mean: Interval
    by_seed: dict[int, float | None]
    reference: str | None = None
    difference: Interval | None = None
    engaged: str = ""


@dataclass(frozen=True)
class EffectRecord:
    """One effect of a design. `kind`: main-effects, interactions or shapley."""

    kind: str
    name: str
    effect: Interval


@dataclass(frozen=True)
class MetricRecord:
    """What an experiment found in one metric. `better`: higher, lower, or empty. `finding`: of the claim that it declares, or empty."""

    name: str
    title: str
    unit: str
    better: str
    margin: float | None
    arms: list[ArmRecord]
    effects: list[EffectRecord]
    finding: str


def metric_records(results: Results) -> list[MetricRecord]:
    """The answer of an experiment in each of its metrics, the first one first."""
    return [_in_one_metric(view) for view in results.each_metric()]


def _in_one_metric(results: Results) -> MetricRecord:
    from analysis.answer import finding_of
    from analysis.effects import BASE, declared_effects

    metric, plan, effects = results.metric, results.experiment.plan, declared_effects(results)
    arm_effects = {effect.arm: effect for effect in effects if effect.reference and effect.kind != BASE}
    arms = []
    for arm in plan.arms:
        values = {seed: metric.scale * value for seed, value in results.values(arm).items()}
        by_seed = {seed: value if math.isfinite(value) else None for seed, value in values.items()}
        mean = Interval.of(results.mean(arm), metric.scale, difference=False)
        record = ArmRecord(arm.name, arm.label, mean, by_seed)
        if effect := arm_effects.get(arm.name):
            difference = Interval.of(effect.shown_estimate)
            record = replace(record, reference=effect.reference, difference=difference, engaged=effect.engaged)
        arms.append(record)
    records = [
        EffectRecord(item.kind, item.arm, Interval.of(item.shown_estimate)) for item in effects if not item.reference
    ]
    margin, word = results.shown_margin, finding_of(results) or ""
    return MetricRecord(metric.name, metric.title, metric.unit, metric.better, margin, arms, records, str(word))

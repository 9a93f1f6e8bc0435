"""Every effect of an experiment as a row: against its reference, against the base, of a design, on other benchmarks.

`effects_frame` has all of them as a tidy frame (docs/python.md).
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

import pandas as pd

from analysis.results import Results, mean_over, on_benchmark
from analysis.samples import is_evaluated
from harness.evaluation.metrics.names import Metric
from harness.statistics.intervals import Estimate

EFFECTS = (
    "kind", "group", "benchmark", "metric", "unit", "comparison", "arm", "reference", "value", "low", "high", "level", "family", "seeds",
    "margin", "word", "engaged", "p_value", "adjusted_p", "standard_error", "degrees", "method", "absent",
)  # fmt: skip

REFERENCE, BASE, MEAN = "reference", "base", "mean of all"


@dataclass(frozen=True)
class Effect:
    """One effect: a row of `effects_frame`.

    Attributes:
        kind: ``reference`` (an arm against what it is declared against), ``base``, main-effects, interactions or shapley.
        estimate: in the stored unit of ``metric``.
        group: what it is judged apart by (a model, a size); empty where nothing is.
        arm, reference: names; of an effect of several arms, its name and nothing.
        comparison: in words. engaged: what the difference affected.
    """

    kind: str
    metric: Metric
    estimate: Estimate
    arm: str
    reference: str = ""
    comparison: str = ""
    benchmark: str = ""
    group: str = ""
    engaged: str = ""

    @property
    def shown_estimate(self) -> Estimate:
        """The estimate in the shown unit."""
        return self.estimate.rescale(self.metric.scale)

    @property
    def row(self) -> dict[str, object]:
        """The row of the frame."""
        estimate = self.shown_estimate
        row = {name: getattr(self, name) for name in ("kind", "group", "benchmark", "arm", "reference", "engaged")}
        row |= {name: getattr(estimate, name) for name in EFFECTS if hasattr(estimate, name)}
        row |= {"metric": self.metric.name, "unit": self.metric.unit, "comparison": self.comparison or self.arm}
        return {**row, "word": "" if math.isnan(estimate.value) else estimate.words(unit=self.metric.unit)}


def effects_frame(effects: Iterable[Effect]) -> pd.DataFrame:
    """One row an effect, numbers in the shown unit (columns: `EFFECTS`)."""
    return pd.DataFrame([effect.row for effect in effects], columns=list(EFFECTS))


def declared_effects(results: Results) -> list[Effect]:
    """The effects that the design declares in the metric of the results, on their benchmark."""
    engagements, effects, base = results.experiment.engagements, list[Effect](), results.experiment.plan.base
    for kind, estimates in ((REFERENCE, results.declared), (BASE, results.to_base)):
        for name, estimate in estimates.items():
            effect = _arm_effect(results, kind, name, estimate)
            own = kind == REFERENCE or results.experiment.plan.reference_of(results.experiment.plan.arm(name)) == base
            effects.append(replace(effect, engaged=engagements[name].text(estimate.resolved) * own))
    benchmark = results.experiment.plan.benchmark
    for kind, attribution in results.attributions.items():
        for name, estimate in attribution.pairs:
            engaged = results.experiment.engagement_of(name).text(estimate.resolved)
            effects.append(Effect(kind, results.metric, estimate, name, benchmark=benchmark, engaged=engaged))
    return effects


def _arm_effect(results: Results, kind: str, name: str, estimate: Estimate) -> Effect:
    plan, arm = results.experiment.plan, results.experiment.plan.arm(name)
    reference = plan.base if kind == BASE else plan.reference_of(arm) or plan.base
    comparison = f"{arm.plain_label} against {reference.plain_label}"
    return Effect(kind, results.metric, estimate, arm.name, reference.name, comparison, plan.benchmark)


def all_effects(results: Results) -> list[Effect]:
    """Every effect of the experiment: in each of its metrics, and on each other benchmark and their mean."""
    effects = [effect for view in results.each_metric for effect in declared_effects(view)]
    for view in results.each_metric:
        for name, estimates in benchmark_differences(view).items():
            pairs = (_arm_effect(view, REFERENCE, *pair) for pair in estimates.items())
            effects += [replace(effect, benchmark=name) for effect in pairs]
    return effects


def benchmark_differences(results: Results) -> dict[str, dict[str, Estimate]]:
    """Benchmark → arm → its difference to its reference, on the other benchmarks and over all; they are one family.

    None where only one benchmark has scores, and in a sequential design, where the declared benchmark decides how many seeds ran.
    """
    plan, views = results.experiment.plan, benchmark_views(results)
    if len(views) < 2 or plan.looks:
        return {}
    others = {name: view for name, view in views.items() if name != plan.benchmark}
    others[MEAN] = mean_over(list(views.values()))
    columns = results.columns * len(others)
    return {name: view.differences_to_reference(columns) for name, view in others.items()}


def benchmark_views(results: Results) -> dict[str, Results]:
    """The results about the same metric by benchmark, the declared one first; nothing where no evaluation has the metric."""
    plan, further = results.experiment.plan, results.experiment.further
    if not further or not is_evaluated(results.metric):
        return {}
    others = {name: on_benchmark(results, name) for name in sorted(further)}
    scored_views = {name: view for name, view in others.items() if any(view.scores(arm, "avg") for arm in plan.arms)}
    views = {name: view.about(results.metric) for name, view in {plan.benchmark: results, **scored_views}.items()}
    return views if any(view.values(arm) for view in views.values() for arm in plan.arms) else {}

"""What is compared, and by how much it differs: made here for ladders, designs, benchmarks and looks, and nowhere else.

What prints, draws or writes an effect takes it from here. `effects_frame` has all of them as a tidy frame (docs/frames.md).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from analysis.caveats import engagements
from analysis.results import Results, mean_over, on_benchmark
from analysis.samples import is_evaluated
from harness.evaluation.metrics.names import Metric
from harness.experiment.plan import Plan, PlannedArm
from harness.statistics import attribution
from harness.statistics.attribution import NONE, Attribution, IncompleteDesign, Judging
from harness.statistics.intervals import MISSING, Estimate, is_settled, judge_one
from harness.statistics.sequential import design_levels

EFFECTS = (
    "kind", "group", "benchmark", "metric", "unit", "comparison", "arm", "reference", "value", "low", "high", "level", "family", "seeds",
    "margin", "word", "engaged", "p_value", "adjusted_p", "standard_error", "degrees", "method", "absent",
)  # fmt: skip

REFERENCE, BASE, MEAN = "reference", "base", "mean of all"


@dataclass(frozen=True)
class Effect:
    """One effect: a row of `effects_frame`.

    Attributes:
        kind: ``reference`` (an arm against what it is declared against), ``base``, main-effects, interactions, order or shapley.
        estimate: in the stored unit of ``metric``.
        group: what it is judged apart by (a model, a size); empty where nothing is.
        arm, reference: names; of an effect of several arms, its name and nothing.
        comparison: in words. engaged: what the difference touched.
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
        fields = ("kind", "group", "benchmark", "arm", "reference", "engaged")
        row = {name: getattr(self, name) for name in fields}
        row |= {name: getattr(estimate, name) for name in EFFECTS if hasattr(estimate, name)}
        row |= {"metric": self.metric.name, "unit": self.metric.unit, "comparison": self.comparison or self.arm}
        word = "" if math.isnan(estimate.value) else estimate.words(unit=self.metric.unit)
        return {**row, "word": word}


def effects_frame(effects: Iterable[Effect]) -> pd.DataFrame:
    """One row an effect, numbers in the shown unit (columns: `EFFECTS`)."""
    return pd.DataFrame([effect.row for effect in effects], columns=list(EFFECTS))


def declared_effects(results: Results) -> list[Effect]:
    """The effects that the design declares in the metric of the results, on their benchmark."""
    plan, arm_engagements = results.experiment.plan, engagements(results.experiment)
    effects = []
    for kind, estimates in ((REFERENCE, differences_to_reference(results)), (BASE, differences_to_base(results))):
        for name, estimate in estimates.items():
            effect = _arm_effect(results, kind, name, estimate)
            effects.append(replace(effect, engaged=arm_engagements[name].text(estimate.resolved)))
    for kind in kinds_of(plan):
        pairs = effects_of(results, kind).pairs
        effects += [Effect(kind, results.metric, estimate, name, benchmark=plan.benchmark) for name, estimate in pairs]
    return effects


def _arm_effect(results: Results, kind: str, name: str, estimate: Estimate) -> Effect:
    plan, arm = results.experiment.plan, results.experiment.plan.arm(name)
    reference = plan.base if kind == BASE else plan.reference_of(arm) or plan.base
    names = arm.name, reference.name, _comparison_name(arm, reference), plan.benchmark
    return Effect(kind, results.metric, estimate, *names)


def all_effects(results: Results) -> list[Effect]:
    """Every effect of the experiment: in each of its metrics, and on each other benchmark and their mean."""
    effects = [effect for view in results.each_metric() for effect in declared_effects(view)]
    for view in results.each_metric():
        for name, estimates in benchmark_differences(view).items():
            pairs = (_arm_effect(view, REFERENCE, *pair) for pair in estimates.items())
            effects += [replace(effect, benchmark=name) for effect in pairs]
    return effects


def benchmark_differences(results: Results) -> dict[str, dict[str, Estimate]]:
    """Benchmark → arm → its difference to its reference, on the other benchmarks and over all; they hold together as one family.

    None where only one benchmark has scores, and in a sequential design, where the declared benchmark decides how many seeds ran.
    """
    plan, views = results.experiment.plan, benchmark_views(results)
    if len(views) < 2 or plan.looks:
        return {}
    others = {name: view for name, view in views.items() if name != plan.benchmark}
    others[MEAN] = mean_over(list(views.values()))
    return {name: differences_to_reference(view, results.columns * len(others)) for name, view in others.items()}


def benchmark_views(results: Results) -> dict[str, Results]:
    """The results about the same metric by benchmark, the declared one first; nothing where no evaluation has the metric."""
    plan, further = results.experiment.plan, results.experiment.further
    if not further or not is_evaluated(results.metric):
        return {}
    others = {name: on_benchmark(results, name) for name in sorted(further)}
    scored_views = {name: view for name, view in others.items() if any(view.scores(arm, "avg") for arm in plan.arms)}
    views = {name: view.about(results.metric) for name, view in {plan.benchmark: results, **scored_views}.items()}
    return views if any(view.values(arm) for view in views.values() for arm in plan.arms) else {}


def pairs_of(results: Results) -> dict[str, tuple[PlannedArm, PlannedArm]]:
    """Each declared comparison in words, with its arms; none where results decided how many seeds ran.

    Arms that share their labels are named by their names.
    """
    plan = results.experiment.plan
    pairs = [] if plan.stopped_by_results else plan.comparisons
    names = [_comparison_name(*pair) for pair in pairs]
    own_names = [f"{arm.name} against {reference.name}" for arm, reference in pairs]
    return {
        name if names.count(name) == 1 else own: pair for name, own, pair in zip(names, own_names, pairs, strict=True)
    }


def _comparison_name(arm: PlannedArm, reference: PlannedArm) -> str:
    return f"{arm.plain_label} against {reference.plain_label}"


def differences_to_reference(results: Results, columns: int | None = None) -> dict[str, Estimate]:
    """Map each arm to its difference to the parent (or the base); the intervals of all of them hold together, in ``columns`` of them.

    In a sequential design each is that of the newest look at it, and holds together with those of all looks.
    """
    plan = results.experiment.plan
    if plan.looks:
        return {comparison.arm.name: comparison.newest for comparison in followed_comparisons(results)}
    pairs = [(arm, plan.reference_of(arm)) for arm in plan.arms]
    return results.differences({arm.name: (arm, reference) for arm, reference in pairs if reference}, columns)


def differences_to_base(results: Results) -> dict[str, Estimate]:
    """Map each arm to its difference to the base, a family of its own.

    None in a sequential design: seeds stop where the declared comparisons tell them to, which would bias these.
    """
    plan = results.experiment.plan
    if plan.stopped_by_results or plan.design not in ("cumulative", "leave_one_out") or len(plan.arms) < 3:
        return {}
    return results.differences({arm.name: (arm, plan.base) for arm in plan.arms if arm.name != plan.base.name})


MAIN, INTERACTIONS, ORDER, SHAPLEY = "main-effects", "interactions", "order", "shapley"


def kinds_of(plan: Plan) -> list[str]:
    """List what the design computes. The order of patches and their Shapley values are those of patches that are on or off."""
    if plan.design != "factorial":
        return []
    subsets = all(len(levels) == 2 and levels[0] == NONE for levels in plan.crossing.factors.values())
    return [MAIN, INTERACTIONS, *([ORDER, SHAPLEY] if subsets else [])]


def effects_of(results: Results, kind: str) -> Attribution:
    """Compute one kind of effect in the metric of the results, per seed first."""
    plan = results.experiment.plan
    scores = {frozenset(arm.patches): results.values(arm) for arm in plan.arms}
    judging, crossing = Judging(results.margin, results.columns, plan.replicates), plan.crossing
    patches = [level for levels in crossing.factors.values() for level in levels if level != NONE]
    unreached_arms = (f"{arm.label}: {reason}" for arm in plan.arms if (reason := results.unreached_reason(arm)))
    missing = next(unreached_arms, "") if patches else f"its arms are listed, and design={plan.design} needs patches"
    makers = {
        MAIN: lambda: attribution.main_effects(crossing, scores, judging),
        INTERACTIONS: lambda: attribution.interactions(crossing, scores, judging),
        ORDER: lambda: attribution.last_minus_first(patches, scores, judging),
        SHAPLEY: lambda: attribution.shapley(patches, scores, judging),
    }
    try:
        return Attribution(missing=missing) if missing else makers[kind]()
    except IncompleteDesign as error:
        return Attribution(missing=str(error))


AT_BUDGET, NO_COMPARISON = "open at the budget", "no comparison"


@dataclass(frozen=True)
class FollowedComparison:
    """One comparison in one metric over its looks.

    ``looks`` holds what has been seen, the newest last; ``next_look`` is the number of seeds of the look that is waited
    for, None once the comparison is closed: it keeps the interval and the word of its last look. ``settled``: the word,
    and a claim about it where one is declared, are not open.
    """

    arm: PlannedArm
    reference: PlannedArm
    metric: Metric
    looks: tuple[Estimate, ...]
    next_look: int | None
    settled: bool = False

    @property
    def newest(self) -> Estimate:
        """The estimate of the newest look, ``MISSING`` before the first."""
        return self.looks[-1] if self.looks else MISSING

    @property
    def state(self) -> str:
        """``open``, ``decided``, ``open at the budget``, or ``no comparison`` where a seed has no value."""
        if self.next_look is not None:
            return "open"
        if self.newest.absent:
            return NO_COMPARISON
        return "decided" if self.settled else AT_BUDGET


def followed_comparisons(results: Results) -> list[FollowedComparison]:
    """Every declared comparison of a sequential plan in the metric of the results, in the order of its arms.

    The family is all comparisons in all metrics of the experiment.
    """
    plan = results.experiment.plan
    family = len(plan.comparisons) * results.columns
    return [_follow(results, *pair, design_levels(plan.looks, family), family) for pair in plan.comparisons]


def wanted_seeds(plan: Plan, comparisons: Sequence[FollowedComparison]) -> dict[str, int]:
    """Seeds that each arm is to have: the first look's, and those of every look that a comparison of it came to or waits for.

    A pair of arms goes on until its last metric is decided.
    """
    seeds_by_arm = {arm.name: plan.looks[0] for arm in plan.arms}
    for comparison in comparisons:
        seeds = comparison.next_look or comparison.newest.seeds
        for arm in (comparison.arm, comparison.reference):
            seeds_by_arm[arm.name] = max(seeds_by_arm[arm.name], seeds)
    return seeds_by_arm


def _follow(
    results: Results, arm: PlannedArm, reference: PlannedArm, levels: Sequence[float], family: int
) -> FollowedComparison:
    plan = results.experiment.plan
    finished_seeds = results.scores(arm, "avg").keys() & results.scores(reference, "avg").keys()
    comparison = FollowedComparison(arm, reference, results.metric, (), None)
    for seeds, level in zip(plan.looks, levels, strict=True):
        first = plan.seeds[:seeds]
        if len(first) < seeds or not finished_seeds.issuperset(first):
            return replace(comparison, next_look=seeds)
        if reason := _absence_reason(results, (arm, reference), first):  # so it is at every later look
            look = Estimate(math.nan, seeds=seeds, family=family, absent=reason)
            return replace(comparison, looks=(*comparison.looks, look))
        look = judge_one(results.contrast(arm, reference, first), margin=results.margin, level=1 - level)
        # Its p-value is not that of the design.
        method = f"repeated {'Welch ' * ('Welch' in look.method)}t interval"
        entry = replace(look, p_value=math.nan, adjusted_p=math.nan, family=family, method=method)
        closed = is_settled(look, plan.expects)
        comparison = replace(comparison, looks=(*comparison.looks, entry), settled=closed)
        if closed:
            break
    return comparison


def _absence_reason(results: Results, arms: Sequence[PlannedArm], first: Sequence[int]) -> str:
    """Say why these seeds of the arms cannot be compared in the metric; nothing where they can."""
    for arm in arms:
        values = results.values(arm)
        absent_count = sum(seed not in values for seed in first)
        unreached_count = sum(math.isinf(values[seed]) for seed in first if seed in values)
        if absent_count or unreached_count:
            problem = "not reached" if unreached_count else "no value"
            return f"{problem} in {unreached_count or absent_count} of {len(first)} seeds ({arm.label})"
    return ""

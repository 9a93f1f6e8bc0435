"""What an experiment declares to compare: the looks of a sequential design, and the effects of a factorial.

`analysis.results.Results` holds what is computed here, so that answer, tables, figures and files share it.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from analysis.values import Values
from harness.evaluation.metrics.names import Metric
from harness.experiment.plan import Plan, PlannedArm
from harness.statistics import attribution
from harness.statistics.attribution import NONE, Attribution, IncompleteDesign, Judging
from harness.statistics.intervals import MISSING, Estimate, is_settled, judge_one
from harness.statistics.sequential import design_levels

MAIN, INTERACTIONS, SHAPLEY = "main-effects", "interactions", "shapley"


def kinds_of(plan: Plan) -> list[str]:
    """List the effects that the design has. Shapley values are those of patches that are on or off."""
    if plan.design != "factorial":
        return []
    subsets = all(len(levels) == 2 and levels[0] == NONE for levels in plan.crossing.factors.values())
    return [MAIN, INTERACTIONS, *[SHAPLEY] * subsets]


def attributions_of(results: Values) -> dict[str, Attribution]:
    """Compute the effects of a factorial in the metric of the results, per seed first."""
    plan = results.experiment.plan
    scores = {frozenset(arm.patches): results.values(arm) for arm in plan.arms}
    judging, crossing = Judging(results.margin, results.columns, plan.replicates), plan.crossing
    patches = [level for levels in crossing.factors.values() for level in levels if level != NONE]
    listed = "" if patches else f"its arms are listed, and design={plan.design} needs patches"
    missing = listed or (results.guessed_reason(*plan.arms) if kinds_of(plan) else "")
    makers = {
        MAIN: lambda: attribution.main_effects(crossing, scores, judging),
        INTERACTIONS: lambda: attribution.interactions(crossing, scores, judging),
        SHAPLEY: lambda: attribution.shapley(patches, scores, judging),
    }
    effects = {}
    for kind in kinds_of(plan):
        try:
            found = Attribution(missing=missing) if missing else makers[kind]()
            judged = [results.experiment.engagement_of(name).judged(effect) for name, effect in found.pairs]
            effects[kind] = replace(found, effects=tuple(judged))
        except IncompleteDesign as error:
            effects[kind] = Attribution(missing=str(error))
    return effects


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

    @property
    def text(self) -> str:
        """``at 8 seeds``, ``open, next look at 11 seeds`` or ``open at the budget, 20 seeds``."""
        newest, state = self.newest, self.state
        if newest.absent or self.next_look is not None:
            return newest.absent or f"open, next look at {self.next_look} seeds"
        return f"{'at' if state == 'decided' else f'{state},'} {newest.seeds} seeds"


def followed_comparisons(results: Values) -> list[FollowedComparison]:
    """Every declared comparison of a sequential plan in the metric of the results, in the order of its arms.

    The family is all comparisons in all metrics of the experiment. Nothing of another plan.
    """
    plan = results.experiment.plan
    if not plan.looks:
        return []
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
    results: Values, arm: PlannedArm, reference: PlannedArm, levels: Sequence[float], family: int
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
        entry = results.experiment.engagements[arm.name].judged(entry)
        comparison = replace(comparison, looks=(*comparison.looks, entry), settled=closed)
        if closed:
            break
    return comparison


def _absence_reason(results: Values, arms: Sequence[PlannedArm], first: Sequence[int]) -> str:
    """Say why these seeds of the arms cannot be compared in the metric; nothing where they can."""
    for arm in arms:
        values = results.values(arm)
        if absent_count := sum(seed not in values for seed in first):
            return f"no value in {absent_count} of {len(first)} seeds ({arm.label})"
    return ""

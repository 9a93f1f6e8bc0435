"""A sequential experiment as its store tells it: what each look at a comparison said, and which seeds are wanted next.

All of it is a function of the stored scores alone, so every machine and every invocation finds the same. A look counts
once *all* its seeds have a score in both arms; half of a look decides nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from analysis.evidence.results import Results
from harness.evaluation.metrics.names import Metric
from harness.experiment.plan import Plan, PlannedArm
from harness.statistics.intervals import MISSING, Estimate, judge_one, settled
from harness.statistics.sequential import design_levels

AT_BUDGET, NO_COMPARISON = "open at the budget", "no comparison"
_METHOD = "repeated t interval"


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


def followed(results: Results) -> list[FollowedComparison]:
    """Every declared comparison of a sequential plan in the metric of the results, in the order of its arms.

    The family is all comparisons in all metrics of the experiment.
    """
    plan = results.experiment.plan
    pairs = comparisons(plan)
    if not pairs:
        return []
    family = len(pairs) * results.columns
    levels = design_levels(plan.looks, family)
    return [_follow(results, *pair, levels, family) for pair in pairs]


def comparisons(plan: Plan) -> list[tuple[PlannedArm, PlannedArm]]:
    """The family: every arm that has a reference, run or not, so that the family is known before anything runs."""
    found = [(arm, plan.reference_of(arm)) for arm in plan.arms]
    return [(arm, reference) for arm, reference in found if reference is not None]


def wanted_seeds(plan: Plan, found: Sequence[FollowedComparison]) -> dict[str, int]:
    """Seeds that each arm is to have: the first look's, and those of every look that a comparison of it came to or waits for.

    ``found`` are the comparisons in every metric: a pair of arms goes on until its last metric is decided.
    """
    wanted = {arm.name: plan.looks[0] for arm in plan.arms}
    for one in found:
        seeds = one.next_look or one.newest.seeds
        for arm in (one.arm, one.reference):
            wanted[arm.name] = max(wanted[arm.name], seeds)
    return wanted


def _follow(
    results: Results, arm: PlannedArm, reference: PlannedArm, levels: Sequence[float], family: int
) -> FollowedComparison:
    plan = results.experiment.plan
    scored = [results.scores(one, "avg") for one in (arm, reference)]
    seen: list[Estimate] = []
    for seeds, level in zip(plan.looks, levels, strict=True):
        first = plan.seeds[:seeds]
        if len(first) < seeds or any(seed not in scores for scores in scored for seed in first):
            return FollowedComparison(arm, reference, results.metric, tuple(seen), seeds)
        if reason := _incomparable(
            results, (arm, reference), first
        ):  # no later look can do without these seeds
            seen.append(Estimate(math.nan, seeds=seeds, family=family, absent=reason))
            break
        difference = results.contrast(arm, reference, first)
        found = judge_one(difference, margin=results.margin, level=1 - level)
        # The p-value of one look is not that of the design; the interval is.
        seen.append(replace(found, p_value=math.nan, adjusted_p=math.nan, family=family, method=_METHOD))
        if settled(found, plan.expects):
            return FollowedComparison(arm, reference, results.metric, tuple(seen), None, settled=True)
    return FollowedComparison(arm, reference, results.metric, tuple(seen), None)


def _incomparable(results: Results, arms: Sequence[PlannedArm], first: Sequence[int]) -> str:
    """Say why these seeds of the arms cannot be compared in the metric; nothing where they can."""
    for arm in arms:
        values = results.values(arm)
        absent = sum(seed not in values for seed in first)
        never = sum(math.isinf(values[seed]) for seed in first if seed in values)
        if absent or never:
            told = "not reached" if never else "no value"
            return f"{told} in {never or absent} of {len(first)} seeds ({arm.label})"
    return ""

"""A sequential experiment as its store tells it: what each look at a comparison said, and which seeds are wanted next.

All of it is a function of the stored scores alone, so every machine and every invocation finds the same. A look counts
once *all* its seeds have a score in both arms; half of a look decides nothing.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from analysis.evidence.results import Results
from analysis.evidence.stored_plan import Arm, Plan
from analysis.statistics.estimate import MISSING, Estimate, Verdict
from analysis.statistics.sequential import design_levels
from analysis.statistics.verdicts import Difference, Independent, Paired, judge_one

AT_BUDGET = "open at the budget"
_METHOD = "repeated t interval"


@dataclass(frozen=True)
class Comparison:
    """One comparison over its looks.

    ``looks`` holds what has been seen, the newest last; ``next_look`` is the number of seeds of the look that is waited
    for, None once the comparison is closed: it keeps the interval and the word of its last look.
    """

    arm: Arm
    reference: Arm
    looks: tuple[Estimate, ...]
    next_look: int | None

    @property
    def newest(self) -> Estimate:
        """The estimate of the newest look, ``MISSING`` before the first."""
        return self.looks[-1] if self.looks else MISSING

    @property
    def state(self) -> str:
        """``open``, ``decided`` or ``open at the budget``."""
        if self.next_look is not None:
            return "open"
        return AT_BUDGET if self.newest.verdict == Verdict.NOT_RESOLVED else "decided"


def followed(results: Results) -> list[Comparison]:
    """Every declared comparison of a sequential plan, in the order of its arms."""
    plan = results.experiment.plan
    pairs = comparisons(plan)
    if not pairs:
        return []
    levels = design_levels(plan.looks, len(pairs))
    return [_follow(results, *pair, levels, len(pairs)) for pair in pairs]


def comparisons(plan: Plan) -> list[tuple[Arm, Arm]]:
    """The family: every arm that has a reference, run or not, so that the family is known before anything runs."""
    found = [(arm, plan.reference_of(arm)) for arm in plan.arms]
    return [(arm, reference) for arm, reference in found if reference is not None]


def wanted_seeds(plan: Plan, found: Sequence[Comparison]) -> dict[str, int]:
    """How many seeds each arm is to have: the first look's, and those of every look that a comparison of it came to or waits for."""
    wanted = {arm.name: plan.looks[0] for arm in plan.arms}
    for one in found:
        seeds = one.next_look or one.newest.seeds
        for arm in (one.arm, one.reference):
            wanted[arm.name] = max(wanted[arm.name], seeds)
    return wanted


def _follow(results: Results, arm: Arm, reference: Arm, levels: Sequence[float], family: int) -> Comparison:
    plan = results.experiment.plan
    seen: list[Estimate] = []
    for seeds, level in zip(plan.looks, levels, strict=True):
        difference = _first_seeds(results, arm, reference, seeds)
        if difference is None:
            return Comparison(arm, reference, tuple(seen), seeds)
        found = judge_one(difference, margin=plan.score_margin, level=1 - level)
        # The p-value of one look is not that of the design; the interval is.
        seen.append(replace(found, p_value=math.nan, adjusted_p=math.nan, family=family, method=_METHOD))
        if found.verdict != Verdict.NOT_RESOLVED:
            break
    return Comparison(arm, reference, tuple(seen), None)


def _first_seeds(results: Results, arm: Arm, reference: Arm, count: int) -> Difference | None:
    """The first ``count`` seeds of the plan in both arms, or None where one has no score yet."""
    plan = results.experiment.plan
    first = plan.seeds[:count]
    a, b = results.scores(arm, "avg"), results.scores(reference, "avg")
    if len(first) < count or not all(seed in a and seed in b for seed in first):
        return None
    if not plan.paired:
        return Independent([a[seed] for seed in first], [b[seed] for seed in first])
    return Paired([a[seed] - b[seed] for seed in first])

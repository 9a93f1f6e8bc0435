"""Effects and interactions of a factorial, Shapley values: what its arms add up to, and why it cannot be computed where it cannot."""

from __future__ import annotations

from dataclasses import dataclass

from analysis.evidence.results import Results
from harness.experiment.plan import Plan
from harness.statistics.attribution import (
    NONE,
    Attribution,
    IncompleteDesign,
    Judging,
    Scores,
    interactions,
    last_minus_first,
    main_effects,
    shapley,
)

MAIN, INTERACTIONS, ORDER, SHAPLEY = "main-effects", "interactions", "order", "shapley"


@dataclass(frozen=True)
class Effects:
    """Effects that a design computes of its arms; ``missing`` says why nothing could be."""

    found: Attribution
    missing: str = ""


def kinds_of(plan: Plan) -> list[str]:
    """List what the design computes. The order of patches and their Shapley values are those of patches that are on or off."""
    if plan.design not in ("factorial", "shapley"):
        return []
    subsets = all(len(levels) == 2 and levels[0] == NONE for levels in plan.crossing.factors.values())
    return [MAIN, INTERACTIONS] * (plan.design == "factorial") + (
        [ORDER] * (plan.design == "factorial") + [SHAPLEY] if subsets else []
    )


def effects_of(results: Results, kind: str) -> Effects:
    """Compute one kind of effect in the metric of the results, per seed first."""
    plan, scores = results.experiment.plan, cell_scores(results)
    never = next((f"{arm.label}: {why}" for arm in plan.arms if (why := results.unreached(arm))), "")
    judging = Judging(results.margin, results.columns, plan.replicates)
    crossing = plan.crossing
    patches = [level for of in crossing.factors.values() for level in of if level != NONE]
    try:
        if never:
            return Effects(Attribution((), ()), never)
        if kind == MAIN:
            return Effects(main_effects(crossing, scores, judging))
        if kind == INTERACTIONS:
            return Effects(interactions(crossing, scores, judging))
        if kind == ORDER:
            return Effects(last_minus_first(patches, scores, judging))
        return Effects(shapley(patches, scores, plan.orders or None, judging))
    except IncompleteDesign as error:
        return Effects(Attribution((), ()), str(error))


def cell_scores(results: Results) -> Scores:
    """The metric per seed of each arm, by its patches."""
    return {frozenset(arm.patches): results.values(arm) for arm in results.experiment.plan.arms}

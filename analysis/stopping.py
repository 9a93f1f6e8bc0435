"""The decisions of a sequential experiment, the seeds it wants next, and how many runs such a plan takes on average."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from analysis.answer import describe
from analysis.evidence.load import load_plan
from analysis.evidence.results import (
    AT_BUDGET,
    NO_COMPARISON,
    FollowedComparison,
    comparisons,
    followed,
    results_of,
    wanted_seeds,
)
from harness.experiment.plan import Plan
from harness.statistics.intervals import pooled_spread
from harness.statistics.sequential import expected_runs
from harness.store import ResultStore

EFFECTS = (3.0, 2.0, 1.0, 0.0)  # standard deviations of one seed's difference


def decisions(plan: Plan, store: ResultStore) -> dict[str, Any]:
    """Judge every comparison by the stored scores.

    The plan has the runs of all seeds up to the last look. With several metrics a comparison is open until all of them are decided; its
    text tells each.

    Returns:
        `comparisons`: arm, reference, state (open, decided, open at the budget) and text of each. `wanted`: arm to number of seeds.
    """
    views = results_of(load_plan(store, plan, curves=False)).each_metric()
    by_metric = [followed(view) for view in views]
    return {
        "comparisons": [
            {
                "arm": in_metrics[0].arm.name,
                "reference": in_metrics[0].reference.name,
                "state": _state(in_metrics),
                "text": "; ".join(_in_words(comparison, plan) for comparison in in_metrics),
            }
            for in_metrics in zip(*by_metric, strict=True)
        ],
        "wanted": wanted_seeds(plan, [*itertools.chain(*by_metric)]),
    }


def expected(plan: Plan) -> dict[str, float]:
    """Compute the mean number of runs where every comparison has a true difference of so many standard deviations.

    With several metrics: in each, and all decided at one look; where they are not, it takes more.
    """
    index = {arm.name: place for place, arm in enumerate(plan.arms)}
    pairs = [(index[arm.name], index[reference.name]) for arm, reference in comparisons(plan)]
    family = pairs * len(plan.metrics)
    return {
        f"{effect:g}": expected_runs(len(plan.arms), family, plan.looks, effect, paired=plan.paired)
        for effect in EFFECTS
    }


def spreads(plan: Plan, store: ResultStore) -> dict[str, dict[str, float]]:
    """Metric to the pooled standard deviation of one replicate's difference, in the shown unit; of one arm's values unless paired.

    A replicate is a seed, or the mean over the seeds of a base policy. Only comparisons with two finished ones count; a metric
    without any is left out.
    """
    spread: dict[str, dict[str, float]] = {}
    for view in results_of(load_plan(store, plan, curves=False)).each_metric():
        if plan.paired:
            pairs = [(view.values(arm), view.values(reference)) for arm, reference in comparisons(plan)]
            groups = [plan.replicates({seed: a[seed] - b[seed] for seed in a if seed in b}) for a, b in pairs]
        else:
            groups = [plan.replicates(view.values(arm)) for arm in plan.arms]
        sd, comparisons_with_spread = pooled_spread(groups)
        if comparisons_with_spread:
            spread[view.metric.name] = {"sd": view.metric.scale * sd, "comparisons": comparisons_with_spread}
    return spread


def _state(in_metrics: Sequence[FollowedComparison]) -> str:
    """Say the state of a comparison: that of its metric which is furthest from being decided."""
    order = ("open", AT_BUDGET, NO_COMPARISON, "decided")
    return min((comparison.state for comparison in in_metrics), key=order.index)


def _in_words(comparison: FollowedComparison, plan: Plan) -> str:
    """``+3.6 points (95 % interval +2.3 to +4.9, 5 seeds), higher`` and what comes next; named unless it is the score alone."""
    text = describe(comparison.newest, comparison.metric) if comparison.looks else ""
    if not plan.about_score:
        text = f"{comparison.metric.title}: {text or 'no look yet'}"
    later = f"next look at {comparison.next_look} seeds" if comparison.next_look else ""
    return "; ".join(filter(None, [text, later]))

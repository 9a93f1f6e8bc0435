"""``python -m analysis.looks ROOT < plan.json``: what a sequential experiment has decided, and which seeds it wants, as JSON.

The plan on standard input has the runs of all seeds up to the last look; the answer depends on it and on the stored
scores alone. ``--expected`` answers how many runs such a plan takes on average, for differences of several sizes; ``--spread``,
of any plan, how far the seeds of a difference lie apart.

    {"comparisons": [{"arm": ..., "reference": ..., "state": "open | decided | open at the budget", "text": ...}],
     "wanted": {arm: number of seeds}}

With several metrics a comparison is open until all of them are decided; its text tells each.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analysis.answer import describe
from analysis.evidence.load import load_plan
from analysis.evidence.looks import AT_BUDGET, NO_COMPARISON, Comparison, comparisons, followed, wanted_seeds
from analysis.evidence.results import results_of
from analysis.evidence.stored_plan import PlanError, StoredPlan, parse_plan
from harness.statistics.course import expected_runs
from harness.statistics.spread import pooled_spread
from harness.store import ResultStore, StoreError

EFFECTS = (3.0, 2.0, 1.0, 0.0)  # standard deviations of one seed's difference


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0, or 2 with one line on standard error where the plan cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m analysis.looks", description=__doc__)
    parser.add_argument("root", type=Path, help="results root")
    parser.add_argument(
        "--spread", action="store_true", help="how far seeds of a difference lie apart, by metric"
    )
    parser.add_argument("--expected", action="store_true", help="mean number of runs, nothing is read")
    options = parser.parse_args(arguments)
    try:
        plan = parse_plan(json.load(sys.stdin))
        if options.expected:
            said: dict[str, Any] = expected(plan)
        elif options.spread:
            said = spreads(plan, ResultStore(options.root))
        else:
            said = decisions(plan, ResultStore(options.root))
    except (StoreError, PlanError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(json.dumps(said) + "\n")
    return 0


def decisions(plan: StoredPlan, store: ResultStore) -> dict[str, Any]:
    """The state of every comparison in words, and the seeds wanted of every arm."""
    views = results_of(load_plan(store, plan, curves=False)).each_metric()
    found = [followed(view) for view in views]
    return {
        "comparisons": [
            {
                "arm": in_metrics[0].arm.name,
                "reference": in_metrics[0].reference.name,
                "state": _state(in_metrics),
                "text": "; ".join(_in_words(one, plan) for one in in_metrics),
            }
            for in_metrics in zip(*found, strict=True)
        ],
        "wanted": wanted_seeds(plan, [one for of_metric in found for one in of_metric]),
    }


def expected(plan: StoredPlan) -> dict[str, float]:
    """Mean number of runs where every comparison has a true difference of so many standard deviations.

    With several metrics: in each, and all decided at one look; where they are not, it takes more.
    """
    index = {arm.name: place for place, arm in enumerate(plan.arms)}
    pairs = [(index[arm.name], index[reference.name]) for arm, reference in comparisons(plan)]
    pairs = pairs * len(plan.metrics)
    return {
        f"{effect:g}": expected_runs(len(plan.arms), pairs, plan.looks, effect, paired=plan.paired)
        for effect in EFFECTS
    }


def spreads(plan: StoredPlan, store: ResultStore) -> dict[str, dict[str, float]]:
    """Metric to the pooled standard deviation of one replicate's difference, in the shown unit; of one arm's values unless paired.

    A replicate is a seed, or the mean over the seeds of a base policy. Only comparisons with two finished ones count; a metric
    without any is left out.
    """
    found: dict[str, dict[str, float]] = {}
    for view in results_of(load_plan(store, plan, curves=False)).each_metric():
        if plan.paired:
            pairs = [(view.values(arm), view.values(reference)) for arm, reference in comparisons(plan)]
            groups = [plan.replicates({seed: a[seed] - b[seed] for seed in a if seed in b}) for a, b in pairs]
        else:
            groups = [plan.replicates(view.values(arm)) for arm in plan.arms]
        sd, comparisons_with_spread = pooled_spread(groups)
        if comparisons_with_spread:
            found[view.metric.name] = {"sd": view.metric.scale * sd, "comparisons": comparisons_with_spread}
    return found


def _state(in_metrics: Sequence[Comparison]) -> str:
    """That of the metric that is furthest from a word."""
    order = ("open", AT_BUDGET, NO_COMPARISON, "decided")
    return min((one.state for one in in_metrics), key=order.index)


def _in_words(one: Comparison, plan: StoredPlan) -> str:
    """``+3.6 points (95 % interval +2.3 to +4.9, 5 seeds), higher`` and what comes next; named unless it is the score alone."""
    told = [describe(one.newest, one.metric)] if one.looks else []
    if not plan.about_score:
        told = [f"{one.metric.title}: {text}" for text in told or ["no look yet"]]
    return "; ".join([*told, *([f"next look at {one.next_look} seeds"] if one.next_look else [])])


if __name__ == "__main__":
    raise SystemExit(main())

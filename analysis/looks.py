"""``python -m analysis.looks ROOT < plan.json``: what a sequential experiment has decided, and which seeds it wants, as JSON.

The plan on standard input has the runs of all seeds up to the last look; the answer depends on it and on the stored
scores alone. ``--expected`` answers how many runs such a plan takes on average, for differences of several sizes.

    {"comparisons": [{"arm": ..., "reference": ..., "state": "open | decided | open at the budget", "text": ...}],
     "wanted": {arm: number of seeds}}
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from analysis.answer import describe
from analysis.evidence.load import load_plan
from analysis.evidence.looks import Comparison, comparisons, followed, wanted_seeds
from analysis.evidence.results import results_of
from analysis.evidence.stored_plan import Plan, PlanError, parse_plan
from analysis.statistics.sequential import LooksError
from analysis.statistics.sequential_course import expected_runs
from harness.store import ResultStore, StoreError

EFFECTS = (3.0, 2.0, 1.0, 0.0)  # standard deviations of one seed's difference


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0, or 2 with one line on standard error where the plan cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m analysis.looks", description=__doc__)
    parser.add_argument("root", type=Path, help="results root")
    parser.add_argument("--expected", action="store_true", help="mean number of runs, nothing is read")
    options = parser.parse_args(arguments)
    try:
        plan = parse_plan(json.load(sys.stdin))
        said = expected(plan) if options.expected else decisions(plan, ResultStore(options.root))
    except (StoreError, PlanError, LooksError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(json.dumps(said) + "\n")
    return 0


def decisions(plan: Plan, store: ResultStore) -> dict[str, Any]:
    """The state of every comparison in words, and the seeds wanted of every arm."""
    found = followed(results_of(load_plan(store, plan, curves=False)))
    return {
        "comparisons": [
            {
                "arm": one.arm.name,
                "reference": one.reference.name,
                "state": one.state,
                "text": _in_words(one, plan),
            }
            for one in found
        ],
        "wanted": wanted_seeds(plan, found),
    }


def expected(plan: Plan) -> dict[str, float]:
    """Mean number of runs where every comparison has a true difference of so many standard deviations."""
    index = {arm.name: place for place, arm in enumerate(plan.arms)}
    pairs = [(index[arm.name], index[reference.name]) for arm, reference in comparisons(plan)]
    return {
        f"{effect:g}": expected_runs(len(plan.arms), pairs, plan.looks, effect, paired=plan.paired)
        for effect in EFFECTS
    }


def _in_words(one: Comparison, plan: Plan) -> str:
    """``+3.6 points (95 % interval +2.3 to +4.9, 5 seeds), higher`` and what comes next."""
    told = [describe(one.newest, plan)] if one.looks else []
    return "; ".join([*told, *([f"next look at {one.next_look} seeds"] if one.next_look else [])])


if __name__ == "__main__":
    raise SystemExit(main())

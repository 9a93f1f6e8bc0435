"""The ladder's stored runs, as the scripts beside this file read them."""

from __future__ import annotations

import argparse
from collections.abc import Callable

from analysis import PlanError, Results, StoreError, load
from harness.statistics.intervals import pooled_spread


def ladder(root: str) -> Results:
    """The ladder of a results root.

    Raises:
        ValueError: its runs start from no shipped base policy.
    """
    results = load(root, "dapo_ladder")
    if results.experiment.plan.base_policies is None:
        raise ValueError(f"{root}: the ladder's runs share no shipped base policies (model.bases.set)")
    return results


def bases_of(results: Results) -> int:
    """How many base policies take turns: seeds s and s + this start from one."""
    count = results.experiment.plan.base_policies
    assert count is not None  # `ladder` has looked
    return count


def points(results: Results) -> dict[str, dict[int, float]]:
    """Label of each arm to its score by seed, in points, in the order of the ladder."""
    arms = results.experiment.plan.arms
    return {arm.label: {seed: 100 * x for seed, x in results.scores(arm, "avg").items()} for arm in arms}


def seed_spread(scores: dict[str, dict[int, float]], bases: int) -> tuple[float, int]:
    """Standard deviation of training seeds that start from one base policy, pooled over arms, and its degrees of freedom.

    Raises:
        ValueError: no arm has two seeds from one base policy.
    """
    groups = [
        [x for seed, x in values.items() if seed % bases == base] for values in scores.values() for base in range(bases)
    ]
    sd, group_count = pooled_spread(groups)
    if not group_count:
        raise ValueError(
            f"no two seeds of an arm start from one of the {bases} base policies; run more seeds, or fewer base policies"
        )
    return sd, sum(len(group) - 1 for group in groups if group)


def command(main: Callable[[list[str]], None], doc: str | None) -> None:
    """Run a script on the results roots of the command line; what it cannot read ends it with one line and status 2."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("roots", nargs="*", default=["results"], help="results roots; without: results")
    try:
        main(parser.parse_args().roots)
    except (StoreError, PlanError, ValueError, OSError) as error:
        parser.exit(2, f"{parser.prog}: {error}\n")

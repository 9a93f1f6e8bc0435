"""Results on the benchmarks that runs were evaluated on beside the one that the plan is about, and the mean over all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd

from analysis.evidence.results import Results, results_of


def on_benchmark(results: Results, benchmark: str) -> Results:
    """The same arms, seeds and checkpoints on another benchmark that runs were evaluated on (see `Plan.on`).

    A run that was not evaluated there at its checkpoint is left out.

    Raises:
        LookupError: no run was evaluated on it, or it chose the checkpoints (names those that there are); or these are results of
            another benchmark already.
    """
    experiment = results.experiment
    plan = experiment.plan
    if benchmark == plan.benchmark:
        return results
    if plan.declared_on is not None:
        raise LookupError(
            f"these are results on {plan.benchmark} already; ask those on {plan.declared_on} for {benchmark!r}"
        )
    if benchmark not in experiment.further:
        known = ", ".join([plan.benchmark, *experiment.further])
        raise LookupError(
            f"{plan.name} has no results on {benchmark!r}: no run was evaluated on it; benchmarks: {known}"
        )
    view = results_of(experiment.further[benchmark], results.checkpoints)
    return view if results.asked is None else view.about(results.asked)


def all_benchmarks(results: Results) -> Mapping[str, Results]:
    """The results on the plan's own benchmark, then by name on every other that has a score at the plan's response cap."""
    others = {name: on_benchmark(results, name) for name in sorted(results.experiment.further)}
    arms = results.experiment.plan.arms
    scored = {name: view for name, view in others.items() if any(view.scores(arm, "avg") for arm in arms)}
    return {results.experiment.plan.benchmark: results, **scored}


def mean_over(views: Sequence[Results]) -> Results:
    """The metric as a seed's mean over benchmarks, each counting the same; only of seeds that have a value on all of them.

    Nothing but the metric at the primary cap can be asked of it.
    """
    first = views[0]
    keys, column, cap = ["arm", "seed", "run_id", "cap"], first.column, first.experiment.plan.primary_cap
    frames = [view.per_seed[view.per_seed["cap"] == cap].reindex(columns=[*keys, column]) for view in views]
    grouped = pd.concat(frames).groupby(keys, sort=False)[[column]]
    complete = grouped.count()[column] == len(views)
    return replace(first, per_seed=grouped.mean()[complete].reset_index())

"""Results on the benchmarks that runs were evaluated on beside the one that the plan is about, and the mean over all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd

from analysis.evidence.load import Evaluated
from analysis.evidence.results import Results, results_of


def on_benchmark(results: Results, benchmark: str) -> Results:
    """The same arms, seeds and checkpoint rule on another evaluated benchmark.

    Published numbers and a declared target are of the plan's own benchmark and left out.

    Raises:
        LookupError: no run was evaluated on it; names those that there are.
    """
    experiment = results.experiment
    plan = experiment.plan
    if benchmark == plan.benchmark:
        return results
    if benchmark not in experiment.further:
        known = ", ".join([plan.benchmark, *sorted(experiment.further)])
        raise LookupError(f"{plan.name}: no run was evaluated on {benchmark!r}; benchmarks: {known}")
    found = experiment.further[benchmark]
    cells = experiment.cells
    own, dev = (cells[cells["benchmark"] == name] for name in (plan.benchmark, plan.dev_benchmark))
    arms = tuple(replace(arm, published=None) for arm in plan.arms)
    others = {name: one for name, one in experiment.further.items() if name != benchmark}
    here = replace(
        experiment,
        plan=replace(plan, benchmark=benchmark, target_accuracy=None, arms=arms),
        cells=pd.concat([found.frame, dev], ignore_index=True) if len(dev) else found.frame,
        problem_avg=found.problem_avg,
        problem_ids=found.problem_ids,
        further={plan.benchmark: Evaluated.of(own, experiment.problem_avg, experiment.problem_ids), **others},
    )
    view = results_of(here)
    return view if results.asked is None else view.about(results.asked)


def all_benchmarks(results: Results) -> Mapping[str, Results]:
    """The results on every evaluated benchmark, the plan's own first, then by name."""
    names = [results.experiment.plan.benchmark, *sorted(results.experiment.further)]
    return {name: on_benchmark(results, name) for name in names}


def mean_over(views: Sequence[Results]) -> Results:
    """The metric as a seed's mean over benchmarks, each counting the same; only of seeds that have a value on all of them.

    Nothing but the metric and the score at the primary cap can be asked of it.
    """
    first = views[0]
    columns = list(dict.fromkeys([first.column, "avg"]))
    rows = pd.concat(
        [view.per_seed[view.per_seed["cap"] == first.experiment.plan.primary_cap] for view in views]
    )
    grouped = rows.groupby(["arm", "seed", "run_id", "cap"], sort=False)[columns]
    complete = (grouped.count() == len(views)).all(axis=1)
    return replace(first, per_seed=grouped.mean()[complete].reset_index())

"""Tables of every benchmark that the runs were evaluated on, beside the one that the experiment is about."""

from __future__ import annotations

from collections.abc import Mapping

from analysis.evidence.further_benchmarks import all_benchmarks, mean_over
from analysis.evidence.metric_values import evaluated
from analysis.evidence.results import Results
from analysis.statistics.estimate import Estimate
from analysis.statistics.verdicts import judge
from analysis.tables.differences import REFERENCE, difference_column, word_meanings
from analysis.tables.of_metric import metric_name, metric_suffix, samples
from analysis.tables.table import Cell, Column, Table

_MEAN = "mean of all"

Views = Mapping[str, Results]


def benchmark_tables(results: Results) -> list[Table]:
    """Scores and differences by benchmark, for each metric that evaluations have; none where only one benchmark was evaluated."""
    if not results.experiment.further:
        return []
    views = all_benchmarks(results)
    metrics = [one for one in results.experiment.plan.metrics if evaluated(one)]
    return [
        table
        for metric in metrics
        for table in _of_one(
            results.about(metric), {name: view.about(metric) for name, view in views.items()}
        )
    ]


def _of_one(results: Results, views: Views) -> list[Table]:
    mean = mean_over(list(views.values()))
    scores = _scores(results, views, mean)
    # Seeds stop where the declared benchmark tells them to, which would bias the differences on the others.
    return [scores] if results.experiment.plan.looks else [scores, _differences(results, views, mean)]


def _scores(results: Results, views: Views, mean: Results) -> Table:
    plan, metric = results.experiment.plan, results.metric
    together = {**views, _MEAN: mean}
    rows: list[Mapping[str, Cell]] = [
        {"arm": arm.label, **{name: view.mean(arm) for name, view in together.items()}} for arm in plan.arms
    ]
    before = {name: value for name, view in views.items() if (value := _before(view)) is not None}
    if before:
        of_all = sum(before.values()) / len(before) if len(before) == len(views) else None
        rows.insert(0, {"arm": "before RL", **before, _MEAN: of_all})
    unit = metric.percent or f", {metric.unit}"
    heads = (
        Column(name, f"{name}{unit} (95 % interval)", digits=metric.digits, scale=metric.scale)
        for name in together
    )
    title = f"{plan.title} ({_name(results, views)} by benchmark)"
    notes = tuple(_score_notes(results, views))
    return Table(
        f"{plan.name}-benchmarks{metric_suffix(results)}",
        title,
        (Column("arm", "arm"), *heads),
        tuple(rows),
        notes,
    )


def _before(view: Results) -> float | None:
    """The metric before training, averaged over all runs."""
    rows = view.before
    if not len(rows) or view.column not in rows:
        return None
    return float(rows.loc[rows["cap"] == view.experiment.plan.primary_cap, view.column].mean())


def _score_notes(results: Results, views: Views) -> list[str]:
    plan = results.experiment.plan
    notes = [
        f"The experiment is about {plan.benchmark}; checkpoint rule {plan.checkpoint_rule}{plan.cap_text}. Intervals over training seeds, "
        "problems fixed, each by itself. The mean counts every benchmark the same, whatever its number of problems."
    ]
    if plan.looks:
        notes.append(
            f"No differences on the other benchmarks: {plan.benchmark} decided how many seeds ran, and their intervals would not allow "
            "for that."
        )
    numbers = {name: samples(view) for name, view in views.items()}
    if len(set(numbers.values())) > 1:
        notes.append(f"Samples a problem: {', '.join(f'{name} {n}' for name, n in numbers.items())}.")
    short = [
        f"{arm.label} {len(view.values(arm))} of {finished} on {name}"
        for name, view in views.items()
        for arm in plan.arms
        if len(view.values(arm)) < (finished := len(results.scores(arm, "avg")))
    ]
    if short:
        notes.append(f"Seeds with a value: {'; '.join(short)}. The mean has those with a value on all.")
    return notes


def _differences(results: Results, views: Views, mean: Results) -> Table:
    plan, metric = results.experiment.plan, results.metric
    others = {**{name: view for name, view in views.items() if name != plan.benchmark}, _MEAN: mean}
    columns = results.columns * len(others)
    found = {name: _judged(view, columns) for name, view in others.items()}
    rows = tuple(
        {"arm": arm.label, **{name: found[name].get(arm.name) for name in others}} for arm in plan.arms
    )
    heads = (
        difference_column(metric, name, f"{name}, Δ to {REFERENCE[plan.design]}", found[name].values())
        for name in others
    )
    metrics = f" and of those of all {results.columns} metrics" if results.columns > 1 else ""
    notes = (
        f"Simultaneous intervals: all of this table{metrics} hold together at 95 % (Šidák). Those on {plan.benchmark}, which the "
        "experiment is about, stand in its main table.",
        *word_meanings(results),
    )
    title = f"{plan.title} (differences in {_name(results, views)} on the other benchmarks)"
    name = f"{plan.name}-benchmark-differences{metric_suffix(results)}"
    return Table(name, title, (Column("arm", "arm"), *heads), rows, notes)


def _judged(view: Results, columns: int) -> dict[str, Estimate]:
    """Each arm against its reference on one benchmark."""
    plan = view.experiment.plan
    references = {arm.name: (arm, plan.reference_of(arm)) for arm in plan.arms}
    contrasts = {
        name: view.contrast(arm, other) for name, (arm, other) in references.items() if other is not None
    }
    return judge(contrasts, margin=view.margin, columns=columns)


def _name(results: Results, views: Views) -> str:
    """The metric, with its number of samples where that is the same on all benchmarks."""
    same = len({samples(view) for view in views.values()}) == 1
    return metric_name(results) if same else results.metric.title

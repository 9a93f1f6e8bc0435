"""The Python front: an experiment out of its store as frames, differences of any metric, tables and figures. `from analysis import ...`."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from analysis.figures.drawing import FORMATS, figure_style, save, tidy
from analysis.frames import load_experiment
from analysis.judgement import judge, require_margin
from analysis.report import figure_makers, write_answer
from analysis.results import Results, on_benchmark, results_of
from analysis.tables.experiment import all_tables
from analysis.tables.table import Table, to_frame, to_latex, to_markdown
from analysis.tables.words import metric_header, why_absent
from harness.evaluation.metrics import names
from harness.evaluation.metrics.names import UnknownMetric
from harness.experiment.plan import PlanError
from harness.statistics.intervals import Estimate, Verdict
from harness.store import StoreError

__all__ = [
    "Estimate", "NoValueError", "PlanError", "Results", "StoreError", "UnknownMetric", "Verdict", "difference", "figure_of",
    "judge", "load", "on_benchmark", "save_figure", "seed_frame", "tables_of", "to_frame", "to_latex", "to_markdown",
    "write_answer",
]  # fmt: skip


class NoValueError(LookupError):
    """No finished run has a value of the metric; the message says what the runs would have had to log."""


def load(root: Path | str, experiment: str, metrics: Sequence[str] = ()) -> Results:
    """An experiment out of the results root; ``metrics``: names asked of it later whose k is no power of two (`pass@12`).

    Raises `StoreError` without such an experiment, which names those that there are, and `UnknownMetric`.
    """
    extra_metrics = [names.metric(name) for name in metrics]
    return results_of(load_experiment(root, experiment, extra_metrics=extra_metrics))


def seed_frame(results: Results, metrics: Sequence[str] | None = None) -> pd.DataFrame:
    """One row per arm and seed at the checkpoint: arm, label, seed, run_id, and a column for each metric in its shown unit.

    ``metrics``: names; None: those that the experiment declares. Raises `UnknownMetric`, and `NoValueError` for one that no run has.
    """
    declared_names = [metric.name for metric in results.experiment.plan.metrics]
    views = [_metric_view(results, name) for name in (declared_names if metrics is None else metrics)]
    labels = {arm.name: arm.label for arm in results.experiment.plan.arms}
    values = {view.metric.name: view.metric.scale * view.per_seed.get(view.column, math.nan) for view in views}
    frame = results.per_seed.assign(label=results.per_seed["arm"].map(labels), **values)
    is_scored = (frame["cap"] == results.experiment.plan.primary_cap) & frame["avg"].notna()
    return frame.loc[is_scored, ["arm", "label", "seed", "run_id", *values]].reset_index(drop=True)


def difference(
    results: Results, arm: str, reference: str, metric: str = "avg", *, margin: float | None = None
) -> Estimate:
    """Arm minus reference in a metric, in its shown unit: value, low, high, seeds, verdict.

    ``margin``: in that unit; None: the declared one. One that is given after the scores were seen is none that was declared, and a text
    that quotes the verdict says *with the margin given*.

    One comparison that stands alone, its 95 % interval corrected for nothing: several of them are no family. What an experiment declares is
    judged together in `tables_of`.

    Raises `PlanError` for an unknown arm, `UnknownMetric`, `NoValueError` for a metric that no finished run has, and `ValueError` for a
    margin that is not above 0.
    """
    require_margin(margin)
    view = _metric_view(results, metric)
    plan, scale = view.experiment.plan, view.metric.scale
    given_margin = None if margin is None else margin / scale
    return view.difference(plan.arm(arm), plan.arm(reference), given_margin).rescale(scale)


def tables_of(results: Results) -> dict[str, Table]:
    """Every table of the report by its file's name; `analysis.to_frame`, `to_markdown` and `to_latex` render one."""
    return {table.name: table for table in all_tables(results)}


def figure_of(
    results: Results,
    name: str,
    metric: str | None = None,
    *,
    style: str = "screen",
    rc: Mapping[str, Any] | None = None,
) -> Figure:
    """A figure of the report by its file's name (`differences`, `metric`, `accuracy`, `training/length`, ...).

    ``metric``: what it is about; None: the first that the experiment declares. ``style``: `paper` or `screen`; ``rc``: rcParams
    over those of the style. Raises `LookupError` without such a figure, which names those that there are, or without data for it.
    """
    view = results if metric is None else _metric_view(results, metric)
    makers = dict(figure_makers(view, [view]))
    if name not in makers:
        raise LookupError(f"there is no figure {name!r}; there are: {', '.join(makers)}")
    with figure_style(style, rc):
        figure = makers[name]()
    if figure is None:
        raise LookupError(f"{view.experiment.plan.name} has no data for the figure {name!r} of {metric_header(view)}")
    return tidy(figure)


def save_figure(
    figure: Figure, folder: Path | str, name: str, *, style: str = "screen", formats: Sequence[str] = FORMATS
) -> list[Path]:
    """Write a figure with reproducible bytes; returns its paths. Raises `ValueError` for a format that is none of pdf, svg and png."""
    with figure_style(style):
        return save(figure, Path(folder), name, formats)


def _metric_view(results: Results, name: str) -> Results:
    view = results.about(names.metric(name))
    arms = view.experiment.plan.arms
    if any(view.scores(arm, "avg") for arm in arms) and not any(view.values(arm) for arm in arms):
        raise NoValueError(f"no finished run of {view.experiment.plan.name} has a value of {name}{why_absent(view)}")
    return view

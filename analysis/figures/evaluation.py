"""Figures of the evaluations: accuracy over training, k-curves, ladder waterfall, entropy trade-off, grid."""

from __future__ import annotations

import math
import re
import textwrap
from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from matplotlib import rcParams
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch, Rectangle

from analysis.evidence.grid import grid_axes, grid_value, near_best
from analysis.evidence.load import StoredExperiment
from analysis.evidence.metric_values import evaluated, tokens_at
from analysis.evidence.results import Results
from analysis.evidence.stored_plan import StoredPlan
from analysis.figures.series import Series, combine, draw_band, mean_band
from analysis.figures.style import BAND_ALPHA, Look, legend_below, looks, new_figure
from analysis.figures.training import COUNTS, Panel, arm_legend, draw_series, few_arms, panel_series
from analysis.tables.differences import differences_to_reference
from harness.statistics.estimate import Estimate, Verdict
from harness.statistics.intervals import mean_interval, performance_profile


def accuracy_series(
    experiment: StoredExperiment, arm: str, axis: str, metric: str = "avg", *, scale: float | None = None
) -> Series:
    """Evaluation score as shown (accuracy in %) of one arm at the primary cap against ``step``, ``updates`` or ``tokens``.

    ``metric`` is a column of the cells; ``scale`` is that of scores where not given.
    """
    plan, curves = experiment.plan, []
    cells = experiment.cells
    own = cells[
        (cells["arm"] == arm) & (cells["benchmark"] == plan.benchmark) & (cells["cap"] == plan.primary_cap)
    ]
    for run_id, run in own.groupby("run_id"):
        run = run.sort_values("step")
        x = _positions(experiment.steps[experiment.steps["run_id"] == run_id], run["step"].tolist(), axis)
        curves.append(
            (x, (plan.score.scale if scale is None else scale) * run[metric].to_numpy(dtype=np.float64))
        )
    return combine(curves, exact=axis != "tokens", points=41)


def _positions(steps: pd.DataFrame, evaluated: list[int], axis: str) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Where the evaluated steps stand on the axis; step 0 is its origin."""
    if axis == "tokens":
        return tokens_at(steps, evaluated)
    if axis == "updates":
        updates = dict(zip(steps["step"], steps["updates"], strict=True)) if len(steps) else {}
        return np.array([0.0 if step == 0 else float(updates.get(step, np.nan)) for step in evaluated])
    return np.array(evaluated, dtype=np.float64)


def score_label(plan: StoredPlan) -> str:
    """The score on an axis: ``accuracy, %, cap 32`` or the name that a foreign trainer gave it."""
    return f"{_score_name(plan)}{plan.cap_text.removesuffix(' tokens')}"


def _score_name(plan: StoredPlan) -> str:
    score = plan.score
    name = "accuracy" if score.name == "avg" else score.name
    return f"{name}{',' if score.percent else ''}{score.percent}"


def _metric_label(results: Results) -> str:
    """The metric on an axis of a figure that is drawn for each of them."""
    plan = results.experiment.plan
    return _score_name(plan) if results.metric == plan.score else results.metric.header


def accuracy_figure(experiment: StoredExperiment, style: str) -> Figure | None:
    """Evaluation accuracy against rollout steps and against generated tokens, side by side.

    Of many arms the means only; `accuracy_multiples` has their intervals.
    """
    few = few_arms(experiment)
    arms = experiment.plan.arms
    if not len(experiment.cells):
        return None
    figure, axes = new_figure(style, width=1.6, ncols=2, sharey=True)
    look = looks([arm.name for arm in arms])
    for arm in arms:
        by_step = accuracy_series(experiment, arm.name, "step")
        draw_series(axes[0], by_step, look[arm.name], marked=True, spread=few)
        draw_series(axes[1], accuracy_series(experiment, arm.name, "tokens"), look[arm.name], spread=few)
    axes[0].set_ylabel(score_label(experiment.plan))
    axes[0].set_xlabel("rollout steps")
    axes[1].set_xlabel("generated tokens")
    axes[1].xaxis.set_major_formatter(COUNTS)
    arm_legend(figure, experiment, marked=True, spread=few)
    return figure


def metric_figure(results: Results, style: str) -> Figure | None:
    """The metric of every evaluation against rollout steps; None for the score, which has a figure, and for what no evaluation has."""
    experiment, metric = results.experiment, results.metric
    if metric == experiment.plan.score or not evaluated(metric) or results.column not in experiment.cells:
        return None
    figure, axes = new_figure(style)
    look = looks([arm.name for arm in experiment.plan.arms])
    for arm in experiment.plan.arms:
        series = accuracy_series(experiment, arm.name, "step", results.column, scale=metric.scale)
        draw_series(axes, series, look[arm.name], marked=True)
    axes.set_xlabel("rollout steps")
    label = f"{metric.header}{experiment.plan.cap_text.removesuffix(' tokens')}"
    axes.set_ylabel(textwrap.fill(label, 28))
    arm_legend(figure, experiment)
    return figure


def entropy_accuracy_figure(experiment: StoredExperiment, style: str) -> Figure | None:
    """Training entropy at matched training accuracy: faster learners have lower entropy at any step."""
    entropy, accuracy = Panel("entropy_nats", ""), Panel("accuracy_mean", "", scale=100.0)
    if "entropy_nats" not in experiment.steps or not experiment.steps["entropy_nats"].notna().any():
        return None
    figure, axes = new_figure(style)
    looked = looks([arm.name for arm in experiment.plan.arms])
    for arm in experiment.plan.arms:
        x = panel_series(experiment, arm.name, accuracy, "step")
        y = panel_series(experiment, arm.name, entropy, "step")
        if not len(x):
            continue
        look = looked[arm.name]
        axes.plot(x.mean, y.mean, color=look.colour, linestyle=look.line)
        axes.plot(
            x.mean[-1:],
            y.mean[-1:],
            color=look.colour,
            marker=look.marker,
            markersize=2 * float(rcParams["lines.markersize"]),
            markeredgecolor="white",
            linestyle="",
            zorder=4,
        )
    axes.set_xlabel("training accuracy, % (marker: end of training)")
    axes.set_ylabel("entropy, nats per token")
    arm_legend(figure, experiment, marked=True)
    return figure


def k_curves(results: Results, arm_name: str | None) -> dict[str, tuple[list[int], list[Estimate]]]:
    """Pass@k and Maj@k (in %) against k at the checkpoint of an arm, or before RL for None."""
    plan = results.experiment.plan
    frame = results.before if arm_name is None else results.per_seed
    curves: dict[str, tuple[list[int], list[Estimate]]] = {}
    if not len(frame):
        return curves
    rows = frame[frame["cap"] == plan.primary_cap]
    rows = rows if arm_name is None else rows[rows["arm"] == arm_name]
    for kind in ("pass", "maj"):
        found = (re.fullmatch(rf"{kind}@(\d+)", str(column)) for column in rows.columns)
        ks = sorted(int(match[1]) for match in found if match)
        ks = [k for k in ks if rows[f"{kind}@{k}"].notna().any()]
        values = [mean_interval(100 * rows[f"{kind}@{k}"].to_numpy(dtype=np.float64)) for k in ks]
        curves[kind] = (ks, values)
    return curves


def k_figure(results: Results, style: str) -> Figure | None:
    """Pass@k and Maj@k against k, before RL (dashed) and after; of many arms without bands."""
    plan, few = results.experiment.plan, few_arms(results.experiment)
    before = k_curves(results, None)
    if not before:
        return None
    figure, axes = new_figure(style, width=1.6, ncols=2, sharey=True)
    looked = looks([arm.name for arm in plan.arms])
    for axes_, kind, label in zip(axes, ("pass", "maj"), ("Pass@k, %", "Maj@k, %"), strict=True):
        ks, values = before[kind]
        axes_.plot(ks, [v.value for v in values], color="#666666", linestyle="--", zorder=4)
        for arm in plan.arms:
            ks, values = k_curves(results, arm.name).get(kind, ([], []))
            _interval_line(axes_, ks, values, looked[arm.name], banded=few)
        axes_.set_xscale("log", base=2)
        axes_.set_xticks(before[kind][0], [str(k) for k in before[kind][0]])
        axes_.minorticks_off()
        axes_.set_xlabel("k")
        axes_.set_title(label, loc="left")
    handles = [
        Line2D([], [], color=look.colour, linestyle=look.line, marker=look.marker) for look in looked.values()
    ]
    dashed = Line2D([], [], color="#666666", linestyle="--")
    band = [Patch(color="#000000", alpha=BAND_ALPHA, linewidth=0)] * few
    labels = ["before RL", *(a.label for a in plan.arms), *["95 % t interval over seeds"] * few]
    legend_below(figure, [dashed, *handles, *band], labels)
    return figure


def profile_figure(results: Results, style: str) -> Figure | None:
    """Share of problems solved more often than tau against tau, 95 % t band over seeds."""
    thresholds = np.linspace(0.0, 0.99, 34)
    plan = results.experiment.plan
    looked = looks([arm.name for arm in plan.arms])
    figure, axes = new_figure(style)
    drawn, few = False, few_arms(results.experiment)
    for arm in plan.arms:
        profiles = [100 * performance_profile(p, thresholds) for p in results.problem_scores(arm).values()]
        if profiles:
            seeds = np.array(profiles)
            draw_series(axes, Series(thresholds, seeds, *mean_band(seeds)), looked[arm.name], spread=few)
            drawn = True
    axes.set_xlabel("τ (avg@n of a problem)")
    axes.set_ylabel("problems above τ, %")
    arm_legend(figure, results.experiment, spread=few)
    return figure if drawn else None


def waterfall_figure(results: Results, style: str) -> Figure | None:
    """Score of every arm with its interval; the step from its parent as a bar that looks as its word says."""
    plan, metric = results.experiment.plan, results.metric
    estimates = {arm.name: results.mean(arm) for arm in plan.arms}
    if all(math.isnan(e.value) for e in estimates.values()):
        return None
    deltas = differences_to_reference(results)
    looked = looks([arm.name for arm in plan.arms])
    rows = len(plan.arms)
    labels = [textwrap.fill(arm.label, 32) for arm in plan.arms]
    crowded = max(label.count("\n") for label in labels) * 0.3 + 1
    figure, axes = new_figure(style, width=1.15, height=(0.5 + 0.22 * rows * crowded) / 1.5)
    numbers = [""] * rows
    for y, arm in enumerate(plan.arms):
        estimate = estimates[arm.name]
        if math.isnan(estimate.value):
            numbers[y] = estimate.absent or ("no value" if results.scores(arm, "avg") else "no finished run")
            continue
        delta = deltas.get(arm.name)
        if delta is not None and not math.isnan(delta.value):
            start = metric.scale * (estimate.value - delta.value)
            kind = {"color": looked[arm.name].colour, "alpha": 0.45} if delta.resolved else _HOLLOW
            if delta.verdict is Verdict.EQUIVALENT:
                kind = {**_HOLLOW, "linestyle": "-"}
            axes.barh(y, metric.scale * delta.value, left=start, height=0.56, zorder=2, **kind)
        _error_bar(axes, metric.scale, y, estimate, looked[arm.name].colour)
        numbers[y] = f"{metric.scale * estimate.value:.{metric.digits}f}"
        if delta is not None and not math.isnan(delta.value):
            numbers[y] += f"  ({metric.scale * delta.value:+.{metric.digits}f})".replace("-", "−")
    right = axes.secondary_yaxis("right")
    right.set_yticks(range(rows), numbers)
    right.tick_params(length=0)
    right.spines["right"].set_visible(False)
    axes.set_yticks(range(rows), labels)
    axes.set_ylim(rows - 0.4, -0.6)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel(f"{_metric_label(results)}\n{textwrap.fill(_bar_legend(deltas.values()), 60)}")
    return figure


def _bar_legend(deltas: Iterable[Estimate]) -> str:
    """What the fillings of the bars mean, as far as they occur."""
    words = {"filled": "higher or lower"}
    found = {delta.verdict for delta in deltas}
    if Verdict.EQUIVALENT in found:
        words["framed"] = "equivalent"
    if Verdict.NOT_RESOLVED in found:
        words["dotted"] = "not resolved"
    return ", ".join(["bar: difference", *(f"{look}: {word}" for look, word in words.items())])


_HOLLOW: dict[str, Any] = {"facecolor": "none", "edgecolor": "#888888", "linewidth": 0.7, "linestyle": ":"}


def grid_figure(results: Results, style: str) -> Figure | None:
    """Heat map of the score over two settings, or None where the arms are no two-way grid."""
    plan, metric = results.experiment.plan, results.metric
    axes_values = grid_axes(plan)
    if axes_values is None or len(axes_values) != 2:
        return None
    (row_key, rows), (column_key, columns) = axes_values.items()
    values = np.full((len(rows), len(columns)), np.nan)
    for arm in plan.arms:
        place = rows.index(grid_value(plan, arm, row_key)), columns.index(grid_value(plan, arm, column_key))
        values[place] = metric.scale * results.mean(arm).value
    if np.isnan(values).all():
        return None
    figure, axes = new_figure(style, height=max(0.7, 0.25 * len(rows) + 0.35))
    image = axes.imshow(values, cmap="cividis", aspect="auto", origin="lower")
    middle = (np.nanmin(values) + np.nanmax(values)) / 2
    for (i, j), value in np.ndenumerate(values):
        shown = "–" if math.isnan(value) else f"{value:.{metric.digits}f}"
        axes.text(j, i, shown, ha="center", va="center", color="white" if value < middle else "black")
    axes.set_xticks(range(len(columns)), [str(v) for v in columns])
    axes.set_yticks(range(len(rows)), [str(v) for v in rows])
    axes.set_xlabel(column_key)
    axes.set_ylabel(row_key)
    axes.grid(visible=False)
    _mark_best(axes, results, rows, columns, (row_key, column_key))
    figure.colorbar(image, ax=axes, label=score_label(plan) if metric == plan.score else metric.header)
    return figure


def _mark_best(
    axes: Any, results: Results, rows: list[Any], columns: list[Any], keys: tuple[str, str]
) -> None:
    """A solid frame around the best cell, a dotted one around those that are not distinguishable from it."""
    found = near_best(results)
    if found is None:
        return
    plan, (best, near) = results.experiment.plan, found
    for arm in plan.arms:
        if arm.name not in (best, *near):
            continue
        y, x = rows.index(grid_value(plan, arm, keys[0])), columns.index(grid_value(plan, arm, keys[1]))
        line = {"linewidth": 1.8} if arm.name == best else {"linewidth": 1.2, "linestyle": ":"}
        axes.add_patch(Rectangle((x - 0.46, y - 0.46), 0.92, 0.92, fill=False, edgecolor="#D55E00", **line))
    axes.set_title("frame: best; dotted: not distinguishable from it", loc="left")


def _interval_line(axes: Any, ks: list[int], values: list[Estimate], look: Look, *, banded: bool) -> None:
    means = [v.value for v in values]
    axes.plot(ks, means, color=look.colour, linestyle=look.line, marker=look.marker)
    if banded:
        draw_band(axes, ks, [v.low for v in values], [v.high for v in values], look.colour)


def _error_bar(axes: Any, scale: float, y: float, estimate: Estimate, colour: str) -> None:
    spread = None
    if not math.isnan(estimate.low):
        spread = [
            [scale * (estimate.value - estimate.low)],
            [scale * (estimate.high - estimate.value)],
        ]
    axes.errorbar(
        [scale * estimate.value], [y], xerr=spread, color=colour, marker="o", capsize=2, linewidth=1, zorder=4
    )

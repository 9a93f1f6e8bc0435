"""Figures of the evaluations: accuracy over training, k-curves, ladder waterfall, entropy trade-off, grid."""

from __future__ import annotations

import math
import textwrap
from typing import Any

import numpy as np
from matplotlib import rcParams
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Rectangle

from analysis.evidence.grid import grid_of, near_best
from analysis.evidence.keys import key_label, value_label
from analysis.evidence.load import StoredExperiment
from analysis.evidence.metric_values import evaluated
from analysis.evidence.results import Results
from analysis.figures.drawing import (
    COUNTS,
    arm_appearances,
    cap_label,
    draw_interval,
    draw_series,
    few_arms,
    k_axis,
    label_rows,
    name_lines,
    score_label,
    score_name,
)
from analysis.figures.series import Panel, Series, accuracy_series, k_curves, logged, panel_series
from analysis.figures.style import new_figure
from analysis.tables.differences import differences_to_reference
from harness.statistics.estimate import Verdict
from harness.statistics.intervals import performance_profile

_HOLLOW: dict[str, Any] = {"facecolor": "none", "edgecolor": "#888888", "linewidth": 0.7, "linestyle": ":"}


def accuracy_figure(experiment: StoredExperiment) -> Figure | None:
    """Draw evaluation accuracy against generated tokens and against rollout steps, side by side.

    Of many arms the means only; ``accuracy_multiples`` has their intervals.
    """
    if not len(experiment.cells):
        return None
    few = few_arms(experiment)
    figure, axes = new_figure(wide=True, ncols=2, sharey=True)
    look = arm_appearances(experiment)
    for arm in experiment.plan.arms:
        for axes_, axis in zip(axes, ("tokens", "step"), strict=True):
            series = accuracy_series(experiment, arm.name, axis)
            draw_series(axes_, series, look[arm.name], label=arm.label, spread=few)
    axes[0].set(xlabel="generated tokens", ylabel=score_label(experiment.plan))
    axes[0].xaxis.set_major_formatter(COUNTS)
    axes[1].set_xlabel("rollout steps")
    name_lines(figure, experiment, ends=axes[1], spread=few)
    return figure


def metric_figure(results: Results) -> Figure | None:
    """Draw the metric against rollout steps; None for the score, which has a figure, and for what no evaluation has."""
    experiment, metric = results.experiment, results.metric
    if metric == experiment.plan.score or not evaluated(metric) or results.column not in experiment.cells:
        return None
    figure, axes = new_figure()
    few, look = few_arms(experiment), arm_appearances(experiment)
    for arm in experiment.plan.arms:
        series = accuracy_series(experiment, arm.name, "step", results.column, scale=metric.scale)
        draw_series(axes, series, look[arm.name], label=arm.label, spread=few)
    axes.set(xlabel="rollout steps", ylabel=f"{metric.header}{cap_label(experiment.plan)}")
    name_lines(figure, experiment, ends=axes, spread=few)
    return figure


def entropy_accuracy_figure(experiment: StoredExperiment) -> Figure | None:
    """Draw training entropy at matched training accuracy: faster learners have lower entropy at any step."""
    entropy, accuracy = Panel("entropy_nats", ""), Panel("accuracy_mean", "", scale=100.0)
    if not logged(experiment, entropy):
        return None
    figure, axes = new_figure()
    end = {"markersize": 2 * float(rcParams["lines.markersize"]), "markeredgecolor": "white", "zorder": 4}
    for name, appearance in arm_appearances(experiment).items():
        x = panel_series(experiment, name, accuracy, "step").mean
        y = panel_series(experiment, name, entropy, "step").mean
        axes.plot(x, y, **appearance.pen() | {"marker": None})
        axes.plot(x[-1:], y[-1:], **appearance.pen() | end)
    axes.set(xlabel="training accuracy, % (marker: end of training)", ylabel="entropy, nats per token")
    name_lines(figure, experiment)
    return figure


def k_figure(results: Results) -> Figure | None:
    """Draw Pass@k and Maj@k against k, before RL (dashed) and after; of many arms the means only."""
    experiment, few = results.experiment, few_arms(results.experiment)
    before = k_curves(results, None)
    if not before:
        return None
    figure, axes = new_figure(wide=True, ncols=2, sharey=True)
    dashed: dict[str, Any] = {"color": "#666666", "linestyle": "--", "label": "before RL"}
    look = arm_appearances(experiment)
    for axes_, kind, label in zip(axes, ("pass", "maj"), ("Pass@k, %", "Maj@k, %"), strict=True):
        start = before[kind]
        axes_.plot(start.x, start.mean, zorder=4, **dashed)
        for arm in experiment.plan.arms:
            after = k_curves(results, arm.name)
            if after:
                draw_series(axes_, after[kind], look[arm.name], label=arm.label, spread=few)
        k_axis(axes_, start.x, label)
    name_lines(figure, experiment, ends=axes[1], spread=few, first=[Line2D([], [], **dashed)])
    return figure


def profile_figure(results: Results) -> Figure | None:
    """Draw the share of problems solved more often than tau against tau, 95 % t band over seeds."""
    thresholds = np.linspace(0.0, 0.99, 34)
    figure, axes = new_figure()
    few, appearance = few_arms(results.experiment), arm_appearances(results.experiment)
    for arm in results.experiment.plan.arms:
        profiles = [100 * performance_profile(p, thresholds) for p in results.problem_scores(arm).values()]
        if profiles:
            series = Series.of(thresholds, np.array(profiles))
            draw_series(axes, series, appearance[arm.name], label=arm.label, spread=few)
    if not axes.lines:
        return None
    axes.set(xlabel="τ (avg@n of a problem)", ylabel="problems above τ, %")
    name_lines(figure, results.experiment, spread=few)
    return figure


def waterfall_figure(results: Results) -> Figure | None:
    """Draw the score of every arm with its interval; the step from its parent is a bar that looks as its word says."""
    plan, metric = results.experiment.plan, results.metric
    estimates = {arm.name: results.mean(arm) for arm in plan.arms}
    if all(math.isnan(e.value) for e in estimates.values()):
        return None
    deltas = differences_to_reference(results)
    appearance = arm_appearances(results.experiment)
    labels = [textwrap.fill(arm.label, 28) for arm in plan.arms]
    crowded = max(label.count("\n") for label in labels) * 0.3 + 1
    figure, axes = new_figure(height=0.4 + 0.11 * len(labels) * crowded)
    numbers = []
    for y, arm in enumerate(plan.arms):
        estimate, delta = estimates[arm.name], deltas.get(arm.name)
        if math.isnan(estimate.value):
            unfinished = not results.scores(arm, "avg")
            numbers.append(estimate.absent or ("no finished run" if unfinished else "no value"))
            continue
        look = appearance[arm.name]
        colour, number = look.colour, f"{metric.scale * estimate.value:.{metric.digits}f}"
        if delta is not None and not math.isnan(delta.value):
            width = metric.scale * delta.value
            fill = {"color": colour, "alpha": 0.45} if delta.resolved else _HOLLOW
            if delta.verdict is Verdict.EQUIVALENT:
                fill = {**_HOLLOW, "linestyle": "-"}
            axes.barh(y, width, left=metric.scale * estimate.value - width, height=0.56, zorder=2, **fill)
            number += f"  ({width:+.{metric.digits}f})".replace("-", "−")
        draw_interval(axes, y, estimate, metric.scale, color=colour, marker=look.marker, zorder=4)
        numbers.append(number)
    label_rows(axes, labels, numbers)
    found = {delta.verdict for delta in deltas.values()}
    bars = "bar: difference, filled: higher or lower"
    bars += ", framed: equivalent" * (Verdict.EQUIVALENT in found)
    bars += ", dotted: not resolved" * (Verdict.NOT_RESOLVED in found)
    shown = score_name(plan) if metric == plan.score else metric.header
    axes.set_xlabel(f"{shown}\n{bars}")
    return figure


def grid_figure(results: Results) -> Figure | None:
    """Draw a heat map of the score over two settings, or None where the arms are no two-way grid."""
    plan, metric = results.experiment.plan, results.metric
    grid = grid_of(plan)
    if grid is None:
        return None
    values, places = np.full((len(grid.rows), len(grid.columns)), np.nan), {}
    for (row, column), arm in grid.arms.items():
        places[arm.name] = grid.rows.index(row), grid.columns.index(column)
        values[places[arm.name]] = metric.scale * results.mean(arm).value
    if np.isnan(values).all():
        return None
    figure, axes = new_figure(height=max(0.7, 0.2 * len(grid.rows) + 0.35))
    image = axes.imshow(values, cmap="cividis", aspect="auto", origin="lower")
    middle = (np.nanmin(values) + np.nanmax(values)) / 2
    for (i, j), value in np.ndenumerate(values):
        shown = "–" if math.isnan(value) else f"{value:.{metric.digits}f}"
        # Not quite white and black, which a dark page exchanges.
        axes.text(j, i, shown, ha="center", va="center", color="#fefefe" if value < middle else "#010101")
    axes.set_xticks(range(len(grid.columns)), map(value_label, grid.columns))
    axes.set_yticks(range(len(grid.rows)), map(value_label, grid.rows))
    axes.set(xlabel=key_label(grid.column_key), ylabel=key_label(grid.row_key))
    axes.grid(visible=False)
    found = near_best(results)
    if (
        found is not None
    ):  # a solid frame around the best cell, a dotted one around those not distinguishable from it
        best, near = found
        for name in (arm.name for arm in plan.arms if arm.name in (best, *near)):
            y, x = places[name]
            line = {"linewidth": 1.8} if name == best else {"linewidth": 1.2, "linestyle": ":"}
            frame = Rectangle((x - 0.46, y - 0.46), 0.92, 0.92, fill=False, edgecolor="#D55E00", **line)
            axes.add_patch(frame)
        axes.set_title("frame: best; dotted: not told apart", loc="left")
    figure.colorbar(image, ax=axes, label=score_label(plan) if metric == plan.score else metric.header)
    return figure

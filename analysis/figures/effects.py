"""Figures of effects: differences, those of a design, and grids."""

import math
import textwrap
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from analysis.colours import VERDICTS, is_hollow, look_of
from analysis.designs import grid_of, key_label, setting_label
from analysis.effects import REFERENCE as REFERENCE_KIND
from analysis.effects import Effect, declared_effects
from analysis.figures import drawing
from analysis.line import interval_limits
from analysis.results import Results
from analysis.tables.spending import equal_what
from analysis.tables.table import cell_text
from analysis.tables.words import REFERENCE, difference_column, interval_name, metric_name, undeclared_text
from harness.statistics.intervals import Estimate


def differences_figure(results: Results) -> Figure | None:
    """Draw one row a comparison, as wide as a page; None where no two arms can be compared."""
    plan, metric = results.experiment.plan, results.metric
    effects = [effect for effect in declared_effects(results) if effect.kind == REFERENCE_KIND]
    known_effects = [effect for effect in effects if not math.isnan(effect.estimate.value)]
    if not known_effects:
        return None
    # Of a list one reference is named, and several stand in the rows.
    references = plan.references if plan.design == "arms" else []
    reference = references[0].label if len(references) == 1 else f"the {REFERENCE[plan.design]}"
    several = len(references) > 1
    suffixes = {e.arm: f" against {plan.arm(e.reference).label}" * several for e in known_effects}
    rows = [replace(effect, comparison=plan.arm(effect.arm).label + suffixes[effect.arm]) for effect in known_effects]
    in_metric = "" if results.about_score else f" in {metric_name(results)}"
    equal = f" {equal_what(results)}".rstrip()
    label = f"difference{in_metric}{equal} to {reference}, {metric.unit}"
    return forest_figure(rows, label, results.shown_margin, undeclared_text(results))


def forest_figure(effects: Sequence[Effect], label: str, margin: float | None, more: str = "") -> Figure:
    """Draw one row an effect: its interval, the mark of its word, and both as text. ``more``: said of the intervals."""
    names = [f"{effect.group}: {effect.comparison}".removeprefix(": ") for effect in effects]
    row_labels = [textwrap.fill(name, 30) for name in names]
    breaks = [name.count("\n") for name in row_labels]
    rows = len(row_labels) + 0.6 * (sum(breaks) if max(breaks) < 2 else len(row_labels) * max(breaks))
    figure, axes = drawing.new_figure(wide=True, height=0.3 + 0.1 * rows + 0.08 * label.count("\n"))
    if max(breaks) > 1:  # letters are wider where the file is drawn than where the layout measures them
        figure.set_layout_engine("constrained", w_pad=0.11, h_pad=0.04)
    if margin is not None:
        axes.axvspan(-margin, margin, color=VERDICTS["equivalent"].colour, alpha=0.12, linewidth=0, zorder=0)
    axes.axvline(0.0, color="#000000", linewidth=0.7, zorder=1)
    estimates = [effect.estimate for effect in effects]
    draw_verdicts(axes, [effect.shown_estimate for effect in effects])
    column = difference_column(effects[0].metric, "", "", estimates)
    drawing.label_rows(axes, row_labels, [cell_text(estimate, column) for estimate in estimates])
    band = f"; band: within {margin:g}" if margin is not None else ""
    axes.set_xlabel(f"{label} ({interval_name(estimates)}{band}{more})")
    return figure


def draw_verdicts(axes: Any, estimates: Sequence[Estimate]) -> None:
    """Draw estimates by their rows in the look of the verdict; arrows where an interval leaves the axis."""
    low, high = interval_limits(estimates)
    axes.set_xlim(low, high)
    for row, estimate in enumerate(estimates):
        look = look_of(estimate.verdict)
        face = "white" if is_hollow(estimate.verdict) else look.colour
        mark = {"color": look.colour, "marker": look.marker, "markerfacecolor": face, "alpha": 1.0}
        ends = [[estimate.value - estimate.low], [estimate.high - estimate.value]]
        axes.errorbar([estimate.value], [row], xerr=ends, capsize=2, linewidth=1, linestyle="none", zorder=3, **mark)
        for is_outside, end, arrow in ((estimate.low < low, low, "<"), (estimate.high > high, high, ">")):
            if is_outside:
                axes.plot([end], [row], marker=arrow, color=look.colour, alpha=1.0, clip_on=False, zorder=4)


def design_figure(results: Results, kind: str) -> Figure | None:
    """Draw one row an effect of this kind (`analysis.declared.kinds_of`); None where its arms have not run."""
    effects = [replace(effect, comparison=effect.arm) for effect in declared_effects(results) if effect.kind == kind]
    label = f"{kind.replace('-', ' ')}: {metric_name(results)}, {results.metric.unit}"
    return forest_figure(effects, label, results.shown_margin, undeclared_text(results)) if effects else None


def grid_figure(results: Results) -> Figure | None:
    """Draw a heat map of the score over two settings, or None where the arms are no two-way grid."""
    plan, metric = results.experiment.plan, results.metric
    grid = grid_of(plan)
    if grid is None:
        return None
    values = np.full((len(grid.rows), len(grid.columns)), np.nan)
    for (row, column), arm in grid.arms.items():
        values[grid.rows.index(row), grid.columns.index(column)] = metric.scale * results.mean(arm).value
    if np.isnan(values).all():
        return None
    figure, axes = drawing.new_figure(height=max(0.7, 0.2 * len(grid.rows) + 0.35))
    image = axes.imshow(values, cmap="cividis", aspect="auto", origin="lower")
    middle = (np.nanmin(values) + np.nanmax(values)) / 2
    for (i, j), value in np.ndenumerate(values):
        text = "–" if math.isnan(value) else f"{value:.{metric.digits}f}"
        # Not quite white and black, which a dark page exchanges.
        axes.text(j, i, text, ha="center", va="center", color="#fefefe" if value < middle else "#010101")
    axes.set_xticks(range(len(grid.columns)), [setting_label(grid.column_key, value) for value in grid.columns])
    axes.set_yticks(range(len(grid.rows)), [setting_label(grid.row_key, value) for value in grid.rows])
    axes.set(xlabel=key_label(grid.column_key), ylabel=key_label(grid.row_key))
    axes.grid(visible=False)
    figure.colorbar(image, ax=axes, label=drawing.score_label(plan) if metric == plan.score else metric.header)
    return figure

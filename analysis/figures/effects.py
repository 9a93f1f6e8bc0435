"""Figures of effects: the ladder, differences, grids, interactions, and the effects of one experiment against another's."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle

from analysis.colours import VERDICTS, is_hollow, look_of
from analysis.designs import grid_of, key_label, near_best, value_label
from analysis.effects import REFERENCE as REFERENCE_KIND
from analysis.effects import Effect, cell_scores, declared_effects
from analysis.figures import drawing
from analysis.results import Results
from analysis.tables.table import cell_text, number_text
from analysis.tables.words import REFERENCE, difference_column, interval_name, metric_header, metric_name
from harness.statistics.attribution import subset_of
from harness.statistics.intervals import Estimate, mean_interval


def differences_figure(results: Results, *, wide: bool = True) -> Figure | None:
    """Draw one row a comparison, as wide as a page or a column; None where no two arms can be compared."""
    plan, metric = results.experiment.plan, results.metric
    effects = [effect for effect in declared_effects(results) if effect.kind == REFERENCE_KIND]
    known = [effect for effect in effects if not math.isnan(effect.estimate.value)]
    if not known:
        return None
    references = {arm.parent for arm in plan.arms if arm.parent} if plan.design == "arms" else set()
    reference = f"the {REFERENCE[plan.design]}"
    if len(references) == 1:  # one arm of a list is named, and several stand in the rows
        reference = plan.arm(references.pop()).label
    against = {e.arm: f" against {plan.arm(e.reference).label}" if references else "" for e in known}
    rows = [replace(effect, comparison=plan.arm(effect.arm).label + against[effect.arm]) for effect in known]
    in_metric = "" if plan.about_score else f" in {metric_name(results)}"
    return forest_figure(rows, f"difference{in_metric} to {reference}, {metric.unit}", results.shown_margin, wide=wide)


def forest_figure(effects: Sequence[Effect], label: str, margin: float | None, *, wide: bool = True) -> Figure:
    """Draw one row an effect: its interval, the mark of its word, and both as text."""
    names = [f"{effect.group}: {effect.comparison}".removeprefix(": ") for effect in effects]
    shown = [textwrap.fill(name, 30 if wide else 22) for name in names]
    breaks = [name.count("\n") for name in shown]
    rows = len(shown) + 0.6 * (sum(breaks) if max(breaks) < 2 else len(shown) * max(breaks))
    figure, axes = drawing.new_figure(wide=wide, height=0.3 + 0.1 * rows + 0.08 * label.count("\n"))
    if max(breaks) > 1:  # letters are wider where the file is drawn than where the layout measures them
        figure.set_layout_engine("constrained", w_pad=0.11, h_pad=0.04)
    if margin is not None:
        axes.axvspan(-margin, margin, color=VERDICTS["equivalent"].colour, alpha=0.12, linewidth=0, zorder=0)
    axes.axvline(0.0, color="#000000", linewidth=0.7, zorder=1)
    estimates = [effect.estimate for effect in effects]
    draw_verdicts(axes, dict(enumerate(effect.shown for effect in effects)))
    column = difference_column(effects[0].metric, "", "", estimates)
    drawing.label_rows(axes, shown, [cell_text(estimate, column) for estimate in estimates])
    band = f"; band: within {margin:g}" if margin is not None else ""
    axes.set_xlabel(f"{label} ({interval_name(estimates)}{band})")
    return figure


def draw_verdicts(axes: Any, shown: Mapping[float, Estimate]) -> None:
    """Draw estimates by their rows in the look of the verdict; arrows where an interval leaves the axis, faded where seeds are few."""
    low, high = drawing.interval_limits([*shown.values()])
    axes.set_xlim(low, high)
    for row, estimate in shown.items():
        look, faded = look_of(estimate.verdict), 0.45 if estimate.seeds < drawing.FEW_SEEDS else 1.0
        face = "white" if is_hollow(estimate.verdict) else look.colour
        mark = {"color": look.colour, "marker": look.marker, "markerfacecolor": face, "alpha": faded}
        ends = [[estimate.value - estimate.low], [estimate.high - estimate.value]]
        axes.errorbar([estimate.value], [row], xerr=ends, capsize=2, linewidth=1, linestyle="none", zorder=3, **mark)
        for leaves, end, arrow in ((estimate.low < low, low, "<"), (estimate.high > high, high, ">")):
            if leaves:
                axes.plot([end], [row], marker=arrow, color=look.colour, alpha=faded, clip_on=False, zorder=4)


_DODGE = 0.06  # of the distance between two levels, so that whiskers stand beside each other


def interactions_figure(results: Results) -> Figure | None:
    """Draw a panel for every two factors: levels of the one on the axis, a line for each of the other; None without complete cells.

    Parallel lines: no interaction. Whiskers are the 95 % t intervals of the means; what seeds share moves all lines together, so the
    interval of an interaction can be shorter.
    """
    plan, scores = results.experiment.plan, cell_scores(results)
    if plan.design != "factorial" or results.unreached(*plan.arms):
        return None
    pairs = list(itertools.combinations(plan.crossing.factors, 2))
    if not pairs or any(not scores.get(subset_of(cell)) for cell in plan.crossing.cells):
        return None
    columns = min(len(pairs), 3 if len(pairs) <= 9 else 5)
    figure, axes = drawing.new_panels(len(pairs), columns, 0.85, sharey=True)
    for panel, pair in zip(axes.flat, pairs, strict=False):
        _draw(panel, results, *sorted(pair, key=lambda name: -len(plan.crossing.factors[name])))
    for row in axes:
        row[0].set_ylabel(metric_header(results))
    return figure


def _draw(axes: Any, results: Results, across: str, lines: str) -> None:
    factors = results.experiment.plan.crossing.factors
    drawn = drawing.appearances(factors[lines])
    for number, line in enumerate(factors[lines]):
        means = [_mean(results, {across: level, lines: line}) for level in factors[across]]
        value, low, high = results.metric.scale * np.array([(mean.value, mean.low, mean.high) for mean in means]).T
        x = np.arange(len(means)) + _DODGE * (number - (len(factors[lines]) - 1) / 2)
        axes.errorbar(x, value, yerr=[value - low, high - value], capsize=2, label=key_label(line), **drawn[line].pen())
    axes.set_xticks(range(len(factors[across])), [key_label(level) for level in factors[across]])
    axes.set_xlabel(key_label(across))
    place = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0), "alignment": "left"}
    room = {"handlelength": 1.4, "columnspacing": 1.0, "borderpad": 0.2}
    axes.legend(title=key_label(lines), ncols=min(3, len(factors[lines])), **place, **room)


def _mean(results: Results, levels: dict[str, str]) -> Estimate:
    """The mean over the cells with these levels, per seed first, with its t interval over seeds."""
    plan, scores = results.experiment.plan, cell_scores(results)
    named = [dict(zip(plan.crossing.factors, cell, strict=True)) for cell in plan.crossing.cells]
    cells = [scores[subset_of([*cell.values()])] for cell in named if levels.items() <= cell.items()]
    seeds = sorted(set.intersection(*map(set, cells)))
    means = {seed: math.fsum(by_seed[seed] for by_seed in cells) / len(cells) for seed in seeds}
    return mean_interval(plan.replicates(means))


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
    figure, axes = drawing.new_figure(height=max(0.7, 0.2 * len(grid.rows) + 0.35))
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
    if nearest := near_best(results):
        best, near = nearest
        for name in (arm.name for arm in plan.arms if arm.name in (best, *near)):
            y, x = places[name]
            line = {"linewidth": 1.8} if name == best else {"linewidth": 1.2, "linestyle": ":"}
            # Solid around the best cell, dotted around those that are not told apart from it.
            frame = Rectangle((x - 0.46, y - 0.46), 0.92, 0.92, fill=False, edgecolor=VERDICTS["lower"].colour, **line)
            axes.add_patch(frame)
        axes.set_title("frame: best; dotted: not told apart", loc="left")
    figure.colorbar(image, ax=axes, label=drawing.score_label(plan) if metric == plan.score else metric.header)
    return figure


def transfer_figure(here: Results, there: Results) -> Figure | None:
    """Draw the comparisons that both experiments have: those whose two arms have the same labels; None where there are none."""
    ours, theirs = (
        {effect.comparison: effect.shown for effect in declared_effects(results) if effect.kind == REFERENCE_KIND}
        for results in (here, there)
    )
    both = {name: (ours[name], theirs[name]) for name in ours if name in theirs}
    points = {name: pair for name, pair in both.items() if not any(math.isnan(shown.low) for shown in pair)}
    labels = (f"{metric_name(results)}: {results.experiment.plan.title}" for results in (here, there))
    return transfer_plot(points, *labels) if points else None


def transfer_plot(points: Mapping[str, tuple[Estimate, Estimate]], here: str, there: str) -> Figure:
    """Draw one row a comparison: its effect and interval here, below it those there, in the looks of their words."""
    figure, axes = drawing.new_figure(wide=True, height=0.4 + 0.21 * len(points))
    # Letters are wider where the file is drawn than where the layout measures them.
    figure.set_layout_engine("constrained", w_pad=0.16, h_pad=0.04)
    axes.axvline(0.0, color="#000000", linewidth=0.7, zorder=1)
    lines = [(row + 0.36 * side - 0.18, pair[side]) for row, pair in enumerate(points.values()) for side in (0, 1)]
    draw_verdicts(axes, dict(lines))
    words = ["\n".join(f"{number_text(e.value, 1, signed=True)} {e.words()}" for e in pair) for pair in points.values()]
    drawing.label_rows(axes, [textwrap.fill(name, 34) for name in points], words)
    axes.set_xlabel(f"upper line: {here}\nlower line: {there}")
    return figure

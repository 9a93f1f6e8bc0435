"""Interaction plot of a factorial: for every two factors the mean at each pair of their levels, over all settings of the rest."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from analysis.evidence.effects import cell_scores
from analysis.evidence.keys import key_label
from analysis.evidence.results import Results
from analysis.figures.style import appearances, new_figure
from analysis.tables.of_metric import metric_header
from harness.statistics.attribution import subset_of
from harness.statistics.estimate import Estimate
from harness.statistics.intervals import mean_interval

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
    rows = -(-len(pairs) // columns)
    figure, axes = new_figure(
        wide=columns > 1,
        height=0.85 * rows,
        nrows=rows,
        ncols=columns,
        squeeze=False,
        sharey=True,
    )
    for panel, pair in zip(axes.flat, pairs, strict=False):
        _draw(panel, results, *sorted(pair, key=lambda name: -len(plan.crossing.factors[name])))
    for panel in list(axes.flat)[len(pairs) :]:
        panel.set_axis_off()
    for row in axes:
        row[0].set_ylabel(metric_header(results))
    return figure


def _draw(axes: Any, results: Results, across: str, lines: str) -> None:
    factors = results.experiment.plan.crossing.factors
    drawn = appearances(factors[lines])
    for number, line in enumerate(factors[lines]):
        means = [_mean(results, {across: level, lines: line}) for level in factors[across]]
        value, low, high = (
            results.metric.scale * np.array([getattr(mean, end) for mean in means])
            for end in ("value", "low", "high")
        )
        x = np.arange(len(means)) + _DODGE * (number - (len(factors[lines]) - 1) / 2)
        axes.errorbar(
            x, value, yerr=[value - low, high - value], capsize=2, label=key_label(line), **drawn[line].pen()
        )
    axes.set_xticks(range(len(factors[across])), [key_label(level) for level in factors[across]])
    axes.set_xlabel(key_label(across))
    above = {
        "loc": "lower left",
        "bbox_to_anchor": (0.0, 1.0),
        "ncols": min(3, len(factors[lines])),
        "alignment": "left",
    }
    axes.legend(title=key_label(lines), handlelength=1.4, columnspacing=1.0, borderpad=0.2, **above)


def _mean(results: Results, levels: dict[str, str]) -> Estimate:
    """The mean over the cells with these levels, per seed first, with its t interval over seeds."""
    plan, scores = results.experiment.plan, cell_scores(results)
    names = list(plan.crossing.factors)
    cells = [
        scores[subset_of(cell)]
        for cell in plan.crossing.cells
        if all(cell[names.index(name)] == level for name, level in levels.items())
    ]
    seeds = sorted(set.intersection(*map(set, cells)))
    return mean_interval(
        plan.replicates({seed: math.fsum(of[seed] for of in cells) / len(cells) for seed in seeds})
    )

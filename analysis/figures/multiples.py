"""Small multiples: one panel an arm against all others in grey, for experiments whose arms do not fit into one set of axes."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from analysis.evidence.load import Experiment
from analysis.figures.evaluation import accuracy_series
from analysis.figures.style import SEED_ALPHA, looks, new_figure

MANY = 9  # the palette's colours
_COLUMNS = 5


def accuracy_multiples(experiment: Experiment, style: str) -> Figure | None:
    """Evaluation accuracy of every arm against rollout steps; None where the arms fit into one panel or nothing was evaluated.

    Lines are means over seeds, thin lines the seeds; the number is the mean at the last step.
    """
    arms = experiment.plan.arms
    if len(arms) <= MANY or not len(experiment.cells):
        return None
    series = {arm.name: accuracy_series(experiment, arm.name, "step") for arm in arms}
    rows = -(-len(arms) // _COLUMNS)
    figure, axes = new_figure(
        style,
        width=2.0,
        height=0.62 * rows,
        nrows=rows,
        ncols=_COLUMNS,
        squeeze=False,
        sharex=True,
        sharey=True,
    )
    colour = looks([arm.name for arm in arms])
    for panel, arm in zip(axes.flat, arms, strict=False):
        for other in series.values():
            panel.plot(other.x, other.mean, color="#BBBBBB", linewidth=0.5, zorder=1)
        own = series[arm.name]
        for seed in own.seed_y:
            panel.plot(own.x, seed, color=colour[arm.name].colour, alpha=SEED_ALPHA, linewidth=0.6, zorder=2)
        panel.plot(own.x, own.mean, color=colour[arm.name].colour, linewidth=1.4, zorder=3)
        panel.set_title(arm.label, loc="left")
        if len(own) and np.isfinite(own.mean[-1]):
            panel.text(0.97, 0.05, f"{own.mean[-1]:.0f}", transform=panel.transAxes, ha="right", va="bottom")
    for panel in list(axes.flat)[len(arms) :]:
        panel.set_axis_off()
    for column in range(_COLUMNS):
        last = max(row for row in range(rows) if row * _COLUMNS + column < len(arms))
        axes[last][column].tick_params(labelbottom=True)
        axes[last][column].set_xlabel("rollout steps")
    for row in range(rows):
        axes[row][0].set_ylabel("accuracy, %")
    return figure

"""Training curves: every logged quantity against steps, updates, generated tokens and seconds."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from analysis.evidence.load import StoredExperiment
from analysis.figures.drawing import COUNTS, FEW, arm_appearances, draw_series, name_lines, score_label
from analysis.figures.series import AXES, Panel, logged, panel_series
from analysis.figures.style import new_figure
from harness.experiment.plan import PlannedArm

PERCENT = 100.0
FIGURES: dict[str, tuple[Panel, ...]] = {
    "reward": (Panel("reward_mean", "mean reward"),),
    "accuracy": (Panel("accuracy_mean", "training accuracy, %", scale=PERCENT),),
    "entropy": (Panel("entropy_nats", "entropy, nats per token", zero=True),),
    "length": (
        Panel("response_tokens_mean_right", "tokens, right"),
        Panel("response_tokens_mean_wrong", "tokens, wrong"),  # of truncated ones it is the cap
    ),
    "dead-groups": (
        Panel("all_right_groups", "all-right groups, %", per="groups", scale=PERCENT, zero=True),
        Panel("all_wrong_groups", "all-wrong groups, %", per="groups", scale=PERCENT, zero=True),
    ),
    "truncation": (Panel("truncated_fraction", "truncated responses, %", scale=PERCENT, zero=True),),
    "clip-fraction": (
        Panel("clip_fraction_low", "clipped low, % of tokens", scale=PERCENT, zero=True),
        Panel("clip_fraction_high", "clipped high, % of tokens", scale=PERCENT, zero=True),
    ),
    "up-clipped-probability": (
        Panel("up_clipped_old_probability_mean", "old prob. of up-clipped tokens", zero=True),
    ),
    "gradient-norm": (Panel("gradient_norm", "gradient norm, before clipping", zero=True),),
}

# What only one of two graders holds right (docs/evaluation.md): on the held-out problems, and on a share of the rollouts.
GRADERS = (
    Panel("graders_only_first", "verifier only, % of held-out", scale=PERCENT, zero=True, evaluated=True),
    Panel("graders_only_second", "second only, % of held-out", scale=PERCENT, zero=True, evaluated=True),
    Panel("graders_only_first_fraction", "verifier only, % of rollouts", scale=PERCENT, zero=True),
    Panel("graders_only_second_fraction", "second only, % of rollouts", scale=PERCENT, zero=True),
)


def graders_figure(experiment: StoredExperiment) -> Figure | None:
    """Draw over steps what only one of the two graders holds right; None where no sample has a second verdict."""
    return panels_figure(experiment, experiment.plan.arms, GRADERS, "step")


def training_figure(experiment: StoredExperiment, name: str, axis: str) -> Figure | None:
    """Draw one figure of ``FIGURES`` against one of ``series.AXES``; None where no run has logged it."""
    return panels_figure(experiment, experiment.plan.arms, FIGURES[name], axis)


def overview_figure(experiment: StoredExperiment, axis: str) -> Figure | None:
    """Draw all panels of ``FIGURES`` in one figure against one axis; None where nothing is logged."""
    panels = [panel for group in FIGURES.values() for panel in group]
    return panels_figure(experiment, experiment.plan.arms, panels, axis)


def panels_figure(
    experiment: StoredExperiment,
    arms: Sequence[PlannedArm],
    wanted: Sequence[Panel],
    axis: str,
) -> Figure | None:
    """Draw the panels that some run has logged, at most three in a row; the x axis is named below the last of each column.

    Of more than ``FEW`` arms means only: bands and seeds would hide each other.
    """
    panels = [panel for panel in wanted if logged(experiment, panel)]
    if not panels or not arms:
        return None
    columns = 2 if len(panels) == 4 else min(len(panels), 3)
    rows, few = -(-len(panels) // columns), len(arms) <= FEW
    figure, axes = new_figure(
        wide=columns > 1,
        height=1.0 if rows == 1 else 0.75 * rows,
        nrows=rows,
        ncols=columns,
        squeeze=False,
        sharex=True,
    )
    for index, axes_ in enumerate(axes.flat):
        if index >= len(panels):
            axes_.set_axis_off()
            continue
        _draw_panel(axes_, experiment, arms, panels[index], axis, spread=few)
        if index + columns >= len(panels):
            axes_.tick_params(labelbottom=True)
            axes_.set_xlabel("generated tokens" if axis == "tokens" and columns > 1 else AXES[axis])
    last = axes[0][-1] if rows == 1 else None
    name_lines(figure, experiment, [arm.name for arm in arms], ends=last, spread=few)
    return figure


def _draw_panel(
    axes: Any, experiment: StoredExperiment, arms: Sequence[PlannedArm], panel: Panel, axis: str, spread: bool
) -> None:
    """Draw mean, 95 % t band and thin raw seeds of every arm; the seeds set the range, not the bands of few of them."""
    appearance = arm_appearances(experiment)
    drawn: list[Any] = [np.empty(0)]
    for arm in arms:
        series = panel_series(experiment, arm.name, panel, axis)
        draw_series(axes, series, appearance[arm.name], label=arm.label, spread=spread)
        drawn.append((series.seed_y if spread or series.collapsed else series.mean).ravel())
    axes.set_ylabel(panel.label or score_label(experiment.plan))
    axes.margins(x=0.01)
    values = np.concatenate(drawn)
    values = values[np.isfinite(values)]
    if len(values):
        low, high = float(values.min()), float(values.max())
        pad = 0.08 * (high - low) or 0.05 * abs(high) or 1.0
        axes.set_ylim(low - pad, high + pad)
    low, high = axes.get_ylim()
    if panel.zero and low < 0.35 * high:
        axes.set_ylim(bottom=0)
    axes.xaxis.set_major_formatter(COUNTS)

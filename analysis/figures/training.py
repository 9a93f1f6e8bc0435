"""Training curves: every logged quantity against steps, updates, generated tokens and seconds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter

from analysis.evidence.load import StoredExperiment
from analysis.figures.series import AXES, Series, training_series
from analysis.figures.style import BAND_ALPHA, SEED_ALPHA, Look, legend_below, looks, new_figure


@dataclass(frozen=True)
class Panel:
    """One axes of a figure: a column of the step metrics, its label, and ``per``, a column to divide by."""

    column: str
    label: str
    per: str | None = None
    scale: float = 1.0
    zero: bool = False


FEW = 3  # arms whose bands can be told apart in one set of axes
PERCENT = 100.0
COUNTS = EngFormatter(sep="")  # 200k, not 2 x 10^5: no second font to embed
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


def training_figure(experiment: StoredExperiment, name: str, axis: str, style: str) -> Figure | None:
    """One figure of ``FIGURES`` against one of ``series.AXES``; None where no run has logged it."""
    panels = [panel for panel in FIGURES[name] if logged(experiment, panel)]
    if not panels:
        return None
    figure, axes = new_figure(style, width=_width(len(panels)), ncols=len(panels), squeeze=False, sharex=True)
    for axes_, panel in zip(axes[0], panels, strict=True):
        draw_panel(axes_, experiment, panel, axis)
        axes_.set_xlabel(_axis_label(axis, len(panels)))
    arm_legend(figure, experiment, spread=few_arms(experiment))
    return figure


def overview_figure(experiment: StoredExperiment, axis: str, style: str) -> Figure | None:
    """All panels of ``FIGURES`` in one figure against one axis; None where nothing is logged."""
    panels = [panel for group in FIGURES.values() for panel in group if logged(experiment, panel)]
    if not panels:
        return None
    rows = -(-len(panels) // 3)
    figure, axes = new_figure(
        style, width=2.0, height=0.75 * rows, nrows=rows, ncols=3, squeeze=False, sharex=True
    )
    for index, axes_ in enumerate(axes.flat):
        if index >= len(panels):
            axes_.set_axis_off()
            continue
        draw_panel(axes_, experiment, panels[index], axis)
        if index + 3 >= len(panels):
            axes_.tick_params(labelbottom=True)
            axes_.set_xlabel(_axis_label(axis, 3))
    arm_legend(figure, experiment, spread=few_arms(experiment))
    return figure


def draw_panel(axes: Any, experiment: StoredExperiment, panel: Panel, axis: str) -> None:
    """Mean, 95 % t band and thin raw seeds of every arm; the seeds set the range, not the bands of few of them.

    Of more than `FEW` arms means only: bands and seeds would hide each other.
    """
    drawn: list[Any] = []
    few = few_arms(experiment)
    looked = looks([arm.name for arm in experiment.plan.arms])
    for arm in experiment.plan.arms:
        series = panel_series(experiment, arm.name, panel, axis)
        draw_series(axes, series, looked[arm.name], spread=few)
        values = series.seed_y if few else series.mean
        drawn.append(values[np.isfinite(values)])
    axes.set_ylabel(panel.label)
    axes.margins(x=0.01)
    _limit_to_seeds(axes, np.concatenate(drawn) if drawn else np.empty(0))
    low, high = axes.get_ylim()
    if panel.zero and low < 0.35 * high:
        axes.set_ylim(bottom=0)
    axes.xaxis.set_major_formatter(COUNTS)


def _limit_to_seeds(axes: Any, values: Any) -> None:
    if not len(values):
        return
    low, high = float(values.min()), float(values.max())
    pad = 0.08 * (high - low) or 0.05 * abs(high) or 1.0
    axes.set_ylim(low - pad, high + pad)


def panel_series(experiment: StoredExperiment, arm: str, panel: Panel, axis: str) -> Series:
    """The scaled data behind one line of a panel, averaged over about 4 % of the run."""
    runs = experiment.curves[arm]
    longest = max((len(run["step"]) for run in runs), default=0)
    series = training_series(runs, panel.column, axis, per=panel.per, smooth=max(1, longest // 25))
    return series.scaled(panel.scale)


def draw_series(axes: Any, series: Series, look: Look, *, marked: bool = False, spread: bool = True) -> None:
    """Thin seeds below, then the band, then the mean; without ``spread`` the mean alone."""
    colour = look.colour
    lines = [np.column_stack([series.x, seed]) for seed in series.seed_y] if spread else []
    axes.add_collection(LineCollection(lines, colors=colour, alpha=SEED_ALPHA, linewidths=0.5, zorder=1))
    band = np.isfinite(series.low)
    if spread and band.any():
        axes.fill_between(
            series.x[band], series.low[band], series.high[band], color=colour, alpha=BAND_ALPHA, linewidth=0
        )
    marker = look.marker if marked else None
    axes.plot(series.x, series.mean, color=colour, linestyle=look.line, marker=marker, zorder=3)


def arm_legend(
    figure: Figure,
    experiment: StoredExperiment,
    names: Sequence[str] | None = None,
    *,
    marked: bool = False,
    spread: bool = False,
) -> None:
    """The arms below the axes, in the order of the plan, with their markers where those are drawn.

    ``spread``: bands and thin lines are drawn, and the legend says what they are.
    """
    looked = looks([arm.name for arm in experiment.plan.arms])
    arms = [arm for arm in experiment.plan.arms if names is None or arm.name in names]
    handles: list[Any] = [
        Line2D(
            [],
            [],
            color=looked[arm.name].colour,
            linestyle=looked[arm.name].line,
            marker=looked[arm.name].marker if marked else None,
        )
        for arm in arms
    ]
    labels = [arm.label for arm in arms]
    if spread:
        handles += [Patch(color="#000000", alpha=BAND_ALPHA, linewidth=0)]
        handles += [Line2D([], [], color="#000000", alpha=SEED_ALPHA, linewidth=0.8)]
        labels += ["95 % t interval over seeds", "one seed"]
    legend_below(figure, handles, labels)


def few_arms(experiment: StoredExperiment) -> bool:
    """Whether bands and seeds of all arms can be told apart in one set of axes."""
    return len(experiment.plan.arms) <= FEW


def logged(experiment: StoredExperiment, panel: Panel) -> bool:
    """Whether any run has a value in the column of this panel."""
    return panel.column in experiment.steps and bool(experiment.steps[panel.column].notna().any())


def _width(panels: int) -> float:
    return {1: 1.0, 2: 1.6}.get(panels, 2.0)


def _axis_label(axis: str, panels: int) -> str:
    return "generated tokens" if axis == "tokens" and panels > 1 else AXES[axis]

"""Parts that figures share: curves with their bands and seeds, intervals in rows, legends of arms."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from matplotlib.ticker import EngFormatter
from numpy.typing import ArrayLike

from analysis.evidence.load import StoredExperiment
from analysis.evidence.stored_plan import StoredPlan
from analysis.figures.series import Series
from analysis.figures.style import (
    BAND_ALPHA,
    SEED_ALPHA,
    WHISKER_ALPHA,
    Appearance,
    appearances,
    legend_below,
)
from harness.statistics.estimate import Estimate

FEW = 3  # arms whose bands can be told apart in one set of axes
COUNTS = EngFormatter(sep="")  # 200k, not 2 x 10^5: no second font to embed


def score_label(plan: StoredPlan) -> str:
    """Name the score on an axis: ``accuracy, %, cap 32`` or the name that a foreign trainer gave it."""
    return f"{score_name(plan)}{cap_label(plan)}"


def score_name(plan: StoredPlan) -> str:
    """Name the score and its unit: ``accuracy, %``."""
    name = "accuracy" if plan.score.name == "avg" else plan.score.name
    return f"{name}{',' if plan.score.percent else ''}{plan.score.percent}"


def cap_label(plan: StoredPlan) -> str:
    """Name the response cap: ``, cap 32``, or nothing where nobody recorded it."""
    return plan.cap_text.removesuffix(" tokens")


def few_arms(experiment: StoredExperiment) -> bool:
    """Tell whether bands and seeds of all arms can be told apart in one set of axes."""
    return len(experiment.plan.arms) <= FEW


def arm_appearances(experiment: StoredExperiment) -> dict[str, Appearance]:
    """Return the appearance of each arm by its name."""
    return appearances([arm.name for arm in experiment.plan.arms])


def draw_series(
    axes: Any, series: Series, appearance: Appearance, *, marked: bool = False, spread: bool = True
) -> None:
    """Draw thin seeds below, then the band, then the mean; without ``spread`` the mean alone."""
    colour = appearance.colour
    if spread:
        lines = [np.column_stack([series.x, seed]) for seed in series.seed_y]
        axes.add_collection(LineCollection(lines, colors=colour, alpha=SEED_ALPHA, linewidths=0.5, zorder=1))
        draw_band(axes, series.x, series.low, series.high, colour)
    axes.plot(series.x, series.mean, **appearance.pen(marked=marked), zorder=3)


def draw_band(axes: Any, x: ArrayLike, low: ArrayLike, high: ArrayLike, colour: str) -> None:
    """Draw a band over neighbouring points that have an interval, a whisker for a point that has one alone (NaN: none)."""
    x, low, high = (np.asarray(values, dtype=np.float64) for values in (x, low, high))
    there = np.isfinite(low)
    beside = np.zeros(len(there), dtype=bool)
    beside[1:] |= there[:-1]
    beside[:-1] |= there[1:]
    if (there & beside).any():
        axes.fill_between(x, low, high, where=there & beside, color=colour, alpha=BAND_ALPHA, linewidth=0)
    for i in np.flatnonzero(there & ~beside).tolist():
        axes.vlines(x[i], low[i], high[i], color=colour, alpha=WHISKER_ALPHA, linewidth=1)


def draw_interval(axes: Any, y: float, estimate: Estimate, scale: float, **marks: Any) -> None:
    """Draw an estimate in row ``y``: a marker, and whiskers where it has an interval."""
    ends = np.array([[estimate.value - estimate.low], [estimate.high - estimate.value]])
    spread = None if math.isnan(estimate.low) else scale * ends
    axes.errorbar([scale * estimate.value], [y], xerr=spread, capsize=2, linewidth=1, **marks)


def label_rows(axes: Any, labels: Sequence[str], numbers: Sequence[str]) -> None:
    """Name the rows on the left from top to bottom, and write their numbers on the right."""
    right = axes.secondary_yaxis("right")
    right.set_yticks(range(len(numbers)), numbers)
    right.tick_params(length=0)
    right.spines["right"].set_visible(False)
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(len(labels) - 0.4, -0.6)
    axes.grid(axis="y", visible=False)


def k_axis(axes: Any, ks: Iterable[float], title: str) -> None:
    """Make the x axis one of k in powers of two, with a tick at each of ``ks``."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(list(ks), [f"{k:.0f}" for k in ks])
    axes.minorticks_off()
    axes.set_xlabel("k")
    axes.set_title(title, loc="left")


def arm_legend(
    figure: Figure,
    experiment: StoredExperiment,
    names: Sequence[str] | None = None,
    *,
    marked: bool = False,
    spread: bool = False,
    first: Sequence[Line2D] = (),
) -> None:
    """Draw the legend of the arms below the axes (``names``, by default all), in the order of the plan.

    ``marked``: with markers; ``spread``: with what bands and thin lines are; ``first``: labelled lines before the arms.
    """
    drawn = arm_appearances(experiment)
    arms = [arm for arm in experiment.plan.arms if names is None or arm.name in names]
    handles: list[Any] = [*first, *(Line2D([], [], **drawn[arm.name].pen(marked=marked)) for arm in arms)]
    labels = [*(str(line.get_label()) for line in first), *(arm.label for arm in arms)]
    if spread:
        handles += [Patch(color="#000000", alpha=BAND_ALPHA, linewidth=0)]
        handles += [Line2D([], [], color="#000000", alpha=SEED_ALPHA, linewidth=0.8)]
        labels += ["95 % t interval over seeds", "one seed"]
    legend_below(figure, handles, labels)

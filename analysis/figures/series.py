"""Curves over training: per-seed series on a common axis, their mean and 95 % t band."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import special

from analysis.figures.style import BAND_ALPHA, WHISKER_ALPHA

Floats = NDArray[np.float64]

AXES = {
    "step": "rollout steps",
    "updates": "optimiser updates",
    "tokens": "generated tokens (discarded included)",
    "seconds": "seconds",
}


@dataclass(frozen=True)
class Series:
    """One quantity of one arm: ``seed_y`` [seeds, points] with NaN outside a seed's range, mean and band.

    The band is NaN where fewer than two seeds are left.
    """

    x: Floats
    seed_y: Floats
    mean: Floats
    low: Floats
    high: Floats

    def __len__(self) -> int:
        return len(self.x)

    def scaled(self, factor: float) -> Series:
        """The same series in other units of y."""
        return Series(self.x, self.seed_y * factor, self.mean * factor, self.low * factor, self.high * factor)


def training_series(
    runs: list[dict[str, Floats]], column: str, axis: str, *, per: str | None = None, smooth: int = 1
) -> Series:
    """A column of the training metrics of one arm against ``axis``.

    Seeds share the steps; tokens and seconds differ from seed to seed, so those are interpolated linearly on
    a common grid over the range that a seed has.

    Args:
        runs: ``StoredExperiment.curves`` of the arm.
        column: metric to draw.
        axis: key of ``AXES``.
        per: metric to divide by.
        smooth: steps to average over (centred).
    """
    curves = []
    for run in runs:
        y = run[column] / run[per] if per else run[column]
        curves.append((axis_values(run, axis), centred_mean(y, smooth)))
    return combine(curves, exact=axis in ("step", "updates"))


def axis_values(run: dict[str, Floats], axis: str) -> Floats:
    """The x values of one run."""
    if axis == "tokens":
        return run["generated_tokens_total"]
    if axis == "seconds":
        return np.cumsum(np.nan_to_num(run["seconds_total"]))
    return run[axis]


def combine(curves: list[tuple[Floats, Floats]], *, exact: bool, points: int = 101) -> Series:
    """Curves of several seeds on one grid: the union of their x where ``exact``, else equally spaced.

    Interpolated curves have a mean and a band only where every seed reaches.
    """
    curves = [(x[np.isfinite(x)], y[np.isfinite(x)]) for x, y in curves if np.isfinite(x).any()]
    if not curves:
        empty = np.empty(0)
        return Series(empty, np.empty((0, 0)), empty, empty, empty)
    if exact:
        grid = np.unique(np.concatenate([x for x, _ in curves]))
        seed_y = np.full((len(curves), len(grid)), np.nan)
        for row, (x, y) in zip(seed_y, curves, strict=True):
            row[np.searchsorted(grid, x)] = y
    else:
        grid = np.linspace(min(x[0] for x, _ in curves), max(x[-1] for x, _ in curves), points)
        seed_y = np.array([_interpolate(grid, x, y) for x, y in curves])
        # A mean that loses seeds on its way jumps, and the band of the last two is all that one would see.
        whole = np.isfinite(seed_y).all(axis=0)
        return Series(grid, seed_y, *(np.where(whole, part, np.nan) for part in mean_band(seed_y)))
    return Series(grid, seed_y, *mean_band(seed_y))


def mean_band(seed_y: Floats, level: float = 0.95) -> tuple[Floats, Floats, Floats]:
    """Mean over seeds and its t interval at every point; NaN where the data does not reach."""
    there = np.isfinite(seed_y)
    count = there.sum(axis=0)
    filled = np.where(there, seed_y, 0.0)
    mean = np.divide(filled.sum(axis=0), count, out=np.full(seed_y.shape[1], np.nan), where=count > 0)
    squares = (np.where(there, seed_y - np.where(count > 0, mean, 0.0), 0.0) ** 2).sum(axis=0)
    error = np.sqrt(np.divide(squares, (count - 1) * count, out=np.full(len(count), np.nan), where=count > 1))
    quantile = {n: float(special.stdtrit(n - 1, 0.5 + level / 2)) for n in set(count.tolist()) if n > 1}
    half: Floats = error * np.array([quantile.get(n, np.nan) for n in count.tolist()])
    return mean, mean - half, mean + half


def draw_band(
    axes: Any, x: Sequence[float], low: Sequence[float], high: Sequence[float], colour: str
) -> None:
    """A band over neighbouring points that have an interval, a whisker for a point that has one alone (NaN: none)."""
    there = np.isfinite(np.asarray(low, dtype=np.float64))
    beside = np.zeros(len(there), dtype=bool)
    beside[1:] |= there[:-1]
    beside[:-1] |= there[1:]
    axes.fill_between(x, low, high, where=there & beside, color=colour, alpha=BAND_ALPHA, linewidth=0)
    for i in np.flatnonzero(there & ~beside).tolist():
        axes.vlines(x[i], low[i], high[i], color=colour, alpha=WHISKER_ALPHA, linewidth=1)


def centred_mean(y: Floats, window: int) -> Floats:
    """Running mean over ``window`` points, shorter at the ends, missing values left out."""
    if window <= 1:
        return y
    there = np.isfinite(y)
    kernel = np.ones(window)
    # `mode="same"` would return as many points as the longer of the two has.
    middle = slice((window - 1) // 2, (window - 1) // 2 + len(y))
    total = np.convolve(np.where(there, y, 0.0), kernel)[middle]
    count = np.convolve(there.astype(np.float64), kernel)[middle]
    mean: Floats = np.divide(total, count, out=np.full(len(y), np.nan), where=count > 0.5)
    return mean


def _interpolate(grid: Floats, x: Floats, y: Floats) -> Floats:
    keep = np.isfinite(y)
    if not keep.any():
        return np.full(len(grid), np.nan)
    y_grid: Floats = np.interp(grid, x[keep], y[keep], left=np.nan, right=np.nan)
    return y_grid

"""Data of the figures: curves of several seeds on a common axis, their mean and 95 % t band."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.evidence.load import StoredExperiment
from analysis.evidence.metrics import total_at
from analysis.evidence.results import Results
from harness.statistics.intervals import t_band

Floats = NDArray[np.float64]

AXES = {
    "step": "rollout steps",
    "updates": "optimiser updates",
    "tokens": "generated tokens (discarded included)",
    "seconds": "seconds",
}
_TOTALS = {"updates": "updates", "tokens": "generated_tokens_total"}


@dataclass(frozen=True)
class Panel:
    """One quantity to draw: a column of the step metrics (``evaluated``: of the evaluations), its label, ``per``: a column to divide by.

    Without a label it is the score, with the score's own name and scale.

    ``zero``: the axis begins at zero where the data come near it.
    """

    column: str
    label: str
    per: str | None = None
    scale: float = 1.0
    zero: bool = False
    evaluated: bool = False


@dataclass(frozen=True)
class Series:
    """One quantity of one arm: ``seed_y`` [seeds, points] with NaN outside a seed's range, mean and band.

    The band is NaN where fewer than two seeds are left. ``collapsed``: a seed of the arm collapsed, so that single seeds tell more.
    """

    x: Floats
    seed_y: Floats
    mean: Floats
    low: Floats
    high: Floats
    collapsed: bool = False

    @classmethod
    def of(cls, x: Floats, seed_y: Floats) -> Series:
        """Make the series of these seeds, with their mean and band."""
        mean, half = t_band(seed_y, axis=0)
        return cls(x, seed_y, mean, mean - half, mean + half)

    def __len__(self) -> int:
        return len(self.x)


EMPTY = Series(*(np.empty(0), np.empty((0, 0)), np.empty(0), np.empty(0), np.empty(0)))


def logged(experiment: StoredExperiment, panel: Panel) -> bool:
    """Tell whether any run has a value in the column of this panel."""
    frame = experiment.cells if panel.evaluated else experiment.steps
    return panel.column in frame and bool(frame[panel.column].notna().any())


def panel_series(experiment: StoredExperiment, arm: str, panel: Panel, axis: str) -> Series:
    """Make the line of one arm in a panel against a key of ``AXES``; logged columns are averaged over about 4 % of the run.

    Seeds share the steps; tokens and seconds differ from seed to seed, so those are interpolated linearly on
    a common grid over the range that a seed has.
    """
    if panel.evaluated:
        scale = panel.scale if panel.label else None
        return accuracy_series(experiment, arm, axis, panel.column, scale=scale)
    runs = experiment.curves[arm]
    window = max(1, max((len(run["step"]) for run in runs), default=0) // 25)
    curves = []
    for run in runs:
        y = run[panel.column] / run[panel.per] if panel.per else run[panel.column]
        curves.append((_training_axis(run, axis), panel.scale * centred_mean(y, window)))
    found = combine(curves, exact=axis in ("step", "updates"))
    return replace(found, collapsed=has_collapsed(experiment, arm))


def accuracy_series(
    experiment: StoredExperiment, arm: str, axis: str, metric: str = "avg", *, scale: float | None = None
) -> Series:
    """Make the evaluation score as shown (accuracy in %) of one arm at the primary cap against ``step``, ``updates`` or ``tokens``.

    ``metric`` is a column of the cells; ``scale`` is that of scores where not given.
    """
    plan, curves = experiment.plan, []
    runs = {key[0]: run for key, run in experiment.evaluations.items() if key[1:] == (arm, plan.primary_cap)}
    for run_id in sorted(runs):
        run = runs[run_id].sort_values("step")
        wanted, steps = run["step"].tolist(), experiment.steps[experiment.steps["run_id"] == run_id]
        x = np.array(wanted, dtype=np.float64) if axis == "step" else total_at(steps, _TOTALS[axis], wanted)
        y = run[metric].to_numpy(dtype=np.float64)
        curves.append((x, (plan.score.scale if scale is None else scale) * y))
    return replace(
        combine(curves, exact=axis != "tokens", points=41), collapsed=has_collapsed(experiment, arm)
    )


def has_collapsed(experiment: StoredExperiment, arm: str) -> bool:
    """Tell whether a seed of the arm collapsed."""
    return any(name == arm for name, _ in experiment.collapsed)


def k_curves(results: Results, arm_name: str | None) -> dict[str, Series]:
    """Make ``pass`` and ``maj`` (in %) against k at the checkpoint of an arm, or before RL for None; empty without evaluations."""
    frame = results.before if arm_name is None else results.per_seed
    if not len(frame):
        return {}
    rows = frame[frame["cap"] == results.experiment.plan.primary_cap]
    rows = rows if arm_name is None else rows[rows["arm"] == arm_name]
    known = [str(name) for name in rows.dropna(axis="columns", how="all")]
    curves = {}
    for kind in ("pass", "maj"):
        ks = sorted(int(name.partition("@")[2]) for name in known if re.fullmatch(rf"{kind}@\d+", name))
        scores = rows[[f"{kind}@{k}" for k in ks]].to_numpy(dtype=np.float64)
        curves[kind] = Series.of(np.array(ks, dtype=np.float64), 100 * scores)
    return curves


def _training_axis(run: dict[str, Floats], axis: str) -> Floats:
    if axis == "tokens":
        return run["generated_tokens_total"]
    if axis == "seconds":
        return np.cumsum(np.nan_to_num(run["seconds_total"]))
    return run[axis]


def combine(curves: Sequence[tuple[Floats, Floats]], *, exact: bool, points: int = 101) -> Series:
    """Put curves of several seeds on one grid: the union of their x where ``exact``, else equally spaced.

    Interpolated curves have a mean and a band only where every seed reaches.
    """
    curves = [(x[np.isfinite(x)], y[np.isfinite(x)]) for x, y in curves if np.isfinite(x).any()]
    if not curves:
        return EMPTY
    if exact:
        lines = [pd.Series(y, index=x) for x, y in curves]
        # Steps without an update share their number of updates: the last of them counts.
        lines = [line[~line.index.duplicated(keep="last")] for line in lines]
        frame = pd.concat(lines, axis="columns", sort=True)
        return Series.of(frame.index.to_numpy(dtype=np.float64), frame.to_numpy().T)
    grid = np.linspace(min(x[0] for x, _ in curves), max(x[-1] for x, _ in curves), points)
    seed_y = np.array([_interpolate(grid, x, y) for x, y in curves])
    # A mean that loses seeds on its way jumps, and the band of the last two is all that one would see.
    whole = np.isfinite(seed_y).all(axis=0)
    mean, half = (np.where(whole, part, np.nan) for part in t_band(seed_y, axis=0))
    return Series(grid, seed_y, mean, mean - half, mean + half)


def centred_mean(y: Floats, window: int) -> Floats:
    """Compute the running mean over ``window`` points, shorter at the ends, missing values left out."""
    return pd.Series(y).rolling(window, center=True, min_periods=1).mean().to_numpy(dtype=np.float64)


def _interpolate(grid: Floats, x: Floats, y: Floats) -> Floats:
    keep = np.isfinite(y)
    if not keep.any():
        return np.full(len(grid), np.nan)
    y_grid: Floats = np.interp(grid, x[keep], y[keep], left=np.nan, right=np.nan)
    return y_grid

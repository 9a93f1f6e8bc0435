"""Hierarchical bootstrap over seeds and problems, for metrics without a t form, and its interval.

The cell values (one per arm, seed and problem) are already unbiased for nonlinear metrics such as Pass@k and
Maj@k, so samples within a cell are not resampled again: their noise is in the spread between seeds.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from analysis.statistics.estimate import Estimate

Floats = NDArray[np.float64]


def hierarchical_bootstrap(
    values_ASP: ArrayLike,
    *,
    draws: int = 10_000,
    seed: int = 0,
    resample_problems: bool = True,
    paired: bool = True,
) -> Floats:
    """Replicates of the mean of each arm, float64[draws, arms].

    Problems are resampled jointly for all arms (they share the benchmark); seeds jointly when ``paired``, per
    arm otherwise. A difference of two arms is the difference of two columns.
    """
    values = np.asarray(values_ASP, dtype=np.float64)
    arms, seeds, problems = values.shape
    rng = np.random.default_rng(seed)
    shared = _weights(rng, draws, seeds) if paired else None
    problem_BP = _weights(rng, draws, problems) if resample_problems else None
    replicates = np.empty((draws, arms))
    for arm in range(arms):
        seed_BS = _weights(rng, draws, seeds) if shared is None else shared
        if problem_BP is None:
            replicates[:, arm] = seed_BS @ values[arm].mean(axis=1)
        else:
            by_seed_BS = problem_BP @ values[arm].T
            replicates[:, arm] = np.einsum("bs,bs->b", by_seed_BS, seed_BS)
    return replicates


def seed_bootstrap(
    scores_S: ArrayLike,
    statistic: Callable[[Floats], Floats],
    *,
    draws: int = 10_000,
    seed: int = 0,
    level: float = 0.95,
) -> Estimate:
    """Interval of a nonlinear statistic of per-seed scores; ``statistic`` reduces the last axis."""
    scores = np.asarray(scores_S, dtype=np.float64)
    picks = np.random.default_rng(seed).integers(len(scores), size=(draws, len(scores)))
    value = float(statistic(scores))
    return bootstrap_interval(statistic(scores[picks]), value, seeds=len(scores), level=level)


def bootstrap_interval(replicates_B: Floats, value: float, *, seeds: int, level: float = 0.95) -> Estimate:
    """Value +- t_{S-1} x bootstrap standard error x sqrt(S / (S - 1)).

    The percentile interval of a bootstrap over three seeds covers 80-90 %; this small-sample form is exactly
    Student's t for a mean over seeds.
    """
    if seeds < 2:
        return Estimate(value, seeds=seeds, level=level, method="single training seed")
    error = float(replicates_B.std()) * math.sqrt(seeds / (seeds - 1))
    half = float(special.stdtrit(seeds - 1, 0.5 + level / 2)) * error
    p = 2 * float(special.stdtr(seeds - 1, -abs(value) / error)) if error > 0 else math.nan
    return Estimate(
        value,
        value - half,
        value + half,
        seeds=seeds,
        p_value=p,
        standard_error=error,
        degrees=seeds - 1,
        level=level,
        method="hierarchical bootstrap, t quantile",
    )


def _weights(rng: np.random.Generator, draws: int, units: int) -> Floats:
    """Multinomial resampling weights that sum to one per draw, float64[draws, units]."""
    picks = rng.integers(units, size=(draws, units), dtype=np.int64)
    picks += np.arange(draws, dtype=np.int64)[:, None] * units
    counts = np.bincount(picks.ravel(), minlength=draws * units)
    return counts.reshape(draws, units) / units

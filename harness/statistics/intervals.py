"""Intervals and tests over training seeds, the unit of replication, and over the problems of one evaluation.

Scores are reduced to one number per seed first; intervals are Student's t over those numbers. Two estimands:
the *fixed benchmark* (problems fixed, seeds random; the default) and the *problem population* (both random,
:func:`two_way_difference`). With one seed nothing can be resolved, and every function says so with NaN.
`scipy.stats` has most of this; `scipy.special`, which it is made of, takes half a second less to load.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from harness.statistics.estimate import MISSING, Estimate

Floats = NDArray[np.float64]


def mean_interval(scores_S: ArrayLike, level: float = 0.95) -> Estimate:
    """Mean over seeds with Student's t interval. One seed, or seeds that are all equal: the value alone."""
    scores = _finite(scores_S)
    if not len(scores):
        return MISSING
    if len(scores) == 1:
        return Estimate(float(scores[0]), seeds=1, level=level, method="single training seed")
    error = float(scores.std(ddof=1) / math.sqrt(len(scores)))
    return _t_estimate(float(scores.mean()), error, len(scores) - 1, len(scores), level, "t over seeds")


def t_band(values: Floats, level: float = 0.95, axis: int = -1) -> tuple[Floats, Floats]:
    """Means along an axis and the half widths of their t intervals; NaN values are left out, fewer than two give a half width of NaN."""
    count = np.isfinite(values).sum(axis=axis)
    known, enough = np.where(count > 0, count, np.nan), np.where(count > 1, count, np.nan)
    mean = np.nansum(values, axis=axis) / known
    squares = np.nansum((values - np.expand_dims(mean, axis)) ** 2, axis=axis)
    half = special.stdtrit(enough - 1, 0.5 + level / 2) * np.sqrt(squares / (enough - 1) / enough)
    return mean, half


def welch_band(a: Floats, b: Floats, level: float, axis: int = -1) -> tuple[Floats, Floats]:
    """Differences of means along an axis and the half widths of Welch's t intervals; all values are finite."""
    parts = np.stack([one.var(axis=axis, ddof=1) / one.shape[axis] for one in (a, b)])
    degrees = _satterthwaite(parts, [one.shape[axis] - 1 for one in (a, b)])
    half = special.stdtrit(degrees, 0.5 + level / 2) * np.sqrt(parts.sum(axis=0))
    return a.mean(axis=axis) - b.mean(axis=axis), half


def paired_difference(a_S: ArrayLike, b_S: ArrayLike, level: float = 0.95) -> Estimate:
    """Mean of a - b over seeds run in both arms (same order), Student's t on the differences."""
    difference = np.asarray(a_S, dtype=np.float64) - np.asarray(b_S, dtype=np.float64)
    plain = mean_interval(difference, level)
    return _tested(plain, "paired t over seeds") if plain.seeds > 1 else plain


def welch_difference(a_S: ArrayLike, b_S: ArrayLike, level: float = 0.95) -> Estimate:
    """Mean of a minus mean of b for independent seeds: Welch's t, Satterthwaite degrees of freedom."""
    a, b = _finite(a_S), _finite(b_S)
    if not len(a) or not len(b):
        return MISSING
    value, seeds = float(a.mean() - b.mean()), min(len(a), len(b))
    if seeds < 2:
        return Estimate(value, seeds=seeds, level=level, method="single training seed")
    parts = np.array([a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)])
    degrees = float(_satterthwaite(parts, [len(a) - 1, len(b) - 1]))
    plain = _t_estimate(value, math.sqrt(parts.sum()), degrees, seeds, level, "Welch t over seeds")
    return _tested(plain, plain.method)


def two_way_difference(
    a_SP: ArrayLike, b_SP: ArrayLike, *, paired: bool = True, level: float = 0.95
) -> Estimate:
    """Difference for new seeds *and* new problems: V = V_seed + (V_problem - V_cell), a t quantile for each.

    Args:
        a_SP: scores per seed and problem; both arms share the problems (same order).
        b_SP: the other arm.
        paired: whether row s of both arms is the same seed; else the seeds are independent.
        level: confidence level.
    """
    a, b = np.asarray(a_SP, dtype=np.float64), np.asarray(b_SP, dtype=np.float64)
    groups = [a - b] if paired else [a, b]
    value, seeds = float(a.mean() - b.mean()), min(len(a), len(b))
    if seeds < 2:
        return Estimate(value, seeds=seeds, level=level, method="single training seed")
    problems = a.shape[1]
    seed_parts = np.array([g.mean(axis=1).var(ddof=1) / len(g) for g in groups])
    seed_degrees = float(_satterthwaite(seed_parts, [len(g) - 1 for g in groups]))
    problem_part = float((a.mean(axis=0) - b.mean(axis=0)).var(ddof=1) / problems)
    problem_part = max(0.0, problem_part - sum(_cell_variance(g) / g.size for g in groups))

    def half_width(alpha: float) -> float:
        # Each part with its own quantile. One blended number of degrees (Satterthwaite) lets three seeds that
        # happen to agree borrow the problems' degrees: 8-10 % false positives instead of 5.
        quantiles = -special.stdtrit([seed_degrees, problems - 1], alpha / 2)
        return math.sqrt(float(quantiles[0] ** 2 * seed_parts.sum() + quantiles[1] ** 2 * problem_part))

    half, error = half_width(1 - level), math.sqrt(float(seed_parts.sum()) + problem_part)
    method = "two-way t, seeds and problems"
    plain = Estimate(
        value, value - half, value + half, seeds, standard_error=error, degrees=seed_degrees, level=level
    )
    checked = _tested(plain, method)
    if math.isnan(checked.low) or error == 0:
        return checked
    return replace(checked, p_value=_p_value(half_width, abs(value)))


def problems_interval(score_P: ArrayLike, level: float = 0.95) -> tuple[float, float] | None:
    """The interval of a mean of per-problem scores in [0, 1]; None with fewer than two problems, or where all score the same share.

    It answers how much the mean would move with other problems like these: Student's t over scores that already contain the sampling
    noise (arXiv:2411.00640), cut to [0, 1]. Where every problem scores the same 0 or 1: Clopper-Pearson. Another training run is not
    covered: that takes training seeds.
    """
    scores = np.asarray(score_P, dtype=np.float64)
    if len(scores) < 2:
        return None
    mean = mean_interval(scores, level)
    if np.all(scores == scores[0]) and mean.value in (0.0, 1.0):
        return clopper_pearson(round(mean.value * len(scores)), len(scores), level)
    return None if math.isnan(mean.low) else (max(0.0, mean.low), min(1.0, mean.high))


def clopper_pearson(successes: int, trials: int, level: float = 0.95) -> tuple[float, float]:
    """The exact interval of a probability from ``successes`` out of ``trials``."""
    tail, failures = (1 - level) / 2, trials - successes
    low = float(special.betaincinv(successes, failures + 1, tail)) if successes else 0.0
    high = float(special.betaincinv(successes + 1, failures, 1 - tail)) if failures else 1.0
    return low, high


def _p_value(half_width: Callable[[float], float], size: float) -> float:
    """The alpha whose half width is ``size``, not below 1e-12; half widths fall with alpha and are 0 at 1."""
    low, high = 1e-12, 1.0
    if half_width(low) <= size:
        return low
    for _ in range(60):  # halvings, to the last bit
        middle = (low + high) / 2
        low, high = (middle, high) if half_width(middle) > size else (low, middle)
    return high


def performance_profile(scores: ArrayLike, thresholds: ArrayLike) -> Floats:
    """Share of scores strictly above each threshold (Agarwal et al. 2021)."""
    flat = np.sort(np.asarray(scores, dtype=np.float64).ravel())
    below = np.searchsorted(flat, np.asarray(thresholds, dtype=np.float64), side="right")
    return 1.0 - below / len(flat)


def _finite(scores: ArrayLike) -> Floats:
    values = np.asarray(scores, dtype=np.float64).ravel()
    return values[np.isfinite(values)]


def _t_estimate(
    value: float, error: float, degrees: float, seeds: int, level: float, method: str
) -> Estimate:
    """The estimate with its interval; equal seeds have no spread to make one of."""
    plain = Estimate(value, seeds=seeds, standard_error=error, degrees=degrees, level=level, method=method)
    if _no_spread(plain):
        return replace(plain, method="no spread over seeds")
    half = float(special.stdtrit(degrees, 0.5 + level / 2)) * error
    return replace(plain, low=value - half, high=value + half)


def _no_spread(plain: Estimate) -> bool:
    return plain.standard_error <= 1e-12 * max(abs(plain.value), 1e-3)


def _tested(plain: Estimate, method: str) -> Estimate:
    """Add the two-sided p-value against zero.

    Differences that are the same number in every seed carry no spread to judge with (the seed changes nothing,
    or coarse scores tie): NaN bounds, so neither resolved nor equivalent; p is 1 where they are zero, else NaN.
    """
    if _no_spread(plain):
        p = 1.0 if plain.value == 0.0 else math.nan
        return replace(plain, low=math.nan, high=math.nan, p_value=p, method="no spread over seeds")
    p = 2 * float(special.stdtr(plain.degrees, -abs(plain.value) / plain.standard_error))
    return replace(plain, p_value=p, method=method)


def _satterthwaite(parts: Floats, degrees: ArrayLike) -> Floats:
    """Degrees of freedom of sums of variances along the first axis; the fewest where all are zero."""
    given = np.asarray(degrees, dtype=np.float64).reshape(-1, *[1] * (parts.ndim - 1))
    total, squares = parts.sum(axis=0), (parts**2 / given).sum(axis=0)
    return np.where(total > 0, total**2 / np.where(total > 0, squares, 1.0), given.min(axis=0))


def _cell_variance(values_SP: Floats) -> float:
    """Residual mean square of the additive seed + problem table."""
    residual = (
        values_SP
        - values_SP.mean(axis=1, keepdims=True)
        - values_SP.mean(axis=0, keepdims=True)
        + values_SP.mean()
    )
    return float((residual**2).sum() / ((values_SP.shape[0] - 1) * (values_SP.shape[1] - 1)))

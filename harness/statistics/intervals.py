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
    """Mean over seeds with Student's t interval. One seed: the value alone."""
    scores = _finite(scores_S)
    if not len(scores):
        return MISSING
    if len(scores) == 1:
        return Estimate(float(scores[0]), seeds=1, level=level, method="single training seed")
    error = float(scores.std(ddof=1) / math.sqrt(len(scores)))
    return _t_estimate(float(scores.mean()), error, len(scores) - 1, len(scores), level, "t over seeds")


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
    degrees = _satterthwaite(parts, np.array([len(a) - 1, len(b) - 1]))
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
    seed_degrees = _satterthwaite(seed_parts, [len(g) - 1 for g in groups])
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
    """The interval of a mean of per-problem scores in [0, 1]; None with fewer than two problems.

    It answers how much the mean would move with other problems like these: Student's t over scores that already contain the sampling
    noise (arXiv:2411.00640), cut to [0, 1]. Where every problem scores the same 0 or 1: Clopper-Pearson. Another training run is not
    covered: that takes training seeds.
    """
    scores = np.asarray(score_P, dtype=np.float64)
    if len(scores) < 2:
        return None
    mean = mean_interval(scores, level)
    if np.all(scores == scores[0]) and mean.value in (0.0, 1.0):
        reach = ((1 - level) / 2) ** (1 / len(scores))
        return (0.0, 1 - reach) if mean.value == 0 else (reach, 1.0)
    return max(0.0, mean.low), min(1.0, mean.high)


def _p_value(half_width: Callable[[float], float], size: float) -> float:
    """The alpha whose half width is ``size``, not below 1e-12; half widths fall with alpha and are 0 at 1."""
    low, high = 1e-12, 1.0
    if half_width(low) <= size:
        return low
    for _ in range(60):  # halvings, to the last bit
        middle = (low + high) / 2
        low, high = (middle, high) if half_width(middle) > size else (low, middle)
    return high


def seed_bootstrap(
    scores_S: ArrayLike,
    statistic: Callable[[Floats], Floats],
    *,
    draws: int = 10_000,
    seed: int = 0,
    level: float = 0.95,
) -> Estimate:
    """Interval of a nonlinear statistic of per-seed scores; ``statistic`` reduces the last axis.

    Value +- t_{S-1} x bootstrap standard error x sqrt(S / (S - 1)). The percentile interval of a bootstrap over three seeds covers
    80-90 %; this small-sample form is exactly Student's t for a mean over seeds.
    """
    scores = np.asarray(scores_S, dtype=np.float64)
    seeds, value = len(scores), float(statistic(scores))
    if seeds < 2:
        return Estimate(value, seeds=seeds, level=level, method="single training seed")
    picks = np.random.default_rng(seed).integers(seeds, size=(draws, seeds))
    error = float(statistic(scores[picks]).std()) * math.sqrt(seeds / (seeds - 1))
    plain = _t_estimate(value, error, seeds - 1, seeds, level, "bootstrap over seeds, t quantile")
    p = 2 * float(special.stdtr(seeds - 1, -abs(value) / error)) if error > 0 else math.nan
    return replace(plain, p_value=p)


def interquartile_mean(scores: ArrayLike) -> Floats:
    """Mean of the middle half along the last axis, floor(n/4) cut from each end (seeds x benchmarks)."""
    ordered = np.sort(np.asarray(scores, dtype=np.float64), axis=-1)
    cut = ordered.shape[-1] // 4
    middle: Floats = ordered[..., cut : ordered.shape[-1] - cut].mean(axis=-1)
    return middle


def probability_of_improvement(a_S: ArrayLike, b_S: ArrayLike) -> float:
    """P[a random seed of a beats a random seed of b], ties half (Mann-Whitney U / nm)."""
    a, b = _finite(a_S)[:, None], _finite(b_S)[None, :]
    return float(((a > b) + 0.5 * (a == b)).mean())


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
    half = float(special.stdtrit(degrees, 0.5 + level / 2)) * error if error > 0 else 0.0
    return Estimate(
        value,
        value - half,
        value + half,
        seeds=seeds,
        standard_error=error,
        degrees=degrees,
        level=level,
        method=method,
    )


def _tested(plain: Estimate, method: str) -> Estimate:
    """Add the two-sided p-value against zero.

    Differences that are the same number in every seed carry no spread to judge with (the seed changes nothing,
    or coarse scores tie): NaN bounds, so neither resolved nor equivalent; p is 1 where they are zero, else NaN.
    """
    if plain.standard_error <= 1e-12 * max(abs(plain.value), 1e-3):
        p = 1.0 if plain.value == 0.0 else math.nan
        return replace(plain, low=math.nan, high=math.nan, p_value=p, method="no spread over seeds")
    p = 2 * float(special.stdtr(plain.degrees, -abs(plain.value) / plain.standard_error))
    return replace(plain, p_value=p, method=method)


def _satterthwaite(parts: Floats, degrees: ArrayLike) -> float:
    total = float(parts.sum())
    if total <= 0:
        return float(np.min(np.asarray(degrees)))
    return total**2 / float((parts**2 / np.asarray(degrees, dtype=np.float64)).sum())


def _cell_variance(values_SP: Floats) -> float:
    """Residual mean square of the additive seed + problem table."""
    residual = (
        values_SP
        - values_SP.mean(axis=1, keepdims=True)
        - values_SP.mean(axis=0, keepdims=True)
        + values_SP.mean()
    )
    return float((residual**2).sum() / ((values_SP.shape[0] - 1) * (values_SP.shape[1] - 1)))

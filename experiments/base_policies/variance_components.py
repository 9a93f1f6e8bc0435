"""How much of the spread of scores is the base policy, the training seed and the samples of the evaluation.

Model: score of run i from base b(i) is y_i = mean + B_b(i) + S_i + e_i with independent B ~ N(0, base variance), S ~ N(0, seed variance)
and e_i of known variance (binomial cells of the evaluation). Training seeds are nested in bases. The two unknown variances are estimated by
restricted maximum likelihood (Patterson & Thompson 1971), which for equal groups and equal noise is the analysis of variance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import optimize

Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
_FLOOR = (
    1e-8  # of the seed variance, in units of the scores' variance: keeps the covariance regular where there is no noise
)


@dataclass(frozen=True)
class Components:
    """Variances in squared score units.

    Attributes:
        mean: generalised least squares mean of the scores.
        base: between base policies.
        seed: between training seeds from one base policy.
        samples: mean of the known evaluation noise.
        base_interval: 95 % percentile interval of `base` from refits of data drawn from the fitted model.
        seed_interval: the same of `seed`.
        bases: base policies that occur.
        runs: scores.
    """

    mean: float
    base: float
    seed: float
    samples: float
    base_interval: tuple[float, float]
    seed_interval: tuple[float, float]
    bases: int
    runs: int

    @property
    def shares(self) -> tuple[float, float, float]:
        """Base, seed and samples as shares of one run's variance; NaN where nothing varies."""
        total = self.base + self.seed + self.samples
        parts = (self.base, self.seed, self.samples)
        return (parts[0] / total, parts[1] / total, parts[2] / total) if total else (np.nan,) * 3


def sampling_variance(averages_P: ArrayLike, samples: int) -> float:
    """Variance of avg@n over fixed problems from per-problem shares of right answers: sum of p(1-p)/(n-1) over P squared.

    Unbiased for independent samples. Raises ValueError for fewer than two samples a problem.
    """
    averages = np.asarray(averages_P, dtype=np.float64)
    if samples < 2:
        raise ValueError("the noise of one sample a problem cannot be told; evaluate with at least two")
    return float((averages * (1 - averages)).sum() / (samples - 1) / len(averages) ** 2)


def variance_components(
    scores_R: ArrayLike, bases_R: ArrayLike, noise_R: ArrayLike, refits: int = 400, seed: int = 0
) -> Components:
    """Fit the model above.

    Args:
        scores_R: one score a run.
        bases_R: label of each run's base policy.
        noise_R: known variance of each score from sampling.
        refits: data sets drawn for the intervals; 0: none, the bounds are NaN.
        seed: of those draws.

    Raises:
        ValueError: fewer than two bases, or no base with two runs (then base and seed cannot be told apart).
    """
    scores, noise = np.asarray(scores_R, dtype=np.float64), np.asarray(noise_R, dtype=np.float64)
    labels, groups = np.unique(np.asarray(bases_R), return_inverse=True)
    if len(labels) < 2 or len(labels) == len(scores):
        raise ValueError(
            f"{len(scores)} runs from {len(labels)} base policies: base and seed can be told apart only with at least two bases, one of "
            "them with two runs"
        )
    base, seeds = _fit_variances(scores, groups, noise)
    rng = np.random.default_rng(seed)
    estimates = [(np.nan, np.nan)] if refits == 0 else []
    for _ in range(refits):
        base_effects = rng.normal(0, np.sqrt(base), len(labels))[groups]
        estimates.append(_fit_variances(base_effects + rng.normal(0, np.sqrt(seeds + noise)), groups, noise))
    low, high = np.quantile(np.array(estimates), [0.025, 0.975], axis=0)
    return Components(
        mean=_restricted_loss(scores, groups, noise, base, seeds)[1],
        base=base,
        seed=seeds,
        samples=float(noise.mean()),
        base_interval=(float(low[0]), float(high[0])),
        seed_interval=(float(low[1]), float(high[1])),
        bases=len(labels),
        runs=len(scores),
    )


def _fit_variances(scores: Floats, groups: Indices, noise: Floats) -> tuple[float, float]:
    """(base variance, seed variance) that maximise the restricted likelihood, both at least 0."""
    scale = float(scores.var(ddof=1))
    if scale == 0:
        return 0.0, 0.0

    def loss(parts: Floats) -> float:
        return _restricted_loss(scores, groups, noise, parts[0] * scale, parts[1] * scale)[0]

    starts = ((0.5, 0.5), (0.05, 0.9), (0.9, 0.05))
    bounds = [(0, None), (_FLOOR, None)]
    start = min(starts, key=lambda parts: loss(np.array(parts)))
    best = optimize.minimize(loss, start, method="L-BFGS-B", bounds=bounds).x
    return float(best[0] * scale), float(best[1] * scale) if best[1] > _FLOOR else 0.0


def _restricted_loss(scores: Floats, groups: Indices, noise: Floats, base: float, seed: float) -> tuple[float, float]:
    """Minus twice the restricted log-likelihood up to a constant, and the mean that goes with it.

    A base's covariance is diagonal plus constant, so its inverse is written down (Sherman & Morrison).
    """
    diagonal = np.maximum(seed + noise, np.finfo(float).tiny)
    ones = np.bincount(groups, 1 / diagonal)
    values = np.bincount(groups, scores / diagonal)
    shrink = base / (1 + base * ones)
    information = float((ones - shrink * ones**2).sum())
    mean = float((values - shrink * ones * values).sum()) / information
    residual = scores - mean
    sums = np.bincount(groups, residual / diagonal)
    squares = float((residual**2 / diagonal).sum() - (shrink * sums**2).sum())
    determinant = float(np.log(diagonal).sum() + np.log1p(base * ones).sum())
    return determinant + np.log(information) + squares, mean

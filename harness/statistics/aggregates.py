"""Numbers beside a difference: its p by sign flips, the seeds that would decide it, and aggregates over several benchmarks."""

from __future__ import annotations

import math

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

from harness.statistics.intervals import Estimate, fewest

_FEWEST = 6  # pairs: with five the smallest two-sided p of sign flips is 2 / 32
_EXACT = 2**16  # sign patterns that are all taken; of more, as many at random, and fewer beyond 61 pairs
_NUMBERS = 4_000_000  # drawn for one test
_MOST_REPLICATES = 10_000


def sign_flip_p(differences: ArrayLike) -> float:
    """The share of all patterns of signs whose mean difference is at least as far from zero (Fisher's randomisation test).

    NaN of fewer than six pairs, or where one has no finite value.
    """
    values = np.asarray(differences, dtype=np.float64)
    if len(values) < _FEWEST or not np.isfinite(values).all():
        return math.nan
    count = min(_EXACT, _NUMBERS // len(values))
    test = scipy.stats.permutation_test(
        (values,), np.mean, permutation_type="samples", n_resamples=count, vectorized=True, rng=0
    )
    return float(test.pvalue)


def seeds_to_decide(estimate: Estimate) -> float:
    """The seeds at which an open difference has a word if value and spread stay; NaN where it has one, or no spread is known.

    Its interval then excludes zero or lies within the margin, whichever takes fewer. Where base policies are the replicates, each is taken
    with as many seeds as now. Infinity beyond 10,000 replicates.
    """
    has_spread = math.isfinite(estimate.standard_error) and estimate.standard_error > 0 and estimate.degrees >= 1
    if not has_spread or estimate.resolved or estimate.inside_margin:
        return math.nan
    size = abs(estimate.value)
    reach = max(size, -math.inf if estimate.margin is None else estimate.margin - size)
    # Two independent arms have twice the degrees of freedom of one.
    arms = 2 if "Welch" in estimate.method else 1
    replicates = estimate.seeds if arms == 2 else estimate.degrees + 1

    def is_decided(count: int) -> bool:
        degrees = estimate.degrees * (count - 1) / (replicates - 1)
        quantile = scipy.special.stdtrit(degrees, 0.5 + estimate.level / 2)
        half = quantile * estimate.standard_error * math.sqrt(replicates / count)
        return bool(half < reach)

    count = fewest(is_decided, range(math.ceil(replicates), _MOST_REPLICATES + 1))
    return math.inf if count is None else float(math.ceil(count * estimate.seeds / replicates))


def interquartile_mean(scores_S_T: NDArray[np.float64]) -> float:
    """The mean of the middle half of all scores [seeds, tasks] together (Agarwal et al. 2021, arXiv:2108.13264)."""
    return float(scipy.stats.trim_mean(scores_S_T, 0.25, axis=None))


def probability_of_improvement(a_ST: NDArray[np.float64], b_ST: NDArray[np.float64]) -> float:
    """P(a run of a scores above one of b on a task), ties half, each task counting the same (arXiv:2108.13264, section 4.4).

    Scores are [seeds, tasks]; the seeds of the arms may be others. Per task it is Mann and Whitney's U over all pairs.
    """
    return float(0.5 + np.sign(a_ST[:, None] - b_ST).mean() / 2)

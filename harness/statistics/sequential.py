"""Looking at a comparison while its seeds come in: how wide the interval of each look has to be.

The looks are declared in advance, as numbers of seeds. At each a comparison gets Student's t interval at a nominal level, so that *all*
its intervals cover the true difference together (repeated confidence intervals: Jennison & Turnbull 1989, JRSS B 51, 305). The error is
spent in proportion to the seeds (Lan & DeMets 1983, Biometrika 70, 659; Kim & DeMets 1987, Biometrika 74, 149, exponent 1), and turned
into levels exactly for t statistics (Jennison & Turnbull 1991, Biometrika 78, 133): the normal approximation is liberal at the numbers of
seeds that an experiment has (Shao & Feng 2007, Clinical Trials 4, 605).

How it is exact. With no true difference, the t statistic of the first n of n' seeds, given that of all n', does not depend on the unknown
spread: the centred seeds are a uniform point on a sphere. So the probability of having been inside every earlier boundary is a function of
the newest t alone, and passes from look to look by an integral over that sphere (`_one_seed_later`), by fixed rules without random numbers.
"""

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray

from harness.statistics.intervals import comparison_level

Floats = NDArray[np.float64]

# t statistics are stored as the normal quantile of the same two-sided p: one grid for all degrees of freedom.
_NORMAL = np.linspace(0.0, 8.0, 321)
_FINE = np.linspace(0.0, 8.0, 32_001)
_NODES, _MIDPOINTS = 64, 1000


def design_levels(looks: Sequence[int], comparisons: int) -> tuple[float, ...]:
    """Nominal alpha of each look for each of ``comparisons``, open or closed: all words at all looks are true together with 95 %."""
    return nominal_levels(tuple(looks), 1 - comparison_level(comparisons))


@lru_cache(maxsize=64)
def nominal_levels(looks: tuple[int, ...], alpha: float) -> tuple[float, ...]:
    """Two-sided nominal alpha of each look (increasing numbers of seeds), so that some interval of one comparison misses with ``alpha``."""
    shares = alpha * np.diff(looks, prepend=0) / looks[-1]
    levels: list[float] = []
    inside, boundary = np.ones_like(_NORMAL), math.inf
    for last_seeds, seeds, share in zip((looks[0], *looks), looks, shares, strict=False):
        # `inside`: probability of being inside every earlier boundary, by the newest statistic
        for total in range(last_seeds + 1, seeds + 1):
            inside, boundary = _one_seed_later(total, inside, boundary), math.inf
        boundary = float(np.interp(-share, -_first_crossing(inside), _FINE))
        levels.append(2 * float(scipy.stats.norm.sf(boundary)))
    return tuple(levels)


def _first_crossing(inside: Floats) -> Floats:
    """P(|statistic| beyond each point of `_FINE`, and inside every earlier boundary)."""
    mass = np.interp(_FINE, _NORMAL, inside) * 2 * np.asarray(scipy.stats.norm.pdf(_FINE))
    tail = inside[-1] * 2 * scipy.stats.norm.sf(_FINE[-1])
    # summed from the tail on, where the terms are small
    return np.asarray(tail - scipy.integrate.cumulative_trapezoid(mass[::-1], _FINE[::-1], initial=0)[::-1])


def _one_seed_later(total: int, value: Floats, boundary: float) -> Floats:
    """Mean of ``value`` of the statistic of the first ``total - 1`` seeds, given that of all ``total``; it is zero beyond ``boundary``.

    Given their sum S and sum of squares 1, the centred seeds lie uniformly on a sphere of radius R in ``total - 1`` dimensions. R r, with r
    the first coordinate of a point on the unit sphere, is the contrast of the newest seed; (1 + r) / 2 has a symmetric Beta distribution.
    """
    first = total - 1
    t_Z = _t_of_normal(total)
    sum_Z = t_Z * np.sqrt(total / (total - 1 + t_Z**2))
    radius_Z = np.sqrt(np.maximum(1 - sum_Z**2 / total, 0.0))
    r_C, weight_C = _contrasts(total, smooth=np.isinf(boundary))
    mean_ZC = sum_Z[:, None] / total + radius_Z[:, None] * r_C / np.sqrt(first * total)
    squares_ZC = radius_Z[:, None] ** 2 * (1 - r_C**2)
    error_ZC = np.sqrt(np.maximum(squares_ZC, 1e-300) / ((first - 1) * first))
    normal_ZC = np.interp(np.abs(mean_ZC) / error_ZC, _t_of_normal(first), _NORMAL)
    weighted_values = np.where(normal_ZC < boundary, np.interp(normal_ZC, _NORMAL, value), 0.0)
    return np.asarray(weighted_values @ weight_C)


def _contrasts(total: int, *, smooth: bool) -> tuple[Floats, Floats]:
    """Nodes and weights for r: Gauss-Jacobi for a smooth value, midpoints of equal probability for one with a cut."""
    if smooth:
        nodes, weights = scipy.special.roots_jacobi(_NODES, (total - 4) / 2, (total - 4) / 2)
        return np.asarray(nodes), np.asarray(weights / weights.sum())
    share = (np.arange(_MIDPOINTS) + 0.5) / _MIDPOINTS
    r = 2 * scipy.stats.beta.ppf(share, (total - 2) / 2, (total - 2) / 2) - 1
    return np.asarray(r), np.full(_MIDPOINTS, 1 / _MIDPOINTS)


def _t_of_normal(seeds: int) -> Floats:
    """|t| with ``seeds - 1`` degrees of freedom at the two-sided p of each normal quantile of the grid."""
    return np.asarray(scipy.stats.t.isf(scipy.stats.norm.sf(_NORMAL), seeds - 1))

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

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import NDArray

from harness.statistics.intervals import DECIDED, Estimate, Finding, comparison_level, depth

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


_ROUNDS = 6  # of a search whose error shrinks about tenfold in each


def distance_to_another_word(effect: Estimate, word: Finding, expects: str) -> float:
    """How far the value lies inside the borders of a word, in its unit; negative outside, NaN where the word says nothing."""
    if word not in DECIDED or math.isnan(effect.value):
        return math.nan
    distance = depth(effect.value, "equivalent" if word is Finding.NOTHING else expects, effect.margin)
    return -distance if word is Finding.REVERSED else distance


def word_p_value(effect: Estimate, looks: Sequence[int], word: Finding, expects: str) -> float:
    """Family error at which the design would just still say the word, over all looks; 1 where it does not, or the word says nothing.

    Two-sided, against the nearest border (zero or the margin), of the effect at the look where the design stopped. A look that is not
    among the declared ones counts as if it were alone; the word may be that of another look.
    """
    distance = distance_to_another_word(effect, word, expects)
    if not distance > 0 or not effect.standard_error > 0:
        return 1.0
    p = 2 * float(scipy.stats.t.sf(distance / effect.standard_error, effect.degrees))
    return repeated_p_value(p, looks, effect.seeds)


def repeated_p_value(p: float, looks: Sequence[int], seeds: int) -> float:
    """Family error whose boundary is just reached by a two-sided `p` of the look at `seeds` alone; at most 1."""
    if len(looks) < 2 or seeds not in looks or p <= 0:
        return min(1.0, p)
    place, error = list(looks).index(seeds), min(1.0, p * looks[-1] / seeds)
    for _ in range(_ROUNDS if place else 0):  # at the first look the boundary is the part of the error itself
        error = min(1.0, error * p / nominal_levels(tuple(looks), error)[place])
    return max(p, error)


def pool_looks(first: Estimate, second: Estimate, first_looks: Sequence[int], second_looks: Sequence[int]) -> Estimate:
    """Both looks as one sequential design: Student's t over the replicates of both, at the level of a further look.

    The error is spent over all seeds, so the interval covers whatever made the first look stop. The value leans to the first look where
    only decided claims get a second one. Raises `ValueError` where a look has no spread, or is not paired.
    """
    if not (first.degrees >= 1 and second.degrees >= 1):
        raise ValueError("a look has no interval")
    if any("Welch" in look.method for look in (first, second)):
        raise ValueError("the looks are not paired by seed")
    parts = [(look.degrees + 1, look.value, look.standard_error) for look in (first, second)]
    number = sum(count for count, *_ in parts)
    value = sum(count * mean for count, mean, _ in parts) / number
    squares = sum(count * (count - 1) * error**2 + count * (mean - value) ** 2 for count, mean, error in parts)
    error, seeds = math.sqrt(squares / (number - 1) / number), first.seeds + second.seeds
    looks = [look for look in first_looks if look <= first.seeds] or [first.seeds]
    looks += [first.seeds + look for look in second_looks or [second.seeds]]
    level = 1 - nominal_levels(tuple(looks), 1 - comparison_level(1))[looks.index(seeds)]
    half = float(scipy.stats.t.ppf(0.5 + level / 2, number - 1)) * error
    estimate = Estimate(value, value - half, value + half, seeds, standard_error=error, degrees=number - 1)
    return replace(estimate, level=level, method="both looks, t", margin=first.margin)


def overlap_text(first: Mapping[int, str], second: Mapping[int, str]) -> str:
    """What two looks (seed to base policy) have in common: ``the seeds 8, 9``, ``the base policies set/8``; empty if nothing."""
    overlaps: dict[tuple[str, str], list[object]] = {
        ("seed", "seeds"): [*sorted(first.keys() & second.keys())],
        ("base policy", "base policies"): [*sorted({*first.values()} & {*second.values()})],
    }
    return " and ".join(
        f"the {names[len(items) > 1]} {', '.join(map(str, items))}" for names, items in overlaps.items() if items
    )

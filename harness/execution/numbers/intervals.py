"""The statistics of the check: prediction intervals for the mean of a few new runs, at a chance of a false alarm that they share."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

import numpy as np


def per_comparison(false_alarm: float, comparisons: int) -> float:
    """The chance of a false alarm of each of several comparisons that gives them `false_alarm` together (Šidák 1967).

    Exact where they are independent; with two-sided intervals of correlated normal values the family's chance is at most that.

    Raises:
        ValueError: no comparison, or a chance outside (0, 1).
    """
    if comparisons < 1 or not 0 < false_alarm < 1:
        raise ValueError(
            f"{comparisons} comparisons at {false_alarm}: there must be one, and a chance between 0 and 1"
        )
    return -math.expm1(math.log1p(-false_alarm) / comparisons)


def prediction_interval(
    reference: Mapping[int, float], stratum: Mapping[int, int], new: Sequence[int], chance: float
) -> tuple[float, float]:
    r"""Where the mean over new runs lies with probability 1 - `chance`, if they come from where the reference runs come from.

    Runs of one base policy b scatter about that base's mean μ_b with one standard deviation σ. With m_b reference runs and k_b of the k new
    ones on it, the mean of the new ones less Σ_b (k_b / k) ȳ_b is normal with variance σ² (1/k + Σ_b (k_b / k)² / m_b), and s² on
    Σ_b (m_b - 1) degrees of freedom estimates σ². With all bases in equal shares that is the usual t · s · √(1/k + 1/n).

    Where the new runs have seeds of the reference and the same noise, they lie nearer to it than independent ones: the chance of a false
    alarm is then smaller than stated.

    Args:
        reference: seed → value.
        stratum: seed → its base policy, for the reference's seeds and the new ones.
        new: the seeds of the new runs.
        chance: that a mean lies outside, on either side.

    Raises:
        ValueError: a base of the new runs that the reference lacks, or no degree of freedom.
    """
    by_base: dict[int, list[float]] = {}
    for seed, value in reference.items():
        by_base.setdefault(stratum[seed], []).append(value)
    shares = Counter(stratum[seed] for seed in new)
    missing = sorted(shares.keys() - by_base.keys())
    degrees = sum(len(values) - 1 for values in by_base.values())
    if missing or not new or degrees < 1:
        raise ValueError(
            f"no prediction for {len(new)} runs: {degrees} degrees of freedom, bases without reference: {missing}"
        )
    squares = sum(float(np.sum((np.array(values) - np.mean(values)) ** 2)) for values in by_base.values())
    number = len(new)
    centre = sum(count / number * float(np.mean(by_base[base])) for base, count in shares.items())
    variance = 1 / number + sum((count / number) ** 2 / len(by_base[base]) for base, count in shares.items())
    from scipy.special import stdtrit  # `harness doctor` alone needs it, and only for this

    half = float(stdtrit(degrees, 1 - chance / 2)) * math.sqrt(squares / degrees * variance)
    return centre - half, centre + half


def within_spread(reference: Mapping[int, float], stratum: Mapping[int, int]) -> float:
    """Standard deviation between runs of one base policy, pooled over bases; 0 where no base has two runs."""
    by_base: dict[int, list[float]] = {}
    for seed, value in reference.items():
        by_base.setdefault(stratum[seed], []).append(value)
    degrees = sum(len(values) - 1 for values in by_base.values())
    squares = sum(float(np.sum((np.array(values) - np.mean(values)) ** 2)) for values in by_base.values())
    return math.sqrt(squares / degrees) if degrees else 0.0

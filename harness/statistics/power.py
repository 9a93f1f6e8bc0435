"""Power of a design, the smallest difference that it detects, and the seeds that one needs (noncentral t, two-sided).

``sd`` is the spread over seeds throughout: of the paired differences when ``paired``, else of one arm's scores, equal in both arms.
"""

from __future__ import annotations

import math

from scipy.special import nctdtr, stdtrit


def power(difference: float, sd: float, seeds: int, *, paired: bool, alpha: float = 0.05) -> float:
    """P[|t| exceeds its critical value] at a true ``difference``; NaN with fewer than two seeds, where no test exists."""
    if seeds < 2:
        return math.nan
    degrees, error = _design(sd, seeds, paired)
    critical = float(stdtrit(degrees, 1 - alpha / 2))
    if error == 0:
        return 1.0 if difference else alpha
    above, below = (_distribution(end, degrees, abs(difference) / error) for end in (critical, -critical))
    return 1 - above + below


def minimum_detectable_difference(
    sd: float, seeds: int, *, paired: bool, target_power: float = 0.8, alpha: float = 0.05
) -> float:
    """Smallest true difference that is found with ``target_power``; NaN with fewer than two seeds."""
    if seeds < 2 or not math.isfinite(sd):
        return math.nan
    if sd == 0:
        return 0.0
    degrees, error = _design(sd, seeds, paired)
    # far beyond the critical value the power is 1; the bracket holds for every alpha and power below that
    low, high = 0.0, 2 * error * float(stdtrit(degrees, [1 - alpha / 2, 0.999]).sum())
    for _ in range(40):  # halving: `scipy.optimize` takes a quarter of a second to load
        middle = (low + high) / 2
        enough = power(middle, sd, seeds, paired=paired, alpha=alpha) >= target_power
        low, high = (low, middle) if enough else (middle, high)
    return high


def seeds_needed(
    difference: float,
    sd: float,
    *,
    paired: bool,
    target_power: float = 0.8,
    alpha: float = 0.05,
    limit: int = 1000,
) -> int | None:
    """Fewest seeds per arm that find ``difference`` with ``target_power``; None if ``limit`` are too few or ``sd`` is not known."""
    for seeds in range(2, limit + 1) if math.isfinite(sd) else ():
        if power(difference, sd, seeds, paired=paired, alpha=alpha) >= target_power:
            return seeds
    return None


def _design(sd: float, seeds: int, paired: bool) -> tuple[float, float]:
    """Degrees of freedom and standard error of the difference."""
    if paired:
        return float(seeds - 1), sd / math.sqrt(seeds)
    return float(2 * seeds - 2), sd * math.sqrt(2 / seeds)


def _distribution(value: float, degrees: float, shift: float) -> float:
    """P[t <= value] of the noncentral t; SciPy gives NaN where it is smaller than any number."""
    found = float(nctdtr(degrees, shift, value))
    return 0.0 if math.isnan(found) else found

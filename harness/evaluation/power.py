"""What a design can see: minimum detectable difference, power, and seeds needed (noncentral t, two-sided)."""

from __future__ import annotations

import math


def comparison_alpha(comparisons: int, alpha: float = 0.05) -> float:
    """Level of each of ``comparisons`` tests so that they err together at ``alpha`` (Šidák 1967, JASA 62, 626).

    Raises:
        ValueError: fewer than one comparison.
    """
    if comparisons < 1:
        raise ValueError(f"comparisons={comparisons}: a family has at least one")
    return -math.expm1(math.log1p(-alpha) / comparisons)


def power(difference: float, sd: float, seeds: int, *, paired: bool, alpha: float = 0.05) -> float:
    """P[|t| exceeds its critical value] at a true ``difference``.

    ``sd`` is the spread over seeds: of the paired differences when ``paired``, else of one arm's scores
    (equal in both arms). NaN with fewer than two seeds, where no test exists.
    """
    if seeds < 2:
        return math.nan
    degrees, error = _design(sd, seeds, paired)
    critical = _quantile(1 - alpha / 2, degrees)
    if error == 0:
        return 1.0 if difference else alpha
    shift = abs(difference) / error
    return 1 - _distribution(critical, degrees, shift) + _distribution(-critical, degrees, shift)


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
    top = error * (_quantile(1 - alpha / 2, degrees) + _quantile(0.999, degrees)) * 2
    low, high = 0.0, top
    for _ in range(40):  # halving: `scipy.optimize` takes longer to load
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
    if not math.isfinite(sd):
        return None
    low, high = 1, 2
    while power(difference, sd, high, paired=paired, alpha=alpha) < target_power:
        low, high = high, 2 * high
        if low > limit:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        enough = power(difference, sd, middle, paired=paired, alpha=alpha) >= target_power
        low, high = (low, middle) if enough else (middle, high)
    return high if high <= limit else None


def _design(sd: float, seeds: int, paired: bool) -> tuple[float, float]:
    """Degrees of freedom and standard error of the difference."""
    if paired:
        return float(seeds - 1), sd / math.sqrt(seeds)
    return float(2 * seeds - 2), sd * math.sqrt(2 / seeds)


# Loaded here, since a plan without finished runs needs no power; `scipy.stats` would take longer to load than a plan to make.
def _quantile(probability: float, degrees: float) -> float:
    """Of Student's t."""
    from scipy.special import stdtrit

    return float(stdtrit(degrees, probability))


def _distribution(value: float, degrees: float, shift: float) -> float:
    """P[t <= value] of the noncentral t; SciPy gives NaN where it is smaller than any number."""
    from scipy.special import nctdtr

    found = float(nctdtr(degrees, shift, value))
    return 0.0 if math.isnan(found) else found

"""What it takes to see a difference over problems: the parts of its variance, and the problems or samples that it asks for."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.statistics.intervals import POWER, fewest, power

Floats = NDArray[np.float64]
_MOST = 10**7


def sampling_noise(right_P: ArrayLike, samples: int) -> Floats:
    """Unbiased variance of each problem's share of right samples, p (1 - p) / (n - 1); NaN with one sample, which shows none."""
    share = np.asarray(right_P, dtype=np.float64) / samples
    return share * (1 - share) / (samples - 1) if samples > 1 else np.full(share.shape, np.nan)


def problems_needed(difference: float, total: float, level: float) -> int | None:
    """Fewest problems that show a true `difference` with 80 % power; None where no number is known.

    `total`: variance of a problem's difference in avg, squared fractions of 1, at the present samples.
    """
    return fewest(lambda problems: _shows(difference, total, problems, level), range(2, _MOST)) if total else None


def samples_needed(
    difference: float, total: float, sampling: float, samples: int, problems: int, level: float
) -> int | None:
    """Fewest samples a problem that do so at these `problems`; None where no number does, or `sampling` is not known (NaN).

    `sampling`: the part of `total` that `samples` samples make. Problems make the rest, which any number of samples leaves. Samples of the
    two sides are taken as independent.
    """
    if math.isnan(sampling) or total == 0:
        return None
    one, between = sampling * samples, max(0.0, total - sampling)
    return fewest(lambda n: _shows(difference, between + one / n, problems, level), range(1, _MOST))


def _shows(difference: float, variance: float, problems: int, level: float) -> bool:
    return power(difference, math.sqrt(variance), problems, paired=True, alpha=1 - level) >= POWER

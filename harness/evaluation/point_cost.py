"""What it takes to see a difference over problems: the parts of its variance, and the problems or samples that it asks for."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.statistics.intervals import POWER, fewest, power

Floats = NDArray[np.float64]
_MOST = 10**7


def sampling_noise(right_P: ArrayLike, samples: int) -> Floats:
    """Unbiased variance of each problem's share of right samples, p (1 - p) / (n - 1); NaN with one sample, which shows none."""
    share = np.asarray(right_P, dtype=np.float64) / samples
    return share * (1 - share) / (samples - 1) if samples > 1 else np.full(share.shape, np.nan)


@dataclass(frozen=True)
class DifferenceVariance:
    """Variance of a problem's difference in avg, squared fractions of 1.

    `total`: as it is with `samples` samples a problem. `sampling`: the part of it that samples make, NaN where it is not known. Samples of
    the two sides are taken as independent.
    """

    total: float
    sampling: float
    samples: int

    @classmethod
    def of(cls, difference_P: Floats, noise_P: Floats, samples: int) -> DifferenceVariance:
        """Estimate both from the differences of two problems or more and the sampling variance of each (`sampling_noise` of both sides)."""
        return cls(float(difference_P.var(ddof=1)), float(noise_P.mean()), samples)

    @property
    def between(self) -> float:
        """The part that problems make: what any number of samples leaves."""
        return max(0.0, self.total - self.sampling)

    def problems_needed(self, difference: float, level: float) -> int | None:
        """Fewest problems that show a true `difference` with 80 % power, at the present samples; None where no number is known."""
        if self.total == 0:
            return None
        return fewest(lambda problems: _shows(difference, self.total, problems, level), range(2, _MOST))

    def samples_needed(self, difference: float, problems: int, level: float) -> int | None:
        """Fewest samples a problem that do so at these `problems`; None where no number does, or samples' part is not known."""
        if math.isnan(self.sampling) or self.total == 0:
            return None
        one = self.sampling * self.samples  # the variance that one sample a problem would make
        return fewest(lambda n: _shows(difference, self.between + one / n, problems, level), range(1, _MOST))


def _shows(difference: float, variance: float, problems: int, level: float) -> bool:
    return power(difference, math.sqrt(variance), problems, paired=True, alpha=1 - level) >= POWER

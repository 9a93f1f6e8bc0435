"""Power from `scipy.special` is that of `scipy.stats`, also where its distribution function underflows."""

from __future__ import annotations

import math

import pytest
from scipy import optimize, stats

from harness.evaluation.power import minimum_detectable_difference, power


def by_stats(difference: float, seeds: int) -> float:
    """Paired, standard deviation 1, 5 %."""
    shift, critical = difference * math.sqrt(seeds), stats.t.ppf(0.975, seeds - 1)
    lower = float(stats.nct.cdf(-critical, seeds - 1, shift))  # NaN where it underflows
    return float(stats.nct.sf(critical, seeds - 1, shift)) + (0.0 if math.isnan(lower) else lower)


@pytest.mark.parametrize("seeds", [2, 3, 5, 8, 30, 101])
def test_power_is_that_of_the_noncentral_t(seeds: int) -> None:
    for difference in (0.05, 0.3, 1.0, 2.5):
        assert power(difference, 1.0, seeds, paired=True) == pytest.approx(
            by_stats(difference, seeds), abs=1e-12
        )
    smallest = optimize.brentq(lambda d: by_stats(d, seeds) - 0.8, 1e-3, 30.0, xtol=1e-12)
    assert minimum_detectable_difference(1.0, seeds, paired=True) == pytest.approx(smallest, rel=1e-9)


def test_power_of_a_huge_difference_is_one() -> None:
    for difference in (4.0, 100.0, 1e6):
        assert power(difference, 1.0, 101, paired=True) == 1.0

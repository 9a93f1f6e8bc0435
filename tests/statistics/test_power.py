"""Power and what follows from it, against an integral over the spread and published numbers."""

from __future__ import annotations

import math

import pytest
from scipy import integrate, optimize, stats

from harness.statistics.intervals import minimum_detectable_difference, power, seeds_needed


def by_integral(difference: float, seeds: int) -> float:
    """Paired, standard deviation 1, 5 %: a normal mean beyond its critical value, over every spread that the seeds may have."""
    shift, critical = difference * math.sqrt(seeds), stats.t.ppf(0.975, seeds - 1)

    def beyond(spread: float) -> float:
        return stats.norm.sf(critical * spread - shift) + stats.norm.cdf(-critical * spread - shift)

    law = stats.chi(seeds - 1, scale=1 / math.sqrt(seeds - 1))
    value, _ = integrate.quad(lambda spread: law.pdf(spread) * beyond(spread), 0, 8, points=[0.5, 1, 2], epsabs=1e-12)
    return float(value)


@pytest.mark.parametrize("seeds", [2, 3, 5, 8, 30, 101])
def test_power_is_that_of_the_noncentral_t(seeds: int) -> None:
    for difference in (0.05, 0.3, 1.0, 2.5):
        assert power(difference, 1.0, seeds, paired=True) == pytest.approx(by_integral(difference, seeds), abs=1e-9)
    smallest = optimize.brentq(lambda d: by_integral(d, seeds) - 0.8, 1e-3, 30.0)
    assert minimum_detectable_difference(1.0, seeds, paired=True) == pytest.approx(smallest, rel=1e-7)


def test_power_of_a_huge_difference_is_one() -> None:
    for difference in (4.0, 100.0, 1e6):
        assert power(difference, 1.0, 101, paired=True) == 1.0


@pytest.mark.parametrize(("seeds", "expected"), [(2, 12.3), (3, 6.7), (5, 4.4), (10, 2.9)])
def test_minimum_detectable_difference_reproduces_the_published_table(seeds, expected):
    sd = math.hypot(2.0, 0.87)  # seed spread and sampling spread of avg@32 on 30 problems, points
    assert minimum_detectable_difference(sd, seeds, paired=False) == pytest.approx(expected, abs=0.06)


def test_power_is_alpha_at_zero_and_monotone():
    assert power(0.0, 1.0, 5, paired=True) == pytest.approx(0.05)
    values = [power(d, 1.0, 5, paired=False) for d in (0.5, 1.0, 2.0, 4.0)]
    assert values == sorted(values)
    assert math.isnan(power(1.0, 1.0, 1, paired=True))
    assert math.isnan(power(1.0, math.nan, 5, paired=True))
    assert math.isnan(power(math.nan, 1.0, 5, paired=True))


def test_seeds_needed_is_the_smallest_sufficient_number():
    needed = seeds_needed(2.0, 1.5, paired=False)
    assert needed is not None
    assert power(2.0, 1.5, needed, paired=False) >= 0.8
    assert power(2.0, 1.5, needed - 1, paired=False) < 0.8
    assert seeds_needed(1e-6, 1.0, paired=True) is None
    assert seeds_needed(0.1, math.nan, paired=True) is None

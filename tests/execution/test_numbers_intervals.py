"""Prediction intervals and their shared chance of a false alarm: by hand, against scipy, and by simulation."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from harness.execution.numbers.intervals import per_comparison, prediction_interval, within_spread


def test_the_chance_of_each_comparison_gives_the_family_its_chance() -> None:
    each = per_comparison(0.01, 8)
    assert 1 - (1 - each) ** 8 == pytest.approx(0.01, rel=1e-12)
    assert per_comparison(0.01, 1) == pytest.approx(0.01, rel=1e-12)


@pytest.mark.parametrize(("false_alarm", "comparisons"), [(0.0, 3), (1.0, 3), (0.01, 0), (-0.1, 2)])
def test_a_chance_that_is_none_is_refused(false_alarm: float, comparisons: int) -> None:
    with pytest.raises(ValueError, match="comparisons at"):
        per_comparison(false_alarm, comparisons)


def test_one_base_gives_the_usual_interval_for_the_mean_of_new_values() -> None:
    values = [0.1, 0.4, 0.25, 0.3, 0.2]
    reference = dict(enumerate(values))
    stratum = dict.fromkeys(range(20), 0)
    low, high = prediction_interval(reference, stratum, [7, 8, 9], 0.05)
    half = stats.t.ppf(0.975, 4) * np.std(values, ddof=1) * math.sqrt(1 / 3 + 1 / 5)
    assert (low, high) == pytest.approx((np.mean(values) - half, np.mean(values) + half))


def test_two_bases_by_hand() -> None:
    # Base 0: 1, 3 (mean 2, squares 2); base 1: 10, 14 (mean 12, squares 8): s² = 10 / 2 = 5 on 2 degrees of freedom.
    reference, stratum = {0: 1.0, 2: 3.0, 1: 10.0, 3: 14.0}, {seed: seed % 2 for seed in range(8)}
    low, high = prediction_interval(reference, stratum, [4, 5, 6], 0.1)  # two on base 0, one on base 1
    centre = 2 / 3 * 2 + 1 / 3 * 12
    variance = 5 * (1 / 3 + (4 / 9) / 2 + (1 / 9) / 2)
    half = stats.t.ppf(0.95, 2) * math.sqrt(variance)
    assert (low, high) == pytest.approx((centre - half, centre + half))
    assert within_spread(reference, stratum) == pytest.approx(math.sqrt(5))


def test_equal_shares_of_all_bases_give_one_over_k_plus_one_over_n() -> None:
    rng = np.random.default_rng(0)
    reference = {seed: float(value) for seed, value in enumerate(rng.normal(size=24))}
    stratum = {seed: seed % 8 for seed in range(32)}
    low, high = prediction_interval(reference, stratum, range(24, 32), 0.01)
    half = stats.t.ppf(0.995, 16) * within_spread(reference, stratum) * math.sqrt(1 / 8 + 1 / 24)
    assert high - low == pytest.approx(2 * half)
    assert (low + high) / 2 == pytest.approx(np.mean(list(reference.values())))


def test_a_base_without_reference_and_single_runs_are_refused() -> None:
    with pytest.raises(ValueError, match=r"bases without reference: \[1\]"):
        prediction_interval({0: 1.0, 2: 2.0}, {0: 0, 2: 0, 1: 1}, [1], 0.01)
    with pytest.raises(ValueError, match="0 degrees of freedom"):
        prediction_interval({0: 1.0, 1: 2.0}, {0: 0, 1: 1, 2: 0}, [2], 0.01)
    with pytest.raises(ValueError, match="for 0 runs"):
        prediction_interval({0: 1.0, 2: 2.0}, {0: 0, 2: 0}, [], 0.01)


def test_the_family_misses_as_often_as_it_says() -> None:
    """Eight statistics, 24 reference seeds on 8 bases, 4 new ones: alarms in 500 worlds against the stated 5 %."""
    rng = np.random.default_rng(1)
    worlds, statistics, family = 500, 8, 0.05
    stratum = {seed: seed % 8 for seed in range(28)}
    chance = per_comparison(family, statistics)
    alarms = 0
    for _ in range(worlds):
        base = rng.normal(scale=3.0, size=(8, statistics))
        values = base[np.arange(28) % 8] + rng.normal(size=(28, statistics))
        outside = False
        for column in range(statistics):
            reference = {seed: float(values[seed, column]) for seed in range(24)}
            low, high = prediction_interval(reference, stratum, range(24, 28), chance)
            outside |= not low <= values[24:, column].mean() <= high
        alarms += outside
    assert stats.binomtest(alarms, worlds, family).pvalue > 1e-3, alarms / worlds


def test_the_interval_knows_nothing_of_units_and_order() -> None:
    rng = np.random.default_rng(2)
    reference = {seed: float(value) for seed, value in enumerate(rng.normal(size=12))}
    stratum = {seed: seed % 4 for seed in range(16)}
    low, high = prediction_interval(reference, stratum, [12, 13], 0.01)
    scaled = {seed: 3 * value + 7 for seed, value in reversed(reference.items())}
    assert prediction_interval(scaled, stratum, [13, 12], 0.01) == pytest.approx((3 * low + 7, 3 * high + 7))

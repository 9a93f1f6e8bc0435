"""Bands that hold over a whole curve: the critical value by its limits, the band by hand, and its coverage by simulation."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from harness.statistics.bands import Band, critical_value, simultaneous_band
from harness.statistics.intervals import comparison_level, paired_difference, welch_difference

sys.path.insert(0, str(Path(__file__).parents[2] / "experiments" / "statistics"))

from band_coverage import Case, coverage

# Residuals of the two columns are (1, -1, 0) and (1, 1, -2) around means 2 and 5: at right angles.
RIGHT_ANGLE = np.array([[3.0, 6.0], [1.0, 6.0], [2.0, 3.0]])
WANDERING = np.random.default_rng(0).normal(size=(7, 20)).cumsum(axis=1)


@pytest.mark.parametrize("degrees", [1.5, 2, 4, 7, 15, 255])
def test_a_curve_that_does_not_wander_takes_the_ordinary_quantile_and_none_takes_more_than_sidaks(
    degrees: float,
) -> None:
    assert critical_value(degrees, 0.0, 32) == pytest.approx(stats.t.ppf(0.975, degrees))
    assert critical_value(degrees, 5.0, 1) == pytest.approx(stats.t.ppf(0.975, degrees))
    sidak = stats.t.ppf(0.5 + comparison_level(32) / 2, degrees)
    found = [critical_value(degrees, length, 32) for length in (0.0, 0.1, 1.0, 3.0, 10.0, 1e6)]
    assert found == sorted(found)
    assert found[-1] == pytest.approx(sidak)
    assert max(found) <= sidak * (1 + 1e-12)


def test_the_critical_value_solves_the_equation_of_a_t_field() -> None:
    # nu = 11, L = pi, c = sqrt(11): the field's part is 1 * 2 ** -5.
    alpha = 2 * stats.t.sf(math.sqrt(11), 11) + 2**-5
    assert critical_value(11, math.pi, 10**6, 1 - alpha) == pytest.approx(math.sqrt(11))
    # Many degrees: a Gaussian field, exp(-c^2 / 2).
    alpha = 2 * stats.norm.sf(3.0) + 2 / math.pi * math.exp(-4.5)
    assert critical_value(1e9, 2.0, 10**6, 1 - alpha) == pytest.approx(3.0, rel=1e-6)


def test_two_replicates_do_not_show_how_far_a_curve_wanders() -> None:
    sidak = stats.t.ppf(0.5 + comparison_level(2) / 2, 1)
    assert critical_value(1, 0.0, 2) == pytest.approx(sidak)
    band = simultaneous_band([[3.0, 7.0], [1.0, 6.0]])  # differences 2 and 1: errors 1 and 1/2
    assert band.high_K - band.value_K == pytest.approx([sidak, sidak / 2])


def test_a_band_by_hand() -> None:
    band = simultaneous_band(RIGHT_ANGLE)
    assert band.value_K.tolist() == [2.0, 5.0]
    error_K = np.array([math.sqrt(2 / 2 / 3), math.sqrt(6 / 2 / 3)])  # of the means: squares / (R - 1) / R
    assert band.high_K - band.value_K == pytest.approx(critical_value(2, math.pi / 2, 2) * error_K)
    assert band.value_K - band.low_K == pytest.approx(band.high_K - band.value_K)
    assert (band.replicates, band.level) == (3, 0.95)


def test_columns_that_move_together_have_the_interval_of_one() -> None:
    scores = np.array([0.1, 0.4, 0.2, 0.3])
    band, one = simultaneous_band(scores[:, None] * [1.0, 2.0, 5.0]), paired_difference(scores, np.zeros(4))
    # arccos of a correlation that is 1 up to rounding is not exactly 0
    assert band.low_K == pytest.approx([one.low, 2 * one.low, 5 * one.low], abs=1e-6)
    assert band.high_K == pytest.approx([one.high, 2 * one.high, 5 * one.high], abs=1e-6)


def test_units_signs_and_the_order_of_replicates_change_nothing() -> None:
    band, turned = simultaneous_band(WANDERING), simultaneous_band(-100 * WANDERING[::-1])
    assert -100 * band.high_K == pytest.approx(turned.low_K)
    wider = simultaneous_band(WANDERING, level=0.99)
    assert (wider.high_K > band.high_K).all()
    plain = stats.t.ppf(0.975, 6) * WANDERING.std(axis=0, ddof=1) / math.sqrt(7)
    assert (band.high_K - band.value_K > plain).all()


def test_where_there_is_no_spread_there_is_no_band() -> None:
    curves = np.column_stack([RIGHT_ANGLE[:, 0], [0.1] * 3, [1.0, math.nan, 2.0], RIGHT_ANGLE[:, 1]])
    band = simultaneous_band(curves)
    assert np.isnan(band.low_K).tolist() == np.isnan(band.high_K).tolist() == [False, True, True, False]
    assert band.high_K[[0, 3]] == pytest.approx(simultaneous_band(RIGHT_ANGLE).high_K)
    for one in (simultaneous_band(RIGHT_ANGLE[:1]), simultaneous_band(RIGHT_ANGLE[:1], RIGHT_ANGLE)):
        assert np.isnan(one.low_K).all()
        assert one.text == "no band at any k, for want of replicates or of spread among them"
    assert simultaneous_band(RIGHT_ANGLE[:1], RIGHT_ANGLE).value_K.tolist() == [1.0, 1.0]


def test_replicates_that_are_no_pairs_have_welchs_interval() -> None:
    a, b = np.array([[0.5], [0.7], [0.9]]), np.array([[0.1], [0.2], [0.2], [0.6]])
    one, band = welch_difference(a[:, 0], b[:, 0]), simultaneous_band(a, b)
    assert (band.low_K[0], band.value_K[0], band.high_K[0]) == pytest.approx((one.low, one.value, one.high))
    # One side without spread: the degrees of the other.
    alone = simultaneous_band(a, np.ones((4, 1)))
    assert alone.high_K == pytest.approx(simultaneous_band(a - 1).high_K)


def test_the_ks_at_which_two_arms_part_are_named() -> None:
    low = np.array([0.1, 0.2, -0.1, -0.3, -0.3, 0.1])
    high = np.array([0.2, 0.3, 0.1, -0.1, -0.1, 0.2])
    band = Band((low + high) / 2, low, high, 5, 0.95)
    assert band.parts == [(1, 2, "higher"), (4, 5, "lower"), (6, 6, "higher")]
    assert band.text == "k 1 to 2: higher; k 4 to 5: lower; k 6: higher"
    assert Band(low, low - 1, low + 1, 5, 0.95).text == "no k from 1 to 6 at which they part"


@pytest.mark.parametrize(
    "case",
    [Case("crossing", 3, True, 64, 32), Case("crossing", 8, True, 64, 32), Case("same", None, True, 256, 32)],
    ids=["3 seeds", "8 seeds", "256 problems"],
)
def test_the_band_covers_the_whole_curve(case: Case) -> None:
    """In short; experiments/statistics/band_coverage.py prints the table."""
    found = coverage(case, 500)
    assert found["band"] >= 0.94
    assert found["single"] < found["band"]
    assert found["width"] <= 1 + 1e-9

"""Intervals and tests against scipy, closed forms and hand-worked numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from harness.statistics import intervals as st

RNG = np.random.default_rng(7)
A = RNG.normal(0.6, 0.02, 5)
B = RNG.normal(0.55, 0.03, 5)


def test_paired_and_welch_equal_scipy():
    paired = st.paired_difference(A, B)
    reference = stats.ttest_rel(A, B)
    assert paired.p_value == pytest.approx(reference.pvalue)
    assert (paired.low, paired.high) == pytest.approx(tuple(reference.confidence_interval()))
    welch = st.welch_difference(A, B[:3])
    reference = stats.ttest_ind(A, B[:3], equal_var=False)
    assert welch.p_value == pytest.approx(reference.pvalue)
    assert (welch.low, welch.high) == pytest.approx(tuple(reference.confidence_interval()))
    assert st.welch_difference(A, [0.5] * 3).degrees == pytest.approx(4)  # only the five of A have a spread


def test_one_seed_resolves_nothing():
    for estimate in (st.paired_difference([0.9], [0.1]), st.welch_difference([0.9], [0.1, 0.1])):
        assert estimate.verdict == "not resolved"
        assert math.isnan(estimate.low)
        assert estimate.value == pytest.approx(0.8)


def test_the_same_difference_in_every_seed_is_not_resolved():
    assert st.paired_difference([0.5, 0.6], [0.4, 0.5]).verdict == "not resolved"
    same = st.paired_difference([0.5, 0.6], [0.5, 0.6])
    assert (same.value, same.p_value, same.verdict) == (0.0, 1.0, "not resolved")
    assert math.isnan(same.low)  # no spread is no proof of equality: coarse scores tie by chance


def test_equal_seeds_have_a_mean_and_no_interval():
    for value in (1.0, 0.3):
        equal = st.mean_interval([value] * 3)
        assert (equal.value, equal.seeds, equal.method) == (pytest.approx(value), 3, "no spread over seeds")
        assert math.isnan(equal.low)
        assert math.isnan(equal.high)


def test_bands_are_the_intervals_of_every_point():
    seeds = np.array([[0.1, 0.2, np.nan], [0.3, 0.25, np.nan], [0.2, np.nan, 0.4]])
    mean, half = st.t_band(seeds, axis=0)
    found = [st.mean_interval(column) for column in seeds.T]
    assert mean == pytest.approx([one.value for one in found])
    assert half[:2] == pytest.approx([one.high - one.value for one in found[:2]])
    assert math.isnan(half[2])


def test_no_data_gives_a_missing_estimate():
    assert math.isnan(st.mean_interval([]).value)
    assert math.isnan(st.welch_difference([], A).value)


def test_the_interval_over_problems_is_students_t_or_what_their_number_cannot_exclude() -> None:
    spread = np.tile([0.0, 1.0], 50)
    t = stats.t.interval(0.95, 99, loc=0.5, scale=stats.sem(spread))
    assert st.problems_interval(spread) == pytest.approx(
        t
    )  # 2.5 % ** (1 / 100) excludes kinds of more than 3.6 % of problems
    unseen = 1 - 0.025 ** (1 / 100)
    assert st.problems_interval([0.5] * 100) == pytest.approx((0.5 - 0.5 * unseen, 0.5 + 0.5 * unseen))
    assert st.problems_interval([1.0]) is None


def test_a_perfect_score_is_not_certain_and_the_first_wrong_sample_hardly_moves_it() -> None:
    """One right sample of 960 made the interval 36 times narrower than none: [0, 0.32 %] beside [0, 11.6 %]."""
    assert st.problems_interval(np.ones(10)) == pytest.approx((stats.beta.ppf(0.025, 10, 1), 1.0))
    assert st.problems_interval(np.zeros(10)) == pytest.approx((0.0, stats.beta.ppf(0.975, 1, 10)))
    none, one = np.zeros(30), np.eye(1, 30).ravel() / 32
    assert st.problems_interval(one)[1] == pytest.approx(st.problems_interval(none)[1], abs=0.001)
    assert st.problems_interval(1 - one)[0] == pytest.approx(1 - st.problems_interval(one)[1])

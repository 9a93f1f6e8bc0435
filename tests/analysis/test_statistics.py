"""Intervals and tests against scipy, closed forms and hand-worked numbers."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from analysis.statistics import bootstrap
from analysis.statistics import intervals as st
from harness.evaluation import power

RNG = np.random.default_rng(7)
A = RNG.normal(0.6, 0.02, 5)
B = RNG.normal(0.55, 0.03, 5)


def test_mean_interval_is_students_t():
    estimate = st.mean_interval(A)
    low, high = stats.t.interval(0.95, 4, loc=A.mean(), scale=stats.sem(A))
    assert (estimate.low, estimate.high) == pytest.approx((low, high))


def test_paired_and_welch_equal_scipy():
    paired = st.paired_difference(A, B)
    reference = stats.ttest_rel(A, B)
    assert paired.p_value == pytest.approx(reference.pvalue)
    assert (paired.low, paired.high) == pytest.approx(tuple(reference.confidence_interval()))
    welch = st.welch_difference(A, B[:3])
    reference = stats.ttest_ind(A, B[:3], equal_var=False)
    assert welch.p_value == pytest.approx(reference.pvalue)
    assert (welch.low, welch.high) == pytest.approx(tuple(reference.confidence_interval()))


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


def test_no_data_gives_a_missing_estimate():
    assert math.isnan(st.mean_interval([]).value)
    assert math.isnan(st.welch_difference([], A).value)


def test_two_way_adds_problem_noise_and_reduces_to_t_without_it():
    seeds = np.array([0.1, -0.05, 0.02, 0.04])[:, None] + 0.3
    flat = np.repeat(seeds, 50, axis=1)
    only_seeds = st.two_way_difference(flat, np.zeros_like(flat))
    assert only_seeds.standard_error == pytest.approx(st.mean_interval(seeds).standard_error)
    hard = flat + RNG.normal(0, 0.5, 50)[None, :]
    assert st.two_way_difference(hard, np.zeros_like(hard)).standard_error > only_seeds.standard_error
    assert st.two_way_difference(hard, np.zeros_like(hard), paired=False).seeds == 4
    exact = st.paired_difference(seeds.ravel(), np.zeros(4))
    assert (only_seeds.low, only_seeds.p_value) == pytest.approx((exact.low, exact.p_value), rel=1e-6)


def test_interquartile_mean_equals_trimmed_mean():
    values = RNG.normal(size=13)
    assert st.interquartile_mean(values) == pytest.approx(stats.trim_mean(values, 0.25))


def test_probability_of_improvement_counts_ties_half():
    assert st.probability_of_improvement([1, 2], [1, 0]) == pytest.approx(3.5 / 4)
    u = stats.mannwhitneyu(A, B).statistic
    assert st.probability_of_improvement(A, B) == pytest.approx(u / 25)


def test_performance_profile_counts_scores_above():
    assert st.performance_profile([0.0, 0.5, 1.0, 1.0], [0.0, 0.5, 1.0]).tolist() == [0.75, 0.5, 0.0]


def test_seed_bootstrap_of_a_mean_is_students_t():
    estimate = bootstrap.seed_bootstrap(A, lambda x: x.mean(axis=-1), draws=200_000)
    exact = st.mean_interval(A)
    assert (estimate.low, estimate.high) == pytest.approx((exact.low, exact.high), rel=2e-3)


def test_hierarchical_bootstrap_variance_matches_theory():
    values = RNG.normal(size=(2, 6, 40))
    fixed = bootstrap.hierarchical_bootstrap(values, draws=40_000, resample_problems=False)
    by_seed = values[0].mean(axis=1)
    assert fixed[:, 0].std() == pytest.approx(by_seed.std() / math.sqrt(6), rel=0.02)
    both = bootstrap.hierarchical_bootstrap(values, draws=40_000)
    assert both[:, 0].std() > fixed[:, 0].std()
    assert both.mean(axis=0) == pytest.approx(values.mean(axis=(1, 2)), abs=0.01)


def test_bootstrap_pairs_seeds_only_when_asked():
    values = np.repeat(RNG.normal(size=(1, 8, 30)), 2, axis=0)
    paired = bootstrap.hierarchical_bootstrap(values, draws=500)
    assert np.allclose(paired[:, 0], paired[:, 1])
    apart = bootstrap.hierarchical_bootstrap(values, draws=500, paired=False)
    assert not np.allclose(apart[:, 0], apart[:, 1])
    again = bootstrap.hierarchical_bootstrap(values, draws=500, paired=False)
    assert np.array_equal(apart, again)


@pytest.mark.parametrize(("seeds", "expected"), [(2, 12.3), (3, 6.7), (5, 4.4), (10, 2.9)])
def test_minimum_detectable_difference_reproduces_the_published_table(seeds, expected):
    sd = math.hypot(2.0, 0.87)  # seed spread and sampling spread of avg@32 on 30 problems, points
    assert power.minimum_detectable_difference(sd, seeds, paired=False) == pytest.approx(expected, abs=0.06)


def test_power_is_alpha_at_zero_and_monotone():
    assert power.power(0.0, 1.0, 5, paired=True) == pytest.approx(0.05)
    values = [power.power(d, 1.0, 5, paired=False) for d in (0.5, 1.0, 2.0, 4.0)]
    assert values == sorted(values)
    assert math.isnan(power.power(1.0, 1.0, 1, paired=True))


def test_seeds_needed_is_the_smallest_sufficient_number():
    needed = power.seeds_needed(2.0, 1.5, paired=False)
    assert needed is not None
    assert power.power(2.0, 1.5, needed, paired=False) >= 0.8
    assert power.power(2.0, 1.5, needed - 1, paired=False) < 0.8
    assert power.seeds_needed(1e-6, 1.0, paired=True) is None
    assert power.seeds_needed(0.1, math.nan, paired=True) is None

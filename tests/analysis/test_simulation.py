"""Reduced simulation: the intervals keep their promise (``python -m analysis.simulation`` for the full one)."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.simulation import Model, rates, simulate
from harness.statistics.intervals import two_way_difference


@pytest.mark.parametrize(("seeds", "paired"), [(3, True), (5, True), (10, True), (5, False), (10, False)])
def test_null_is_resolved_five_percent_of_the_time_and_intervals_cover(seeds, paired):
    measured = rates(seeds, paired=paired, simulations=1500, model=Model(problems=32, shared=0.5 * paired))
    assert measured.false_positive == pytest.approx(0.05, abs=0.015)
    assert 0.93 <= measured.coverage <= 0.97


def test_welch_at_three_seeds_is_conservative_never_liberal():
    measured = rates(3, paired=False, simulations=1500, model=Model(problems=32, shared=0.0))
    assert 0.02 <= measured.false_positive <= 0.05
    assert measured.coverage >= 0.95


@pytest.mark.parametrize(("seeds", "seed_sd", "problem_sd"), [(3, 0.4, 0.0), (5, 0.15, 0.5)])
def test_the_population_interval_is_never_liberal(seeds, seed_sd, problem_sd):
    rng = np.random.default_rng(seeds)
    hits = 0
    for _ in range(300):
        base = rng.normal(-1, 2, 60)
        own = rng.normal(0, problem_sd, 60)  # an arm is better on some problems and worse on others
        arms = []
        for sign in (0.5, -0.5):
            logit = base + sign * own + seed_sd * rng.normal(size=(seeds, 1))
            arms.append(rng.binomial(32, 1 / (1 + np.exp(-logit))) / 32)
        hits += two_way_difference(*arms).resolved
    assert hits / 300 <= 0.08


def test_the_true_difference_is_the_mean_of_many_simulated_seeds():
    model = Model(problems=16, effect=0.5, samples=200)
    scores, truth = simulate(model, 200, 4, np.random.default_rng(1))
    assert (scores[:, 1] - scores[:, 0]).mean(axis=1) == pytest.approx(truth, abs=0.012)

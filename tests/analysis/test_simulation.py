"""Reduced simulation: the intervals keep their promise (``python -m analysis.simulation`` for the full one)."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.simulation import Model, rates, simulate


@pytest.mark.parametrize(("seeds", "paired"), [(3, True), (5, True), (10, True), (5, False), (10, False)])
def test_null_is_resolved_five_percent_of_the_time_and_intervals_cover(seeds, paired):
    measured = rates(seeds, paired=paired, simulations=1500, model=Model(problems=32, shared=0.5 * paired))
    assert measured.false_positive == pytest.approx(0.05, abs=0.015)
    assert 0.93 <= measured.coverage <= 0.97


def test_welch_at_three_seeds_is_conservative_never_liberal():
    measured = rates(3, paired=False, simulations=1500, model=Model(problems=32, shared=0.0))
    assert 0.02 <= measured.false_positive <= 0.05
    assert measured.coverage >= 0.95


def test_the_true_difference_is_the_mean_of_many_simulated_seeds():
    model = Model(problems=16, effect=0.5, samples=200)
    scores, truth = simulate(model, 200, 4, np.random.default_rng(1))
    assert (scores[:, 1] - scores[:, 0]).mean(axis=1) == pytest.approx(truth, abs=0.012)

"""Reduced simulation of columns (``python -m analysis.simulation ladders`` for the full one)."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from scipy import stats

from analysis.simulated_ladders import LADDERS, Ladder, bounds, draw, false_within, false_words, found
from harness.statistics.families import Independent, Paired, comparison_level, judge


@pytest.mark.parametrize("name", LADDERS)
def test_the_simulated_bounds_are_those_of_the_tables(name):
    ladder = dataclasses.replace(LADDERS[name], truth=(0, 1, 0, 2, 2, 5))
    arms = draw(ladder, 4, 20, np.random.default_rng(1))
    low, high = bounds(ladder, arms)
    for row in range(20):
        pairs = [(arms[i + 1][row], arms[i][row]) for i in range(5)]
        column = judge(
            {str(i): Paired(a - b) if ladder.paired else Independent(a, b) for i, (a, b) in enumerate(pairs)}
        )
        assert low[row] == pytest.approx([estimate.low for estimate in column.values()])
        assert high[row] == pytest.approx([estimate.high for estimate in column.values()])


@pytest.mark.parametrize("seeds", [3, 5, 8, 12])
@pytest.mark.parametrize("name", ["paired, arms alike", "paired, spreads of arms 0.5 to 4"])
def test_a_ladder_of_five_null_steps_has_a_false_word_five_percent_of_the_time(name, seeds):
    held, plain = false_words(LADDERS[name], seeds, 20_000)
    assert held == pytest.approx(0.05, abs=0.015)
    assert plain > 0.18


@pytest.mark.parametrize("seeds", [3, 5, 8, 12])
@pytest.mark.parametrize("name", [name for name in LADDERS if name.startswith("Welch")])
def test_independent_ladders_are_never_liberal(name, seeds):
    held, _ = false_words(LADDERS[name], seeds, 20_000)
    assert 0.02 <= held <= 0.065


@pytest.mark.parametrize("seeds", [3, 5, 8, 12])
@pytest.mark.parametrize("spread", [1.0, 4.2])
def test_a_difference_at_the_margin_is_seldom_called_smaller(seeds, spread):
    assert false_within(spread, seeds, 3.0, 20_000) <= 0.03


def test_power_of_one_step_is_that_of_the_noncentral_t_at_the_corrected_level():
    critical = stats.t.isf((1 - comparison_level(5)) / 2, 4)
    exact = stats.nct.sf(critical, 4, 8.0 / (3.2 / np.sqrt(5)))
    assert found(8.0, 3.2, 5, 40_000) == pytest.approx(exact, abs=0.01)


def test_a_true_step_the_wrong_way_counts_as_false():
    ladder = Ladder(spreads=(0.1,) * 6, truth=(0, 8, 16, 24, 32, 40))
    assert false_words(ladder, 5, 500) == (0.0, 0.0)
    assert false_words(dataclasses.replace(ladder, truth=(0,) * 6), 5, 500)[0] > 0

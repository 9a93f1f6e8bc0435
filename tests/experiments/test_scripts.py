"""The numbers behind scripts of experiments/dapo_ladder and inference_budget, against enumeration, hand-worked values and simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import single_seed
import thirty_problems
from budget import Side, Sides, budget_table


def test_null_ladders_rise_once_in_720_whatever_the_spread() -> None:
    for sd in (0.5, 3.0):
        rises, _ = single_seed.null_ladders(sd)
        assert rises == pytest.approx(1 / math.factorial(6), abs=0.0003)


@pytest.mark.parametrize("tricks", [1, 3, 5])
def test_kept_rungs_are_records_of_all_orders(tricks: int) -> None:
    orders = list(itertools.permutations(range(tricks + 1)))
    for least in (1, 2, tricks):
        kept = [sum(one[i] > max(one[:i]) for i in range(1, tricks + 1)) >= least for one in orders]
        assert single_seed.kept_rungs(tricks, least) == pytest.approx(np.mean(kept))


def test_the_square_of_a_subset_s_mean_is_that_of_all_subsets() -> None:
    values = np.array([1.0, -2.0, 0.5, 3.0, 0.0])
    for size in (1, 2, 5):
        every = [np.mean(one) ** 2 for one in itertools.combinations(values, size)]
        assert thirty_problems.subset_square(values, size) == pytest.approx(np.mean(every))


def sides() -> Sides:
    """Two seeds. Before: best of 1, 2, 3 is 30, 60, 90; after RL one sample is 80. 10 and 8 tokens a response, 2,400 of training."""
    before = Side(np.array([[30.0, 35.0, 40.0]] * 2), np.array([[29.0, 58.0, 88.0], [31.0, 62.0, 92.0]]), 10.0)
    after = Side(np.array([[79.0, 81.0, 83.0]] * 2), np.array([[78.0, 85.0, 90.0], [82.0, 89.0, 94.0]]), 8.0)
    return Sides(before, after, 2400.0)


def test_a_budget_pays_whole_samples_one_at_least_and_those_that_there_are_at_most() -> None:
    before = sides().before
    assert [before.samples(budget) for budget in (8.0, 10.0, 19.9, 20.0, 1e6)] == [1, 1, 1, 2, 3]


def test_break_even_by_hand() -> None:
    """Three samples are enough, 30 tokens: 22 more than a response after RL, so training's 2,400 tokens last for 109.1 questions."""
    both = sides()
    assert both.enough == 3
    assert both.break_even == pytest.approx(2400 / 22)
    assert both.budgets()["training over 500 questions"] == pytest.approx(8 + 4.8)
    # One sample of 8 tokens is enough, and cheaper than one of 10.
    swapped = Sides(both.after, both.before, 2400.0)
    assert (swapped.enough, swapped.break_even) == (1, np.inf)
    assert Sides(both.before, Side(both.after.majority_SK, both.after.best_SK + 20, 8.0), 1.0).enough == 0


def test_differences_are_to_one_sample_after_rl() -> None:
    row = budget_table(sides()).rows[1]  # 16 tokens: one sample before RL, two after
    assert (row["k"], row["j"]) == (1, 2)
    assert [row[key].value for key in ("majority", "best", "own_majority", "own_best")] == [
        -50.0,
        -50.0,
        1.0,
        7.0,
    ]
    assert row["best"].family == 11

"""The numbers behind experiments/dapo_ladder's scripts, against enumeration, hand-worked values and simulation."""

from __future__ import annotations

import itertools
import math

import best_checkpoint
import budgets
import numpy as np
import order
import pytest
import single_seed
import thirty_problems


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


def test_the_checkpoint_chosen_on_some_problems_is_worth_what_the_others_say() -> None:
    """Two problems in the test set: the first checkpoint is 50 points above the last there, 100 below on the third."""
    scores = np.array([[1.0, 1.0, 0.0], [0.5, 0.5, 1.0]])
    subset = np.array([[True, True, False], [False, False, True]])
    assert best_checkpoint.chosen(scores, subset[:1]).tolist() == [50, -100, 100]
    assert best_checkpoint.chosen(scores, subset).tolist() == [25, -50, 50]
    assert best_checkpoint.maximum_of(2) == pytest.approx(1 / math.sqrt(math.pi), abs=0.01)


def test_curves_are_compared_where_the_cheaper_one_ends() -> None:
    dear, cheap = (
        (np.array([0.0, 10.0, 30.0]), np.array([0.2, 0.6, 0.8])),
        (np.array([0.0, 20.0]), np.array([0.2, 0.5])),
    )
    assert budgets.at_equal(dear, cheap) == pytest.approx(0.7 - 0.5)
    assert budgets.at_equal(cheap, dear) == pytest.approx(0.5 - 0.7)


def test_a_run_is_read_as_the_tricks_that_it_has() -> None:
    rungs = [("base", {"o": "score", "c": 0.2}), ("filter", {"o": "mask", "c": 0.2})]
    rungs += [("clip", {"o": "mask", "c": 0.28}), ("soft", {"o": "mask_and_soft", "c": 0.28})]
    known, base = order.meanings(rungs), rungs[0][1]
    assert order.subset_of({"o": "mask_and_soft", "c": 0.2}, base, known) == {"filter", "soft"}
    assert order.subset_of({"o": "score", "c": 0.28}, base, known) == {"clip"}
    assert order.subset_of(dict(base), base, known) == frozenset()
    assert order.subset_of({"o": "soft", "c": 0.2}, base, known) is None
    assert order.subset_of({**base, "kl": 0.1}, base, known) is None


def test_contrasts_are_over_base_policies_of_the_seeds_that_all_have() -> None:
    none, one = frozenset[str](), frozenset({"a"})
    scores = {none: {0: 1.0, 8: 3.0, 1: 5.0}, one: {0: 2.0, 8: 6.0, 1: 5.5, 2: 9.0}}
    found = order.contrast(scores, {one: 1, none: -1}, 8)
    assert found is not None
    assert (sorted(found.differences), found.seeds) == ([0.5, 2.0], 3)
    assert order.contrast(scores, {frozenset({"b"}): 1}, 8) is None

"""The numbers behind scripts of experiments/dapo_ladder, against enumeration and simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import single_seed


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

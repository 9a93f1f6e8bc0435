"""The numbers behind experiments/dapo_ladder's scripts, against enumeration, hand-worked values and simulation."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import single_seed
import thirty_problems

from harness.experiment.checks import check_plan
from harness.experiment.plan import Plan
from harness.experiment.planning import plan_experiment


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


def test_the_second_arm_is_the_same_configuration_with_other_seeds():
    plan = plan_experiment(["experiment=aa"])
    first, second = plan.arms
    assert first.runs.keys().isdisjoint(second.runs)
    assert len({spec.arm_id for spec in plan.specs}) == 1
    assert len({spec.run_id for spec in plan.specs}) == len(plan.specs) == 40
    assert not [finding for finding in check_plan(plan) if "same arm twice" in str(finding)]


def test_the_analysis_reads_seeds_per_arm_and_takes_them_as_independent():
    plan = Plan.read(plan_experiment(["experiment=aa"]).record())
    assert plan.seeds == tuple(range(40))
    assert [plan.seeds_of(arm) for arm in plan.arms] == [tuple(range(20)), tuple(range(20, 40))]
    assert not plan.paired

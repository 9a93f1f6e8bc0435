"""Arms that nobody named: short and distinct names, and something to be compared with."""

from __future__ import annotations

import pytest
from tables import table

from analysis.designs import grid_of
from harness.experiment.checks import check_plan
from harness.experiment.designs import short_names
from harness.experiment.plan import Plan
from harness.experiment.planning import plan_multirun


@table(__file__, "names", "jobs, names")
def test_names_say_what_differs_and_stay_distinct(jobs: list[list[str]], names: list[str]) -> None:
    assert short_names(jobs) == names


def test_a_multirun_is_titled_by_its_arms_and_a_long_one_by_the_first_and_the_last() -> None:
    assert plan_multirun(["algorithm=grpo,dapo"]).title == "grpo, dapo"
    grid = ["optimizer.learning_rate=1e-4,2e-4,4e-4", "algorithm.surrogate.clip_high=0.2,0.24,0.28"]
    assert plan_multirun(grid).title == "9 arms: lr 1e-4 · clip_high 0.2 to lr 4e-4 · clip_high 0.28"


def test_a_multirun_is_compared_with_its_first_arm_and_stays_a_grid() -> None:
    plan = plan_multirun(["algorithm=grpo,dapo", "optimizer.learning_rate=1e-4,2e-4", "seed=0,1", "training.steps=3"])
    parents = {planned.name: planned.parent for planned in plan.arms}
    assert parents == {
        "grpo · lr 1e-4": None,
        "grpo · lr 2e-4": "grpo · lr 1e-4",
        "dapo · lr 1e-4": "grpo · lr 1e-4",
        "dapo · lr 2e-4": "grpo · lr 1e-4",
    }
    assert plan.notes == ("Arms are compared with grpo · lr 1e-4, the first one.",)
    unequal = [finding.arm for finding in check_plan(plan) if finding.check == "unequal cost"]
    assert unequal == ["dapo · lr 1e-4", "dapo · lr 2e-4"]
    grid = grid_of(Plan.read(plan.record()))
    assert (grid.row_key, grid.rows) == ("algorithm", ["grpo", "dapo"])
    assert (grid.column_key, grid.columns) == ("optimizer.learning_rate", [1e-4, 2e-4])


@pytest.mark.parametrize("order", [1, -1])
def test_a_rung_is_compared_with_the_rung_below_it(order: int) -> None:
    rungs = ["dapo_0_naive_grpo", "dapo_1_overlong_filtering", "dapo_3_soft_overlong"][::order]
    plan = plan_multirun([f"rung={','.join(rungs)}", "seed=0,1"])
    assert {planned.name: planned.parent for planned in plan.arms} == {
        "dapo_0_naive_grpo": None,
        "dapo_1_overlong_filtering": "dapo_0_naive_grpo",
        "dapo_3_soft_overlong": "dapo_1_overlong_filtering",
    }

"""Seeds as a sequential design: what may be declared, which part of a plan is wanted, and which runs start first."""

from __future__ import annotations

import dataclasses

import pytest

from harness.experiment.declaration import Experiment
from harness.experiment.history import longest_first
from harness.experiment.planning import declared_experiment, plan_experiment
from harness.experiment.power import Power
from harness.statistics.intervals import comparison_level
from harness.statistics.sequential import design_levels
from harness.store import ResultStore

NAME = "experiment=dapo_equal_tokens"
STEPS = "match=steps"
LOOKS = "experiment.seeds={start: 2, step: 3, most: 6}"


def declared(*overrides: str) -> Experiment:
    return declared_experiment([NAME, STEPS, *overrides])


def test_a_mapping_becomes_seeds_and_looks_with_the_budget_as_the_last():
    experiment = declared(LOOKS)
    assert (experiment.seeds, experiment.looks) == ([0, 1, 2, 3, 4, 5], [2, 5, 6])
    assert declared("experiment.seeds={looks: [4, 6]}").looks == [4, 6]
    assert declared("experiment.seeds={most: 9}").looks == [4, 6, 8, 9]
    assert declared("experiment.seeds=[3,1]").looks == []
    assert declared("experiment.seeds=[7,5,3]", "experiment.looks=[2,3]").seeds == [7, 5, 3]


def test_a_plan_records_the_seeds_asked_for_so_far(tmp_path):
    plan = plan_experiment([NAME, STEPS, LOOKS, f"runtime.results={tmp_path}"])
    first, second, third = (planned.name for planned in plan.arms)
    part = plan.first_seeds({first: 5, second: 5, third: 2})
    record = part.record()
    assert record["looks"] == [2, 5, 6]
    assert record["seeds"] == [0, 1, 2, 3, 4]
    assert [list(arm["runs"]) for arm in record["arms"]] == [list("01234"), list("01234"), list("01")]
    assert len(part.specs) == 12
    assert {spec.run_id for spec in part.specs} < {spec.run_id for spec in plan.specs}


def test_a_matched_budget_is_that_of_the_first_look(tmp_path, monkeypatch):
    asked = []
    monkeypatch.setattr(
        "harness.experiment.planning.mean_spending", lambda store, ids: asked.append(list(ids)) or 1000.0
    )
    plan = plan_experiment([NAME, "match=tokens", LOOKS, f"runtime.results={tmp_path}"])
    reference = plan.arms[0].runs
    assert asked == [[reference[0], reference[1]]]
    assert plan.first is None


def test_the_power_of_a_sequential_plan_is_that_of_its_last_look(tmp_path):
    plan = plan_experiment([NAME, STEPS, LOOKS, f"runtime.results={tmp_path}"])
    assert Power(plan).alpha == design_levels(plan.looks, 2)[-1] < 1 - comparison_level(2)


# ---- order ---------------------------------------------------------------------------------------------------------------


@pytest.fixture
def plan(tmp_path):
    return plan_experiment([NAME, STEPS, "experiment.seeds=[0,1]", f"runtime.results={tmp_path}"])


def arms_of(specs):
    return [(spec.labels["arm"], spec.seed) for spec in specs]


def test_without_past_runs_dynamic_sampling_starts_first_and_the_rest_goes_seed_by_seed(plan, tmp_path):
    names = [planned.name for planned in plan.arms]
    refill = [p.name for p in plan.arms if p.config.algorithm.dead_groups.policy == "refill"]
    rest = [name for name in names if name not in refill]
    assert len(refill) == 2
    expected = [(name, seed) for group in (refill, rest) for seed in (0, 1) for name in group]
    assert arms_of(longest_first(plan, ResultStore(tmp_path))) == expected


def test_past_runs_tell_which_are_longer_and_alike_ones_keep_their_order(plan, tmp_path, monkeypatch):
    first, second, third = (planned.name for planned in plan.arms)
    seconds = {first: 400.0, second: 1000.0, third: 490.0}
    by_arm = {p.arm_id: seconds[p.name] for p in plan.arms}

    @dataclasses.dataclass
    class Cost:
        seconds: float

    monkeypatch.setattr("harness.experiment.history.History.expect", lambda self, config, arm: Cost(by_arm[arm]))
    found = arms_of(longest_first(plan, ResultStore(tmp_path)))
    assert found == [(second, 0), (second, 1), (first, 0), (third, 0), (first, 1), (third, 1)]

"""The A/A experiment: one configuration under two names, with seeds of its own per arm."""

from __future__ import annotations

from harness.experiment.checks import check_plan
from harness.experiment.plan import Plan
from harness.experiment.planning import plan_experiment


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

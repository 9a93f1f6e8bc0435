"""Two commands that use one experiment name: the answer of each is of its own runs, and what is imported stays."""

from __future__ import annotations

import pytest
from planned_runs import finish, overrides, plan

from harness.commands._answer import answered_runs, dropped_runs_line
from harness.execution.supervisor import Summary
from harness.experiment.planning import plan_experiment


@pytest.fixture
def answered(monkeypatch):
    """The plans that lay in the store when an answer was asked for."""
    plans = []
    monkeypatch.setattr("harness.commands._experiment_run.show_report", lambda _: None)
    monkeypatch.setattr(
        "harness.commands._experiment_run.report_of", lambda store, name, **_: plans.append(store.plan(name))
    )
    return plans


def runs(stored):
    return [arm["runs"] for arm in stored["arms"]]


@pytest.mark.parametrize("touched", [True, False])
def test_an_answer_is_of_the_commands_own_runs_though_another_one_wrote_its_plan(
    store, launched, said, answered, touched
):
    mine, other = plan(store), plan(store, "training.steps=10")

    def launch(work):
        if touched:
            store.write_plan(other.name, other.record())  # the other command starts meanwhile
        for spec in mine.specs:
            finish(store, spec)
        return Summary(finished=[spec.run_id for spec in mine.specs])

    launched(launch)
    told = said("run", *overrides(store))
    assert ("another command wrote its plan over this one's" in told) == touched
    assert [runs(one) for one in answered] == [runs(mine.record())]


def test_a_plan_that_takes_runs_out_of_the_stored_answer_says_so_first(store, launched, said, answered):
    launched(lambda work: Summary(stopped_by=15))
    assert "stored under this name" not in said("run", *overrides(store), code=75)
    specs = plan(store).specs
    for spec in specs:
        finish(store, spec)
    longer = overrides(store, "training.steps=10")
    lost = f"{len(specs)} of the {len(specs)} finished runs of the answer stored under this name"
    assert lost in " ".join(said("plan", *longer).split())
    told = said("run", *longer, code=75)
    assert lost in told
    assert "experiment.name=ANOTHER" in told
    assert "stored under this name" not in said("run", *longer, code=75)  # the same again


def test_more_seeds_take_nothing_and_fewer_take_some(store):
    more, some, fewer = (plan(store, f"experiment.seeds={seeds}") for seeds in ("[0,1,2]", "[0,1]", "[0]"))
    name = some.name
    store.write_plan(name, some.record())

    def said(one):
        return dropped_runs_line(one, answered_runs(store, name))

    arms = len(fewer.specs)
    assert said(fewer) == ""  # no run of it is there
    for spec in some.specs[:-1]:
        finish(store, spec)
    assert said(more) == ""
    assert f"{arms - 1} of the {2 * arms - 1} finished runs" in said(fewer)
    assert answered_runs(store, "another") == frozenset()
    store.write_plan(name, {"arms": [{"name": "torn"}]})
    assert said(fewer) == ""


@pytest.mark.parametrize("waits", [False, True])
def test_the_runs_that_a_matched_budget_takes_out_are_said_first(store, launched, said, answered, waits):
    """Before the plan of the first stage, which has the reference alone, takes the place of the stored one."""
    whole = plan(store)
    reference = set(whole.arms[0].runs.values())
    done = [spec for spec in whole.specs if not (waits and spec.run_id in reference)]
    for spec in done:
        finish(store, spec)
    store.write_plan(whole.name, whole.record())

    def launch(work):
        waiting = [spec for spec in work.specs if store.run(spec.run_id).status != "finished"]
        for spec in waiting:
            finish(store, spec, tokens=500)
        return Summary(finished=[spec.run_id for spec in waiting])

    launched(launch)
    told = said("run", *overrides(store, "match=tokens"))
    assert told.count("of the answer stored under this name") == 1
    gone = len(whole.specs) - len(reference)
    assert f"{'up to ' * waits}{gone} of the {len(done)} finished runs" in told


def test_the_runs_that_a_sequential_design_did_not_need_are_said_when_it_is_decided(store, said, answered):
    ladder = ["experiment=dapo_ladder", f"runtime.results={store.root}"]
    whole = plan_experiment([*ladder, "experiment.seeds=[0,1,2,3]"])
    arms = len(whole.arms)
    for number, planned in enumerate(whole.arms):
        # far apart by arm and near by seed: decided at the first look
        for seed in planned.runs:
            finish(store, planned.spec(seed), accuracy=0.3 + 0.1 * number + 0.01 * (seed * number % 3))
    store.write_plan(whole.name, whole.record())
    told = said("run", *ladder, "experiment.seeds={start: 3, step: 1, most: 4}")
    assert f"{arms} of the {4 * arms} finished runs of the answer" in told

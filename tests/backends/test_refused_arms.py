"""Arms that a backend cannot express: `plan` says why, `run` launches the others and counts them; only refused arms are an error."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from small_runs import SMALL
from stored_runs import about, created
from verbs import Said

from analysis.frames import load_experiment
from harness.configuration.error import ConfigError
from harness.experiment.checks import differences, refusals, refuse
from harness.experiment.plan import Plan, PlannedArm
from harness.experiment.planning import plan_experiment, plan_multirun
from harness.store import ResultStore

# verl takes a KL penalty in the reward, but not beside overlong filtering, which all rungs but the first have.
KL = ["algorithm/kl=k1", "algorithm.kl.coefficient=0.01", "algorithm.kl.placement=reward"]
ON_VERL = [
    "backend=verl",
    "model=qwen25_0_5b",
    "runtime.elsewhere=true",
    "runtime.device=cuda",
    *KL,
]
REASON = "algorithm.kl.placement=reward: verl takes no KL penalty off the reward of a response without loss"


def ladder(tmp_path: Path) -> Plan:
    return plan_experiment(["experiment=dapo_ladder", *ON_VERL, f"runtime.results={tmp_path}"])


def test_a_refused_arm_keeps_its_place_and_loses_its_runs(tmp_path: Path) -> None:
    plan = ladder(tmp_path)
    left = refuse(plan)
    assert [planned.name for planned in left.arms] == [planned.name for planned in plan.arms]
    assert {spec.labels["arm"] for spec in left.specs} == {"dapo_0_naive_grpo"}
    record = {arm["name"]: arm for arm in left.record()["arms"]}
    assert record["dapo_1_overlong_filtering"]["refused"] == [REASON]
    assert record["dapo_1_overlong_filtering"]["runs"] == {}
    assert (record["dapo_0_naive_grpo"]["refused"], len(record["dapo_0_naive_grpo"]["runs"])) == ([], 8)


def test_a_run_that_is_finished_stays_even_where_it_could_not_be_made(tmp_path: Path) -> None:
    plan = ladder(tmp_path)
    spec = plan.arms[1].spec(3)
    created(ResultStore(tmp_path).run(spec.run_id), spec.config_yaml, about(spec))
    assert list(refuse(plan).arms[1].runs) == [3]


def test_an_experiment_of_refused_arms_only_is_an_error(tmp_path: Path, said: Said) -> None:
    given = [*ON_VERL, f"runtime.results={tmp_path}"]
    assert "0 to run, 2 refused" in said("plan", "-m", "algorithm.overlong.policy=mask,wrong", *given, code=1)
    said("plan", "-m", "algorithm.overlong.policy=score,mask", *given)
    with pytest.raises(ConfigError, match=r"cannot be run: .* a response without loss \(also refused: "):
        refuse(plan_multirun([*given, "algorithm.overlong.policy=mask,wrong", "seed=0,1"]))


def test_an_arm_that_the_others_wait_for_must_be_runnable(tmp_path: Path, said: Said) -> None:
    given = ["experiment=dapo_ladder", "match=tokens", *ON_VERL, f"runtime.results={tmp_path}"]
    with pytest.raises(ConfigError, match=r"dapo_1_overlong_filtering cannot be run: algorithm\.kl\.placement"):
        refuse(plan_experiment([*given, "experiment.match_reference=dapo_1_overlong_filtering"]))
    said("plan", *given, "experiment.match_reference=dapo_1_overlong_filtering", code=1)


def test_the_others_run_and_the_answer_says_what_is_missing(tmp_path: Path, said: Said) -> None:
    given = ["backend=builtin,trl", "sampling.stop_strings=[stop]", "seed=0", "experiment.name=two", *SMALL]
    given += ["training.steps=1", "evaluation.caps=[12]", f"runtime.results={tmp_path}"]
    reason = (
        "sampling.stop_strings=['stop']: GRPOTrainer has no setting of its own for them; "
        "its generation_kwargs go to the engine as they are"
    )
    shown = " ".join(said("plan", "-m", *given).split())
    assert f"refused trl: {reason}" in shown
    assert "2 runs, 0 finished, 1 to run, 1 refused" in shown
    told = said("run", "-m", "--no-answer", *given, code=1)
    assert "two: 1 run: 1 finished" in told
    assert "1 of 2 arms were refused and not run:" in told
    assert f"refused trl: {reason}" in told
    assert len(ResultStore(tmp_path).run_ids()) == 1
    experiment = load_experiment(tmp_path, "two")
    assert list(experiment.runs["arm"]) == ["builtin"]
    assert f"trl: refused, {reason}" in experiment.notes


def test_a_run_that_can_only_refuse_what_is_left_says_so_and_fails(tmp_path: Path, said: Said) -> None:
    given = ["algorithm.overlong.policy=score,mask", *ON_VERL, f"runtime.results={tmp_path}"]
    plan = plan_multirun(given)
    spec = plan.arms[0].spec(0)
    created(ResultStore(tmp_path).run(spec.run_id), spec.config_yaml, about(spec))
    told = said("run", "-m", *given, "--no-answer", code=1)
    assert "nothing was run: 1 run finished before, and all arms that lack runs are refused" in told
    assert "nothing to do" not in told


@pytest.mark.parametrize("backend", ["builtin", "trl", "verl"])
def test_the_flagship_plans_on_three_trainers_without_a_flag(backend: str) -> None:
    plan = plan_experiment(["experiment=dapo_qwen25_7b", f"backend={backend}"])
    assert {arm.name: refusals(arm.config) for arm in plan.arms} == {arm.name: [] for arm in plan.arms}
    said = differences(plan)
    assert bool(said) == (backend != "builtin")
    assert all(line.startswith(f"backend={backend}: ") for line in said)
    assert any("(s - 1)/10 of the learning rate in verl" in line for line in said) == (backend == "verl")
    assert refuse(dataclasses.replace(plan, arms=tuple(map(elsewhere, plan.arms)))).notes == (*plan.notes, *said)


def elsewhere(arm: PlannedArm) -> PlannedArm:
    """The arm on machines that lack nothing."""
    runtime = dataclasses.replace(arm.config.runtime, elsewhere=True)
    return dataclasses.replace(arm, composed_config=dataclasses.replace(arm.config, runtime=runtime))

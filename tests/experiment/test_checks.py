"""Vacuous and confounded comparisons are named before anything runs: the offending configuration and the message, one by one."""

from __future__ import annotations

from pathlib import Path

import pytest
from tables import table
from verbs import Said

from harness.backends import builtin
from harness.configuration.compose import compose_run, config_dir, options
from harness.configuration.error import ConfigError
from harness.experiment.checks import Objection, check_plan, report_checks
from harness.experiment.declaration import Experiment
from harness.experiment.plan import Arm, PlannedArm
from harness.experiment.planning import plan_experiment, plan_of, planned_arm


def planned(name: str, *overrides: str, parent: str | None = None, patch: str | None = None) -> PlannedArm:
    arm = Arm(name, overrides, parent=parent, patch=patch, patches=(patch,) if patch else ())
    return planned_arm(arm, compose_run(list(overrides)), Experiment("test", seeds=[0, 1]))


def findings(*arms: PlannedArm, match: str = "steps", design: str = "arms") -> list[Objection]:
    return check_plan(plan_of(Experiment("test", design=design, seeds=[0, 1], match=match), arms, "harness run"))


def only(*arms: PlannedArm) -> Objection:
    (finding,) = findings(*arms)
    return finding


def clip_higher_and(*more: str) -> tuple[PlannedArm, PlannedArm]:
    """A base, and the rung that adds the wider clip and what else is given."""
    wider = ["algorithm=grpo", "patch=[clip_higher]", *more]
    return planned("base", "algorithm=grpo"), planned("rung", *wider, parent="base", patch="clip_higher")


def test_a_rung_that_changes_more_than_its_patch_declares() -> None:
    finding = only(*clip_higher_and("optimizer.learning_rate=1e-3"))
    assert finding.check == "more than one change"
    assert "also in optimizer.learning_rate" in finding.reason


def test_a_budget_that_the_experiment_sets_is_no_change_of_an_arm() -> None:
    arms = clip_higher_and("training.steps=1200", "training.generated_tokens=200000")
    assert findings(*arms, match="tokens") == []
    assert only(*arms).check == "more than one change"


def test_a_patch_of_several_keys_is_one_change() -> None:
    base = planned("base", "algorithm=ppo")
    rung = planned("rung", "algorithm=ppo", "patch=[group_sampling]", parent="base", patch="group_sampling")
    assert not findings(base, rung)  # two keys, both declared; responses per update stay 16


@table(__file__, "unequal_cost", "override, reason")
def test_another_number_of_generated_tokens_per_update(override: str, reason: str) -> None:
    base = planned("base", "algorithm=grpo")
    finding = only(base, planned("arm", "algorithm=grpo", override, parent="base"))
    assert finding.check == "unequal cost"
    assert reason in finding.reason
    equal = planned("arm", "algorithm=grpo", override, "training.generated_tokens=100000", parent="base")
    assert not findings(base, equal)


def test_a_level_that_costs_more_is_named_once(tmp_path: Path) -> None:
    (tmp_path / "patch").mkdir()
    for size in (4, 16):
        text = f"# @package _global_\nalgorithm:\n  responses_per_prompt: {size}\n"
        (tmp_path / "patch" / f"group_{size}.yaml").write_text(text)
    levels = "{group: [none, group_4, group_16], sampling: [none, dynamic_sampling], clip: [none, clip_higher]}"
    declared = ["experiment=dapo_factorial", "~experiment.patches", "~experiment.together"]
    declared.append(f"experiment.factors={levels}")
    with config_dir(str(tmp_path)):
        found = {one.arm: one for one in check_plan(plan_experiment(declared))}
        equal = check_plan(plan_experiment([*declared, "match=tokens"]))
    assert [(item.arm, item.check) for item in equal] == [(arm, "unequal updates") for arm in found]
    assert "so about 0.5 times the updates" in equal[1].reason
    assert list(found) == ["group_4", "group_16", "dynamic_sampling"]
    assert {one.check for one in found.values()} == {"unequal cost"}
    assert found["group_16"].reason.startswith("in 4 of 12 cells, against base: 32 responses per update instead")
    assert "in 6 of 12 cells, against base: dynamic sampling generates" in found["dynamic_sampling"].reason
    assert "match=tokens" in found["dynamic_sampling"].fix


def test_importance_weights_of_one_computation_are_inert() -> None:
    found = check_plan(plan_experiment(["experiment=olmo3_leave_one_out"]))
    (finding,) = [item for item in found if item.check == "inert engine correction"]
    assert "every weight is 1 up to rounding" in finding.reason
    other = ["algorithm=olmo3", "engine=transformers"]
    arm = planned("arm", *other, "algorithm.engine_correction.cap=3", parent="base")
    assert not findings(planned("base", *other), arm)


@table(__file__, "unread", "base, key")
def test_a_change_that_nothing_reads(base: str, key: str) -> None:
    overrides = f"algorithm={base}".split()
    finding = only(planned("base", *overrides), planned("arm", *overrides, f"algorithm{key}", parent="base"))
    assert finding.check == "nothing that matters changes"


def test_the_same_arm_under_two_names() -> None:
    finding = only(planned("dapo", "algorithm=dapo"), planned("again", "algorithm=dapo", parent="dapo"))
    assert finding.check == "the same arm twice"
    assert "exactly that of dapo" in finding.reason


def test_modes_warn_refuse_and_off(capsys: pytest.CaptureFixture[str]) -> None:
    plan = plan_of(Experiment("test", seeds=[0]), [planned("arm", "algorithm=dr_grpo_equation")], "harness run")
    assert len(report_checks(plan, "warn")) == 1
    assert "check [gradient clipping always binds] arm:" in capsys.readouterr().err
    assert report_checks(plan, "off") == []
    assert capsys.readouterr().err == ""
    with pytest.raises(ConfigError, match=r"1 check\(s\) failed and runtime.checks=refuse; first: \[gradient clipping"):
        report_checks(plan, "refuse")


def test_plan_prints_findings_and_a_refused_run_starts_nothing(tmp_path: object, said: Said) -> None:
    given = ["algorithm=dr_grpo_equation", f"runtime.results={tmp_path}"]
    assert "gradient clipping always binds" in said("plan", *given)
    assert "runtime.checks=refuse" in said("run", *given, "checks=refuse", code=2)


def test_a_listed_arm_without_a_parent_is_not_silently_compared_with_the_first() -> None:
    first, second = planned("first", "algorithm=grpo"), planned("second", "algorithm=dapo")
    found = {finding.check: finding for finding in findings(first, second)}
    assert "compared with first" in found["no parent"].reason
    assert "parent: first" in found["no parent"].fix
    assert "against first" in found["unequal cost"].reason
    assert not findings(first, planned("second", "algorithm=grpo_kl", parent="first"))
    # Of one_factor every arm is a change to the base.
    of_one_factor = {finding.check for finding in findings(first, second, design="one_factor")}
    assert of_one_factor == found.keys() - {"no parent"}


@pytest.mark.parametrize("algorithm", options("algorithm"))
def test_every_system_is_trained_on_the_testbed(algorithm: str) -> None:
    assert builtin.check(compose_run([f"algorithm={algorithm}"])) == []

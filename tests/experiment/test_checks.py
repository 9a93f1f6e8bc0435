"""Vacuous and confounded comparisons are named before anything runs: the offending configuration and the message, one by one."""

from __future__ import annotations

from pathlib import Path

import pytest
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


KL_IN_REWARD = ["algorithm=grpo", "algorithm/kl=k1", "algorithm.kl.coefficient=0.001", "algorithm.kl.placement=reward"]
OF_ITS_OWN = ["model=pretrained", "model.path=./somewhere"]
ON_THE_HUB = ["model=pretrained", "model.path=ORG/NAME", "optimizer=verl_dapo"]


@pytest.mark.parametrize(
    ("overrides", "check", "reason", "fix"),
    [
        (["algorithm=dapo", "algorithm.updates_per_step=1"], "inert clip", "importance ratio is always 1", "updates_per_step"),
        (["algorithm=cispo", "algorithm.updates_per_step=1"], "inert clip", "importance ratio is always 1", "updates_per_step"),
        (["algorithm=gspo", "algorithm.updates_per_step=1"], "inert clip", "importance ratio is always 1", "updates_per_step"),
        (["algorithm=dr_grpo_equation"], "gradient clipping always binds", "optimizer.max_gradient_norm=1", ""),
        (["algorithm=dapo", "algorithm.dead_groups.metric=reward"], "refill on a continuous reward", "", "metric=accuracy"),
        (
            ["algorithm=dapo", "algorithm.dead_groups.policy=drop", "algorithm.dead_groups.metric=reward"],
            "drop on a continuous reward", "", "metric=accuracy",
        ),
        (KL_IN_REWARD, "KL alone in dead groups", "however small the coefficient", ""),
        (
            ["algorithm=grpo", "patch=[clip_higher,clip_higher_olmo]"],
            "conflicting patches", "both write algorithm.surrogate.clip_high", "",
        ),
        (["algorithm=grpo", "algorithm.responses_per_prompt=1"], "groups of one", "", ""),
        (
            ["sampling.max_response_tokens=32", "evaluation.caps=[64]"],
            "not evaluated at the training cap", "a cap of 64 tokens, while training cuts responses at 32", "add 32 to evaluation.caps",
        ),
        (OF_ITS_OWN, "learning rate", "0.0002", "optimizer=verl_dapo"),
        (ON_THE_HUB, "training on the CPU", "ORG/NAME, a model of unknown size", "runtime=one_gpu"),
        (["model=qwen25_0_5b", "optimizer=verl_dapo"], "training on the CPU", "of 494M parameters", "runtime.device=cpu"),
        (["optimizer.learning_rate=1e-6"], "learning rate", "hardly moves", "leave optimizer.learning_rate at 0.0002"),
        (["optimizer.learning_rate=2"], "learning rate", "=2 moves every weight by about 2", "such as 0.0002 here, or 1e-6"),
        (["algorithm.surrogate.clip_high=28"], "clip bound", "clip_high=28 lets a ratio grow to 29", "write 0.28 for 28 per cent"),
        (
            ["algorithm=dppo", "algorithm.surrogate.threshold_low=1", "algorithm.surrogate.threshold_high=2"],
            "trust region", "thresholds of 1 and more stop no token", "such as 0.2 (DPPO)",
        ),
    ],
)  # fmt: skip
def test_an_arm_that_shows_nothing_by_itself(overrides: list[str], check: str, reason: str, fix: str) -> None:
    finding = only(planned("arm", *overrides))
    assert finding.check == check
    assert reason in finding.reason
    assert fix in finding.fix
    assert str(finding).startswith(f"[{check}] arm: ")


@pytest.mark.parametrize(
    "overrides",
    [
        ["algorithm=gspo", "algorithm.updates_per_step=1", "algorithm.epochs_per_step=2"],  # the ratio moves
        ["algorithm=dr_grpo"],
        [*KL_IN_REWARD, "algorithm.kl.placement=loss"],
        [*KL_IN_REWARD, "algorithm.kl.coefficient=0"],
        [*KL_IN_REWARD, "algorithm.advantage.scale=none"],
        [*KL_IN_REWARD, "algorithm.dead_groups.policy=drop"],
        ["algorithm=ppo"],  # one response a prompt, and a critic
        ["sampling.max_response_tokens=32", "evaluation.caps=[32,64]"],
        [*OF_ITS_OWN, "optimizer=verl_dapo"],
        ["optimizer.learning_rate=1e-5"],
        [*ON_THE_HUB, "runtime.device=cuda"],
        [*ON_THE_HUB, "runtime.device=cpu"],
        ["model=smollm2_135m_instruct", "optimizer=verl_dapo"],
        ["optimizer.learning_rate=0"],  # meant
        [*OF_ITS_OWN, "model.lora.rank=8"],
    ],
)
def test_an_arm_that_looks_like_one_of_these_and_is_none(overrides: list[str]) -> None:
    assert not findings(planned("arm", *overrides))


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


@pytest.mark.parametrize(
    ("override", "reason"),
    [
        ("algorithm.dead_groups.policy=refill", "dynamic sampling"),
        ("algorithm.responses_per_prompt=16", "32 responses per update instead of 16"),
        ("sampling.max_response_tokens=64", "a cap of 64 instead of 32 tokens"),
    ],
)
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
        equal = [check_plan(plan_experiment([*declared, f"match={one}"])) for one in ("tokens", "seconds")]
    assert equal == [[], []]
    assert list(found) == ["group_4", "group_16", "dynamic_sampling"]
    assert {one.check for one in found.values()} == {"unequal cost"}
    assert found["group_16"].reason.startswith("in 4 of 12 cells, against base: 32 responses per update instead")
    assert "in 6 of 12 cells, against base: dynamic sampling generates" in found["dynamic_sampling"].reason
    assert "match=tokens" in found["dynamic_sampling"].fix


@pytest.mark.parametrize("name", ["dapo_leave_one_out", "olmo3_leave_one_out"])
def test_an_arm_that_gives_up_dynamic_sampling_generates_less(name: str) -> None:
    plan = plan_experiment([f"experiment={name}"])
    compared = [arm for arm in plan.arms if arm.parent]
    cheap = [arm.name for arm in compared if arm.config.algorithm.dead_groups.policy != "refill"]
    found = {item.arm: item for item in check_plan(plan) if item.check == "unequal cost"}
    assert list(found) == cheap
    assert "without dynamic sampling it generates a fraction of the tokens" in found[cheap[0]].reason


def test_a_critics_warm_up_takes_updates_from_the_policy() -> None:
    found = check_plan(plan_experiment(["experiment=vapo_leave_one_out"]))
    unequal = {item.arm: item.reason for item in found if item.check == "unequal policy updates"}
    assert set(unequal) == {"without_value_pretraining", "ppo"}
    # 60 steps of 16 updates, less the 10 of the warm-up
    assert "960 policy updates instead of 800 of vapo" in unequal["without_value_pretraining"]


def test_importance_weights_of_one_computation_are_inert() -> None:
    found = check_plan(plan_experiment(["experiment=olmo3_leave_one_out"]))
    (finding,) = [item for item in found if item.check == "inert engine correction"]
    assert "every weight is 1 up to rounding" in finding.reason
    other = ["algorithm=olmo3", "engine=transformers"]
    arm = planned("arm", *other, "algorithm.engine_correction.cap=3", parent="base")
    assert not findings(planned("base", *other), arm)


@pytest.mark.parametrize(
    ("base", "key"),
    [
        ("grpo", "/kl=k1"),
        ("grpo", ".overlong.penalty=2.0"),
        ("grpo", ".dead_groups.metric=reward"),
        ("grpo", ".advantage.whiten_over=tokens"),
        ("grpo", ".entropy_control.step=0.01"),
        ("grpo", ".entropy_control.maximum=0.01"),
        ("max_rl", ".advantage.ddof=0"),
        ("sign_balance", ".advantage.ddof=0"),
        ("ppo algorithm.advantage.whiten_over=none", ".advantage.ddof=0"),
        ("ppo algorithm.advantage.whiten_over=none", ".advantage.epsilon=0.1"),
        ("vapo", ".advantage.lambda_policy=0.5"),
    ],
)
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


REFUSED = {
    "a critic": ["algorithm=vapo", "model=qwen25_0_5b"],
    "algorithm.advantage=gae": ["algorithm=ppo", "runtime.ranks=2"],
    "algorithm.source=demonstrations": ["algorithm=sft", "model=qwen25_0_5b"],
    "trains on one rank only": ["algorithm=rft", "runtime.ranks=2"],
    "trains a run on one node; set runtime.nodes=1, or use backend=verl": ["runtime.nodes=2"],
    "runtime.gpus_per_run=8 with runtime.device=auto, which trains on the CPU; add runtime.device=cuda": [
        "runtime.gpus_per_run=8"
    ],
    "runtime.runs_per_gpu=4 with runtime.device=cpu": ["runtime.runs_per_gpu=4", "runtime.device=cpu"],
    "runtime.ranks=2 with runtime.gpus_per_run=1": ["runtime.ranks=2", "runtime.device=cuda"],
}


@pytest.mark.parametrize("words", REFUSED)
def test_what_the_trainer_cannot_do_is_refused_before_it_runs(words: str) -> None:
    (reason,) = builtin.check(compose_run(REFUSED[words]))
    assert words in reason


@pytest.mark.parametrize("algorithm", options("algorithm"))
def test_every_system_is_trained_on_the_testbed(algorithm: str) -> None:
    assert builtin.check(compose_run([f"algorithm={algorithm}"])) == []


@pytest.mark.parametrize("seed", [-1, 2**63, 2**64])
def test_a_seed_that_no_table_holds_is_refused(seed: int) -> None:
    """It trained, and then no report could be made."""
    with pytest.raises(ConfigError, match=rf"seed={seed} must be between 0 and"):
        compose_run([f"seed={seed}"])
    with pytest.raises(ConfigError, match=rf"experiment.seeds={seed} must be between 0 and"):
        Experiment("test", seeds=[0, seed])

"""Designs from patches: which arms they have, and what may stand together in one arm."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

from harness.configuration.compose import compose_run
from harness.configuration.error import ConfigError
from harness.experiment.designs import design_arms, patch_changes, patches_of, with_patch
from harness.experiment.planning import make_plan, plan_experiment

BASE = ["algorithm=grpo"]
FIVE = [
    "overlong_filtering",
    "clip_higher",
    "soft_overlong_replaces_filter",
    "token_level_loss_batch",
    "dynamic_sampling",
]
BOTH = {"overlong_filter_and_punishment": ["overlong_filtering", "soft_overlong_replaces_filter"]}


def test_a_factorial_has_every_subset_and_a_patch_for_two_that_write_one_key() -> None:
    arms = design_arms("factorial", BASE, FIVE, together=BOTH)
    assert {arm.patches for arm in arms} == {
        subset for count in range(6) for subset in itertools.combinations(FIVE, count)
    }
    policies = {
        frozenset(arm.patches) & set(BOTH["overlong_filter_and_punishment"]): compose_run(arm.overrides)
        for arm in arms
    }
    assert {tuple(sorted(key)): run.algorithm.overlong.policy for key, run in policies.items()} == {
        (): "score",
        ("overlong_filtering",): "mask",
        ("soft_overlong_replaces_filter",): "soft",
        ("overlong_filtering", "soft_overlong_replaces_filter"): "mask_and_soft",
    }


@pytest.mark.parametrize("name", ["dapo_ladder", "dapo_leave_one_out", "dapo_one_factor", "dapo_shapley"])
def test_the_full_factorial_of_dapo_contains_its_other_designs(name: str) -> None:
    def arm_ids(experiment: str) -> set[str]:
        return {planned.runs[0].arm_id for planned in make_plan([f"experiment={experiment}"]).arms}

    assert len(arm_ids("dapo_factorial")) == 32
    assert arm_ids(name) <= arm_ids("dapo_factorial")


@pytest.mark.parametrize(
    ("together", "message"),
    [
        ({}, "name it in experiment.together"),
        ({"overlong_filter_and_punishment": ["overlong_filtering"]}, "two patches or more"),
        (
            {"overlong_filter_and_punishment": ["overlong_filtering", "typo"]},
            "name it in experiment.together",
        ),
        (BOTH | {"other": ["clip_higher", "overlong_filtering"]}, "'overlong_filtering' is in"),
    ],
)
def test_patches_of_one_key_need_a_patch_for_both(together: dict[str, list[str]], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        design_arms("factorial", BASE, FIVE, together=together)


@pytest.mark.parametrize("name", ["dapo_ladder", "dapo_replaces_filter_ladder", "verl_dapo_qwen25_32b"])
def test_an_arm_of_a_ladder_is_the_one_before_and_the_patch_that_its_rung_adds(name: str) -> None:
    arms = make_plan([f"experiment={name}"]).arms
    assert arms[0].arm.parent is None
    for below, arm in itertools.pairwise(arms):
        assert arm.arm.parent == below.arm.name
        assert arm.arm.patch is not None
        assert patch_changes(arm.arm.patch, [*below.arm.overrides, *below.common])
        assert list(arm.arm.patches) == [arm.arm.patch]
    assert [arm.arm.patch for arm in arms][-1] == "dynamic_sampling"


def test_patches_are_added_after_those_an_arm_has() -> None:
    assert with_patch(["patch=[a, b]", "seed=1"], "c") == ["seed=1", "patch=[a,b,c]"]
    assert patches_of(["algorithm=grpo", "patch=[a,b]"]) == ["a", "b"]
    assert patches_of(["patch=[]"]) == []


@pytest.mark.parametrize(
    ("patch", "says"),
    [("clip_hihger", "did you mean 'clip_higher'"), ("value_pretraining", "critic.*patch=value_pretraining")],
)
def test_a_patch_that_cannot_stand_says_why(patch: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        patch_changes(patch, ["algorithm=grpo"])


def own_patches(folder: Path, base: str = "") -> list[str]:
    """A folder with two patches of its own and a factorial of them."""
    for name, line in (("group_16", "responses_per_prompt: 16"), ("bonus", "entropy_coefficient: 0.01")):
        path = folder / "patch" / f"{name}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# @package _global_\n# one\nalgorithm:\n  {line}\n")
    (folder / "experiment").mkdir(exist_ok=True)
    (folder / "experiment" / "groups.yaml").write_text(
        f"name: groups\ndesign: factorial\nseeds: [0]\nbase: [algorithm=grpo{base}]\npatches: [group_16, bonus]\n"
    )
    return [f"config_dir={folder}", "experiment=groups"]


def test_patches_of_ones_own_stand_in_every_design(tmp_path: Path) -> None:
    plan = plan_experiment(own_patches(tmp_path))
    assert [arm.arm.name for arm in plan.arms] == ["base", "group_16", "bonus", "group_16+bonus"]
    assert plan.arms[-1].config.algorithm.responses_per_prompt == 16
    assert plan.arms[-1].config.algorithm.entropy_coefficient == 0.01


def test_a_base_that_overrides_a_patch_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"algorithm\.entropy_coefficient: patch 'bonus' writes it"):
        plan_experiment(own_patches(tmp_path, ", algorithm.entropy_coefficient=0.5"))

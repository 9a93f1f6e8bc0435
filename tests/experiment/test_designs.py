"""Designs from patches: which arms they have, and what may stand together in one arm."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path

import pytest
from tables import table

from harness.configuration.compose import compose_run, config_dir
from harness.configuration.error import ConfigError
from harness.experiment.checks import refuse
from harness.experiment.declaration import as_file
from harness.experiment.designs import design_arms
from harness.experiment.plan import Plan
from harness.experiment.planning import plan_experiment
from harness.statistics.attribution import Crossing

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
    arms = design_arms("factorial", BASE, Crossing.of_patches(FIVE), together=BOTH)
    assert {arm.patches for arm in arms} == {
        subset for count in range(6) for subset in itertools.combinations(FIVE, count)
    }
    overlong = [arm for arm in arms if set(arm.patches) <= set(BOTH["overlong_filter_and_punishment"])]
    assert {arm.patches: compose_run(arm.overrides).algorithm.overlong.policy for arm in overlong} == {
        (): "score",
        ("overlong_filtering",): "mask",
        ("soft_overlong_replaces_filter",): "soft",
        ("overlong_filtering", "soft_overlong_replaces_filter"): "mask_and_soft",
    }


# ---- factors with levels --------------------------------------------------------------------------------------------------

Factors = Callable[..., Plan]
LINES = {
    "group_4": "responses_per_prompt: 4",
    "group_8": "responses_per_prompt: 8",  # what the base has
    "group_16": "responses_per_prompt: 16",
    "wide": "responses_per_prompt: 32\n  prompts_per_step: 16",
    "again": "responses_per_prompt: 16",
    "bonus": "entropy_coefficient: 0.01",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Patches of one's own, and an experiment without arms."""
    folder = tmp_path_factory.mktemp("own")
    for group in ("patch", "experiment", "rung"):
        (folder / group).mkdir()
    for name, line in LINES.items():
        (folder / "patch" / f"{name}.yaml").write_text(f"# @package _global_\nalgorithm:\n  {line}\n")
    (folder / "experiment" / "groups.yaml").write_text(
        as_file("name: groups\nseeds: [0, 1, 2]\nbase: [algorithm=grpo]\n")
    )
    return folder


@pytest.fixture(scope="module")
def factors(folder: Path) -> Factors:
    """Plans an experiment with these factors."""

    def planned(levels: str, *more: str) -> Plan:
        asked = [f"experiment.{item}" for item in (f"factors={levels}", *more)]
        with config_dir(str(folder)):
            return plan_experiment(["experiment=groups", f"runtime.results={folder / 'results'}", *asked])

    return planned


def test_levels_of_factors_are_crossed(factors: Factors) -> None:
    plan = factors("{group: [group_4, group_8, group_16], bonus: [none, bonus]}")
    cells = {
        arm.name: (arm.config.algorithm.responses_per_prompt, arm.config.algorithm.entropy_coefficient)
        for arm in plan.arms
    }
    assert cells == {
        f"group_{size}" + "+bonus" * bool(bonus): (size, bonus) for size in (4, 8, 16) for bonus in (0.0, 0.01)
    }
    assert next(iter(cells)) == "group_4"  # the first levels: what the others are compared with
    record = plan.record()
    assert record["design"] == "factorial"
    assert record["factors"] == {"group": ["group_4", "group_8", "group_16"], "bonus": ["none", "bonus"]}


@table(__file__, "uncrossed", "declared, says")
def test_factors_that_cannot_be_crossed_are_refused(declared: str, says: str, factors: Factors) -> None:
    with pytest.raises(ConfigError, match=says):
        factors(*declared.split("\n"))


def test_rungs_of_ones_own_are_a_ladder(folder: Path) -> None:
    for name, below, patch in (("mine_1", "dapo_0_naive_grpo", "bonus"), ("mine_2", "mine_1", "group_16")):
        (folder / "rung" / f"{name}.yaml").write_text(f"# @package _global_\ndefaults: [{below}, /patch/{patch}]\n")
    rungs = ("dapo_0_naive_grpo", "mine_1", "mine_2")
    arms = ", ".join(f"{{name: {rung}, overrides: [rung={rung}]}}" for rung in rungs)
    (folder / "experiment" / "ladder.yaml").write_text(as_file(f"name: ladder\ndesign: cumulative\narms: [{arms}]\n"))
    with config_dir(str(folder)):
        plan = plan_experiment(["experiment=ladder"])
    assert [arm.patch for arm in plan.arms] == [None, "bonus", "group_16"]


NINE = {
    "optimizer": {"learning_rate": 1e-3, "beta1": 0.5, "beta2": 0.5, "epsilon": 1e-6, "weight_decay": 0.1},
    "algorithm": {"entropy_coefficient": 0.1, "responses_per_prompt": 4},
    "sampling": {"temperature": 0.5, "max_response_tokens": 16},
}


def test_only_what_a_design_makes_is_counted_as_its_arms(folder: Path) -> None:
    for section, values in NINE.items():
        for key, value in values.items():
            (folder / "patch" / f"{key}.yaml").write_text(f"# @package _global_\n{section}:\n  {key}: {value}\n")
    nine = Crossing.of_patches([key for values in NINE.values() for key in values])
    with config_dir(str(folder)):
        for design in ("one_factor", "leave_one_out", "cumulative"):
            assert len(design_arms(design, BASE, nine)) == 10 + (design == "leave_one_out")
        with pytest.raises(ConfigError, match=r"design=factorial has 512 arms, more than 256"):
            design_arms("factorial", BASE, nine)


def test_an_empty_cell_is_refused_before_anything_runs(factors: Factors, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = factors("{g: [none, group_4], b: [none, bonus]}")
    wide = [["no room"], [], [], []]
    monkeypatch.setattr("harness.experiment.checks.refusals", lambda config: wide.pop())
    with pytest.raises(ConfigError, match=r"the cell group_4\+bonus cannot be run.*no room"):
        refuse(plan)

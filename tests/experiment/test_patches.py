"""What a patch changes is read from its file where it only sets values; composing it says the same. Plans compose nothing twice."""

from __future__ import annotations

from collections import Counter

import pytest

from harness.configuration import compose
from harness.configuration.compose import compose_run, options, patch_values
from harness.configuration.error import ConfigError
from harness.configuration.identity import difference
from harness.experiment.checks import check_plan
from harness.experiment.patches import patch_changes, patches_of, with_patch
from harness.experiment.planning import make_plan

ON = {
    "positive_example_loss": "vapo",
    "decoupled_gae": "vapo",
    "length_adaptive_gae": "vapo",
    "no_value_clip": "vapo",
    "value_pretraining": "vapo",
}


@pytest.mark.parametrize("patch", options("patch"))
def test_a_patch_read_from_its_file_changes_what_composing_it_changes(patch: str) -> None:
    base = [f"algorithm={ON.get(patch, 'grpo')}"]
    composed = difference(compose_run(base), compose_run(with_patch(base, patch)))
    assert dict(patch_changes(patch, base)) == composed
    if patch_values(patch) is not None:
        assert composed.keys() <= patch_values(patch).keys()


def test_patches_are_added_after_those_an_arm_has() -> None:
    assert with_patch(["patch=[a, b]", "seed=1"], "c") == ["seed=1", "patch=[a,b,c]"]
    assert patches_of(["algorithm=grpo", "patch=[a,b]"]) == ["a", "b"]
    assert patches_of(["patch=[]"]) == []


def test_an_unknown_patch_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match="did you mean 'clip_higher'"):
        patch_changes("clip_hihger", [])


def test_a_patch_that_does_not_fit_says_which_key() -> None:
    with pytest.raises(ConfigError, match="critic"):
        patch_changes("value_pretraining", ["algorithm=grpo"])


@pytest.mark.parametrize("experiment", ["dapo_ladder", "dapo_leave_one_out", "clip_lr_grid"])
def test_a_plan_and_its_checks_compose_no_configuration_twice(
    experiment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    composed: Counter[tuple[str, ...]] = Counter()
    original = compose.compose_values

    def counted(overrides: list[str]) -> dict[str, object]:
        composed[tuple(overrides)] += 1
        return original(overrides)

    monkeypatch.setattr(compose, "compose_values", counted)
    compose._run_of.cache_clear()
    plan = make_plan([f"experiment={experiment}"])
    check_plan(plan)
    assert max(composed.values()) == 1
    # Beyond the arms: the base of a design, and the patches that choose a member of a group.
    assert sum(composed.values()) <= len(plan.arms) + 3


def test_a_composed_configuration_belongs_to_its_caller() -> None:
    first = compose_run(["algorithm=grpo"])
    first.optimizer.learning_rate = 1.0
    assert compose_run(["algorithm=grpo"]).optimizer.learning_rate != 1.0

"""The shipped experiments: every one plans, offline and with what it says of itself; each is planned once for all of these tests."""

from __future__ import annotations

import functools
import itertools
import re
from pathlib import Path

import pytest
from tables import table

from harness.configuration.compose import options
from harness.configuration.error import ConfigError
from harness.experiment.checks import check_plan, refusals
from harness.experiment.designs import patch_changes
from harness.experiment.plan import Plan
from harness.experiment.planning import declared_experiment, plan_experiment
from harness.experiment.power import planned_comparisons

ROOT = Path(__file__).parents[2]


@functools.cache
def shipped(name: str, *overrides: str) -> Plan:
    return plan_experiment([f"experiment={name}", *overrides])


EXPECTED = {
    "unequal cost",
    "gradient clipping always binds",
    "unequal updates",
    "inert engine correction",
}  # said in the experiments' notes or shown as an axis


# Published so: Olmo 3's RL-Zero clips at 0.272 with one update a step (arXiv:2512.13961, Table 49). The KL grid has placements to compare.
# It evaluates at 32768 tokens and trains at 16384.
AS_PUBLISHED = {
    "olmo3_rl_zero_math_7b": {"inert clip", "not evaluated at the training cap"},
    "kl_grid": {"KL alone in dead groups"},
}


@pytest.mark.parametrize("experiment", options("experiment"))
def test_every_experiment_plans_and_is_neither_vacuous_nor_confounded(experiment: str) -> None:
    if declared_experiment([f"experiment={experiment}"]).search is not None:
        with pytest.raises(ConfigError, match="arms follow: harness run experiment="):
            plan_experiment([f"experiment={experiment}"])
        return
    plan = shipped(experiment)
    assert len({arm.name for arm in plan.arms}) == len(plan.arms)
    if declared_experiment([f"experiment={experiment}"]).tune is None:  # otherwise trials come first
        assert plan.specs
        assert all(arm["runs"] for arm in plan.record()["arms"])
    assert {finding.check for finding in check_plan(plan)} <= EXPECTED | AS_PUBLISHED.get(experiment, set())


@pytest.mark.parametrize("name", ["dapo_leave_one_out", "olmo3_leave_one_out"])
def test_an_arm_that_gives_up_dynamic_sampling_generates_less(name: str) -> None:
    plan = shipped(name)
    compared = [arm for arm in plan.arms if arm.parent]
    cheap = [arm.name for arm in compared if arm.config.algorithm.dead_groups.policy != "refill"]
    found = {item.arm: item for item in check_plan(plan) if item.check == "unequal cost"}
    assert list(found) == cheap
    assert "without dynamic sampling it generates a fraction of the tokens" in found[cheap[0]].reason


def test_a_critics_warm_up_takes_updates_from_the_policy() -> None:
    found = check_plan(shipped("vapo_leave_one_out"))
    unequal = {item.arm: item.reason for item in found if "critic's warm-up" in item.reason}
    assert set(unequal) == {"without_value_pretraining", "ppo"}
    # 100 steps of 16 updates, less the 10 of the warm-up
    assert "1600 policy updates (a critic's warm-up is none) instead of 1440" in unequal["without_value_pretraining"]


@pytest.mark.parametrize("name", ["dapo_ladder", "dapo_leave_one_out", "dapo_one_factor"])
def test_the_full_factorial_of_dapo_contains_its_other_designs(name: str) -> None:
    def arm_ids(experiment: str) -> set[str]:
        return {planned.spec(0).arm_id for planned in shipped(experiment, "experiment.overrides=[]").arms}

    assert len(arm_ids("dapo_factorial")) == 32
    assert arm_ids(name) <= arm_ids("dapo_factorial")


@pytest.mark.parametrize("name", ["dapo_ladder", "verl_dapo_qwen25_32b"])
def test_an_arm_of_a_ladder_is_the_one_before_and_the_patch_that_its_rung_adds(name: str) -> None:
    plan = shipped(name)
    arms = plan.arms
    assert arms[0].parent is None
    for below, arm in itertools.pairwise(arms):
        assert arm.parent == below.name
        assert arm.patch is not None
        assert patch_changes(arm.patch, [*below.overrides, *plan.overrides])
        assert list(arm.patches) == [arm.patch]
    assert [arm.patch for arm in arms][-1] == "dynamic_sampling"


def test_every_rung_of_the_ladder_has_its_own_measure_in_its_own_runs() -> None:
    arms = shipped("dapo_ladder").record()["arms"]
    assert [[(m["fields"], m["arm"]) for m in arm["engagement"]] for arm in arms] == [
        [],
        [(["masked_fraction"], "dapo_1_overlong_filtering")],
        [(["clip_released_fraction"], "dapo_2_clip_higher")],
        [(["punished_fraction"], "dapo_3_soft_overlong")],
        [(["weight_change_response_mean"], "dapo_4_token_level_loss")],
        [(["refilled_fraction"], "dapo_5_dynamic_sampling")],
    ]
    assert arms[2]["engagement"][0]["keys"] == ["algorithm.surrogate.clip_high"]


def test_what_is_left_out_is_measured_in_the_recipe_that_has_it() -> None:
    plan = shipped("olmo3_leave_one_out")
    full = plan.arms[1].name
    by_fields = {m.fields: m.arm for arm in plan.arms for m in arm.engagement}
    for field in ("clip_released_fraction", "refilled_fraction", "correction_change_mean"):
        assert by_fields[(field,)] == full
    assert plan.arm(full).engagement == ()


@table(__file__, "at_scale", "name, folder")
def test_an_experiment_at_scale_plans_with_what_is_pinned_and_explained(name: str, folder: str) -> None:
    """Models and data sets have a commit of 40 digits, or none: then the launch names the key to give."""
    for planned_arm in shipped(name).arms:
        config = planned_arm.config
        assert refusals(config) == [], planned_arm.name
        assert re.fullmatch("[0-9a-f]{40}", config.model.revision)
        for source in (config.task, *config.evaluation.benchmarks.values()):
            assert source.revision is None or re.fullmatch("[0-9a-f]{40}", source.revision)
        assert all(benchmark.revision for benchmark in config.evaluation.benchmarks.values())
    page = (ROOT / folder / "README.md").read_text()
    assert [word for word in (f"experiment={name}", "Licence", "arXiv:") if word not in page] == []


def test_the_paper_scale_presets_keep_the_papers_values() -> None:
    """The values that algorithms quote: DAPO section 4.1, Dr. GRPO Table 6, Olmo 3 Table 49."""
    dapo = plan_experiment(["experiment=verl_dapo_qwen25_32b", "preset=dapo_qwen25_32b"]).arms[-1].config
    algorithm = dapo.algorithm
    assert (algorithm.prompts_per_step, algorithm.responses_per_prompt) == (512, 16)
    assert algorithm.updates_per_step == 16
    assert (algorithm.surrogate.clip_low, algorithm.surrogate.clip_high) == (0.2, 0.28)
    assert dapo.sampling.max_response_tokens * algorithm.overlong.buffer_fraction == 4096
    assert (dapo.optimizer.learning_rate, dapo.optimizer.warmup_steps) == (1e-6, 20)
    assert (dapo.evaluation.samples_per_problem, dapo.evaluation.top_p) == (32, 0.7)
    oat = shipped("oat_zero_7b").arms[-1].config
    assert oat.algorithm.aggregation.constant_tokens == oat.sampling.max_response_tokens == 3000
    assert oat.algorithm.prompts_per_step * 8 / oat.algorithm.updates_per_step == 128
    assert (oat.optimizer.beta1, oat.optimizer.beta2, oat.algorithm.advantage.scale) == (0.9, 0.95, "none")
    olmo = shipped("olmo3_rl_zero_math_7b").arms[0].config
    assert (olmo.algorithm.prompts_per_step, olmo.algorithm.responses_per_prompt) == (32, 8)
    assert olmo.training.steps == 2000
    assert (olmo.algorithm.surrogate.clip_high, olmo.algorithm.engine_correction.cap) == (0.272, 2.0)
    assert olmo.algorithm.curriculum.pass_rate == 0.875


@pytest.mark.parametrize(
    ("name", "comparisons"),
    [("dapo_ladder", 5), ("dapo_leave_one_out", 5), ("dapo_one_factor", 5), ("aa", 1)],
)
def test_power_counts_the_comparisons_of_the_answers_table(name: str, comparisons: int) -> None:
    planned = shipped(name)
    assert planned_comparisons(planned) == comparisons
    stored = Plan.read(planned.record())
    assert sum(stored.reference_of(arm) is not None for arm in stored.arms) == comparisons


def test_the_second_arm_is_the_same_configuration_with_other_seeds() -> None:
    plan = shipped("aa")
    first, second = plan.arms
    assert first.runs.keys().isdisjoint(second.runs)
    assert len({spec.arm_id for spec in plan.specs}) == 1
    assert len({spec.run_id for spec in plan.specs}) == len(plan.specs) == 40
    assert not [finding for finding in check_plan(plan) if "same arm twice" in str(finding)]


def test_the_analysis_reads_seeds_per_arm_and_takes_them_as_independent() -> None:
    plan = Plan.read(shipped("aa").record())
    assert plan.seeds == tuple(range(40))
    assert [plan.seeds_of(arm) for arm in plan.arms] == [tuple(range(20)), tuple(range(20, 40))]
    assert not plan.paired

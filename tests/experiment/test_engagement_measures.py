"""Which measures a difference between two configurations finds, and what `harness plan` knows beforehand."""

from __future__ import annotations

import pytest

from harness.configuration.compose import compose_run
from harness.engagement.measure import Measure, measures
from harness.experiment.declaration import Experiment
from harness.experiment.plan import Arm
from harness.experiment.planning import plan_experiment, plan_of, planned_arm
from harness.store import METRICS

LADDER = "experiment=dapo_ladder"


def found(old: list[str], new: list[str]) -> list[Measure]:
    return measures(compose_run(old), compose_run(new), ("old", "new"))


def test_every_rung_of_the_ladder_has_its_own_measure_in_its_own_runs() -> None:
    arms = plan_experiment([LADDER]).record()["arms"]
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
    plan = plan_experiment(["experiment=olmo3_leave_one_out"])
    full = plan.arms[1].name
    by_fields = {m.fields: m.arm for arm in plan.arms for m in arm.engagement}
    for field in ("clip_released_fraction", "refilled_fraction", "correction_change_mean"):
        assert by_fields[(field,)] == full
    assert plan.arm(full).engagement == ()


CLIP, KL = "algorithm.surrogate.", "algorithm.kl."
OLD, DEAD = "algorithm.engine_correction.old_log_probs", "algorithm.dead_groups.policy"


@pytest.mark.parametrize(
    ("old", "new", "fields", "arm"),
    [
        (f"{CLIP}clip_high=0.2", f"{CLIP}clip_high=0.4", ["clip_released_fraction"], "new"),
        (f"{CLIP}clip_high=0.28", f"{CLIP}clip_high=0.2", ["clip_released_fraction"], "old"),
        (f"{CLIP}clip_high=0.4", f"{CLIP}clip_high=0.28", ["clip_fraction_high"], "new"),
        (f"{CLIP}clip_low=0.2", f"{CLIP}clip_low=0.1", ["clip_fraction_low"], "new"),
        ("algorithm/surrogate=ppo_clip", "algorithm/surrogate=policy_gradient", ["clip_fraction_low", "clip_fraction_high"], "old"),
        ("algorithm/surrogate=ppo_clip", "algorithm/surrogate=divergence_mask", ["clip_fraction_low", "clip_fraction_high"], "new"),
        ("algorithm.off_policy_mask_nats=null", "algorithm.off_policy_mask_nats=0.1", ["off_policy_masked_fraction"], "new"),
        ("algorithm.reward.false_positive=0", "algorithm.reward.false_positive=0.2", ["flipped_verdicts_fraction"], "new"),
        ("algorithm.overlong.policy=mask", "algorithm.overlong.policy=score", ["masked_fraction"], "old"),
        ("algorithm.advantage.scale=group_std", "algorithm.advantage.scale=none", ["sigma_weight_change"], "new"),
        ("algorithm/aggregation=batch_token_mean", "algorithm/aggregation=constant_sum", ["weight_change_batch_token_mean"], "new"),
        ("algorithm/aggregation=microbatch_token_mean", "algorithm/aggregation=response_mean", ["weight_change_response_mean"], "old"),
        ("algorithm.dead_groups.policy=keep", "algorithm.dead_groups.policy=drop", ["removed_fraction"], "new"),
        ("algorithm.dead_groups.policy=refill", "algorithm.dead_groups.policy=drop", ["refilled_fraction"], "old"),
        (f"{KL}coefficient=0.04", f"{KL}coefficient=0", ["kl_share"], "old"),
        ("algorithm.entropy_coefficient=0", "algorithm.entropy_coefficient=0.01", ["entropy_share"], "new"),
        ("algorithm.positive_nll_coefficient=0", "algorithm.positive_nll_coefficient=0.1", ["nll_share"], "new"),
        (f"{OLD}=sampler", f"{OLD}=recomputed", ["sampler_log_prob_gap_mean"], "new"),
        ("optimizer.max_gradient_norm=1", "optimizer.max_gradient_norm=0.5", ["gradient_clipped_fraction"], "new"),
        ("sampling.max_response_tokens=32", "sampling.max_response_tokens=24", ["truncated_fraction"], "new"),
    ],
)  # fmt: skip
def test_a_changed_key_finds_its_measure(old: str, new: str, fields: list[str], arm: str) -> None:
    first, *rest = [m for m in found([old], [new]) if m.fields]
    assert (list(first.fields), first.arm, rest) == (fields, arm, [])
    assert set(first.fields) <= set(METRICS)
    assert 0 < first.threshold < 1


@pytest.mark.parametrize(
    ("old", "new", "field", "arm"),
    [
        (f"{DEAD}=drop", f"{DEAD}=never_give_up", "retried_fraction", "new"),
        (f"{DEAD}=never_give_up", f"{DEAD}=refill", "retried_fraction", "old"),
        ("algorithm/weighting=uniform", "algorithm/weighting=max_variance", "weighting_change", "new"),
        ("algorithm/weighting=top_fraction", "algorithm/weighting=uniform", "weighting_change", "old"),
    ],
)
def test_what_is_tried_again_or_weighed_is_measured_where_it_happens(old: str, new: str, field: str, arm: str) -> None:
    (one,) = found([old], [new])
    assert (one.fields, one.arm) == ((field,), arm)


def test_filter_replaced_by_punishment_is_two_measures_of_two_arms() -> None:
    both = found(["algorithm.overlong.policy=mask"], ["algorithm.overlong.policy=soft"])
    assert [(m.fields, m.arm) for m in both] == [(("masked_fraction",), "old"), (("punished_fraction",), "new")]


def test_two_keys_of_one_measure_are_said_once() -> None:
    (flipped,) = found([], ["algorithm.reward.true_positive=0.5", "algorithm.reward.false_positive=0.5"])
    assert flipped.fields == ("flipped_verdicts_fraction",)
    assert sorted(flipped.keys) == ["algorithm.reward.false_positive", "algorithm.reward.true_positive"]


@pytest.mark.parametrize("kind", ["clip_cov", "kl_cov"])
def test_tokens_chosen_by_covariance_are_counted_beside_the_clip_that_is_gone(kind: str) -> None:
    other = "algorithm/surrogate=ppo_clip"
    chosen, clipped = found([other], [f"algorithm/surrogate={kind}"])
    assert (chosen.fields, chosen.arm) == (("selected_fraction",), "new")
    assert (clipped.fields, clipped.arm) == (("clip_fraction_low", "clip_fraction_high"), "old")
    assert chosen.text(0.0002) == "0.02 % of tokens, hardly engaged"
    (more,) = found(
        [f"algorithm/surrogate={kind}"], [f"algorithm/surrogate={kind}", "algorithm.surrogate.fraction=0.1"]
    )
    assert (more.fields, more.arm) == (("selected_fraction",), "new")


def test_a_learning_rate_always_engages_and_other_keys_are_said_to_be_unmeasured() -> None:
    (rate,) = found(["optimizer.learning_rate=1e-4"], ["optimizer.learning_rate=2e-4"])
    assert (rate.name, rate.fields) == ("always, learning rate × 2", ())
    (sizes,) = found([], ["algorithm.prompts_per_step=16", "algorithm.responses_per_prompt=16"])
    assert sizes.name == "always, prompts a step × 0.5, responses a prompt × 2"
    (none,) = found(["optimizer.learning_rate=0"], ["optimizer.learning_rate=2e-4"])
    assert none.name == "always"
    (unknown,) = found(["algorithm.advantage.ddof=0"], ["algorithm.advantage.ddof=1"])
    assert (unknown.name, unknown.keys, unknown.fields) == ("", ("algorithm.advantage.ddof",), ())
    assert found(["seed=1"], ["seed=2"]) == []
    # a key that nothing reads while its term is off
    assert [m.fields for m in found(["algorithm/kl=k1"], ["algorithm/kl=k3"])] == [()]


def test_a_matched_budget_is_no_change_of_the_arms() -> None:
    old, new = compose_run([]), compose_run(["training.generated_tokens=5000"])
    assert [m.name for m in measures(old, new, ("old", "new"))] == ["always"]
    assert measures(old, new, ("old", "new"), ignore="training.") == []


def test_arms_without_a_parent_are_compared_with_the_base_but_the_full_recipe_with_nothing() -> None:
    arms = [Arm("base"), Arm("full"), Arm("one", parent="full")]

    def compared(design: str) -> dict[str, str | None]:
        experiment = Experiment("test", design=design)
        planned = [planned_arm(arm, compose_run([]), experiment) for arm in arms]
        plan = plan_of(experiment, planned, "harness run")
        return {arm.name: other and other.name for arm in plan.arms for other in [plan.reference_of(arm)]}

    assert compared("factorial") == {"base": None, "full": "base", "one": "full"}
    assert compared("leave_one_out") == {"base": None, "full": None, "one": "full"}

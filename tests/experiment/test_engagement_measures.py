"""Which measures a difference between two configurations finds, how one is read off step metrics and shown."""

from __future__ import annotations

import math

import pandas as pd
import pytest
from tables import table

from harness.configuration.compose import compose_run
from harness.engagement.measure import Measure, measures, percent
from harness.experiment.declaration import Experiment
from harness.experiment.plan import Arm
from harness.experiment.planning import plan_of, planned_arm
from harness.store import METRICS


def found(old: list[str], new: list[str]) -> list[Measure]:
    return measures(compose_run(old), compose_run(new), ("old", "new"))


@table(__file__, "keys", "old, new, fields, arm")
def test_a_changed_key_finds_its_measure(old: str, new: str, fields: list[str], arm: str) -> None:
    first, *rest = [m for m in found([old], [new]) if m.fields]
    assert (list(first.fields), first.arm, rest) == (fields, arm, [])
    assert set(first.fields) <= {*METRICS, "retried_fraction", "weighting_change"}
    assert 0 < first.threshold < 1


def test_filter_replaced_by_punishment_is_two_measures_of_two_arms() -> None:
    both = found(["algorithm.overlong.policy=mask"], ["algorithm.overlong.policy=soft"])
    assert [(m.fields, m.arm) for m in both] == [(("masked_fraction",), "old"), (("punished_fraction",), "new")]


def test_two_keys_of_one_measure_are_said_once() -> None:
    (flipped,) = found([], ["algorithm.reward.true_positive=0.5", "algorithm.reward.false_positive=0.5"])
    assert flipped.fields == ("flipped_verdicts_fraction",)
    assert sorted(flipped.keys) == ["algorithm.reward.false_positive", "algorithm.reward.true_positive"]


@pytest.mark.parametrize("kind", ["clip_cov", "kl_cov"])
def test_tokens_chosen_by_covariance_are_counted_beside_the_clip_that_is_gone(kind: str) -> None:
    other, same = "algorithm/surrogate=ppo_clip", f"algorithm/surrogate={kind}"
    chosen, clipped = found([other], [same])
    assert (chosen.fields, chosen.arm) == (("selected_fraction",), "new")
    assert (clipped.fields, clipped.arm) == (("clip_fraction_low", "clip_fraction_high"), "old")
    assert chosen.text(0.0002) == "0.02 % of tokens"
    assert {one.arm for one in found([other], ["algorithm/surrogate=divergence_mask"])} == {"new", "old"}
    (more,) = found([same], [same, "algorithm.surrogate.fraction=0.1"])
    assert (more.fields, more.arm) == (("selected_fraction",), "new")


def test_under_a_lag_other_old_logprobs_are_no_matter_of_weights() -> None:
    lag, correction = ["sampling.lag_steps=4"], "algorithm.engine_correction"
    pairs = found(lag, [*lag, f"{correction}.kind=token", f"{correction}.old_log_probs=recomputed"])
    assert [one.fields for one in pairs] == [("correction_change_mean",), ()]


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


TOKENS = Measure("released", ("algorithm.surrogate.clip_high",), "of tokens", ("a",), 0.003, "arm")


@table(__file__, "percents", "fraction, text")
def test_percents_have_two_digits(fraction: float, text: str) -> None:
    assert percent(fraction) == text


def test_a_measure_is_the_mean_over_steps_then_over_runs() -> None:
    long, short = pd.DataFrame({"a": [0.1, None, 0.3, 0.2]}), pd.DataFrame({"a": [0.6]})
    assert TOKENS.value([long, short]) == pytest.approx((0.2 + 0.6) / 2)
    both = Measure("clipped", (), "of tokens", ("a", "b"), 0.003, "arm")
    assert both.value([pd.DataFrame({"a": [0.1, 0.5], "b": [0.2, None]})]) == pytest.approx(0.3)


@pytest.mark.parametrize("runs", [[], [pd.DataFrame({"loss": [1.0]})], [pd.DataFrame({"a": [None, None]})]])
def test_runs_without_the_field_say_nothing(runs: list[pd.DataFrame]) -> None:
    value = TOKENS.value(runs)
    assert math.isnan(value)
    assert TOKENS.text(value) == ""
    assert not TOKENS.hardly(value)


def test_the_mark_is_under_the_threshold_only() -> None:
    assert TOKENS.text(0.0029) == "0.29 % of tokens, hardly engaged"
    assert TOKENS.text(0.002999) == "< 0.3 % of tokens, hardly engaged"
    assert TOKENS.text(0.003) == "0.3 % of tokens"
    assert TOKENS.text(0.0002, mark=False) == "0.02 % of tokens"
    assert Measure("always", ("optimizer.learning_rate",)).text(math.nan) == "always"
    assert not Measure("always", ()).hardly(0.0)

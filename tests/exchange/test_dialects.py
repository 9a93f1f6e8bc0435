"""Other trainers' names: values and units both ways, and what they cannot express is said."""

from __future__ import annotations

from typing import Any

import pytest
from imported import compose_once

from harness.configuration.compose import compose_run, options
from harness.configuration.error import ConfigError
from harness.configuration.flat import flatten
from harness.configuration.identity import difference
from harness.configuration.registry import kinds, member
from harness.configuration.schema import RunConfig, dump
from harness.exchange.dialects import Beside, verl

DIALECTS = sorted(kinds("harness.exchange.dialects"))
ACTOR, CORRECTION = "actor_rollout_ref.actor", "algorithm.rollout_correction"


def exported(dialect: str, *overrides: str) -> Any:
    return member("harness.exchange.dialects", dialect).export(compose_once(*overrides))


def back(dialect: str, values: dict[str, Any], **beside: Any) -> RunConfig:
    translation = member("harness.exchange.dialects", dialect).overrides(values, Beside(**beside))
    return compose_once(*translation.overrides())


@pytest.mark.parametrize("name", options("algorithm"))
@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_is_expressible_survives_the_way_there_and_back(dialect: str, name: str) -> None:
    config = compose_once(f"algorithm={name}", "optimizer.warmup_steps=5")
    exported = member("harness.exchange.dialects", dialect).export(config)
    if any(
        "algorithm.advantage.kind" in line or "algorithm.surrogate=" in line
        for line in exported.inexpressible
    ):
        return  # another kind of algorithm: nothing to come back to
    returned = back(dialect, exported.settings)
    lost = " ".join(exported.inexpressible + exported.notes)
    for key, (before, after) in difference(config, returned).items():
        leaf, section = key.rpartition(".")[2], key.split(".")[1]
        expected = (
            leaf in lost or f"algorithm.{section}" in lost or section in ("reward", "overlong", "kl")
            or key.startswith(("optimizer.", "evaluation."))
        )  # fmt: skip
        assert expected, f"{key}: {before} came back as {after}\n" + "\n".join(exported.inexpressible)


WARM_DAPO = ["algorithm=dapo", "optimizer.warmup_steps=5"]
BOUNDED = ["algorithm=cispo", "algorithm.surrogate.cap_max=1.3", "algorithm.surrogate.cap_min=0.2"]
KL = ["algorithm=grpo", "algorithm.kl.coefficient=0.04"]
ADAM = [
    "algorithm=grpo",
    "optimizer.max_gradient_norm=0.5",
    "optimizer.beta2=0.95",
    "optimizer.epsilon=1e-15",
]
OLD = "algorithm.engine_correction.old_log_probs"


@pytest.mark.parametrize(
    ("dialect", "overrides", "settings"),
    [
        # 32 prompts x 8 responses in 16 updates: 16 responses an update on one device; 5 rollout steps of warm-up are 80 updates.
        (
            "trl", [*WARM_DAPO, "training.steps=100"],
            {"per_device_train_batch_size": 16, "generation_batch_size": 256, "num_generations": 8, "warmup_steps": 80,
             "max_steps": 1600, "loss_type": "dapo", "epsilon": 0.2, "epsilon_high": 0.28},
        ),
        # verl counts prompts: 32 a step, 2 an update, multiplied by n inside; warm-up in rollout steps.
        (
            "verl", WARM_DAPO,
            {"data.train_batch_size": 32, f"{ACTOR}.ppo_mini_batch_size": 2, f"{ACTOR}.optim.lr_warmup_steps": 5},
        ),
        # `ACTOR.grad_clip` is a key that nothing reads
        ("verl", ADAM, {f"{ACTOR}.optim.clip_grad": 0.5, f"{ACTOR}.grad_clip": None}),
        ("verl", ["algorithm=grpo", f"{OLD}=sampler"], {f"{CORRECTION}.bypass_mode": True}),
        ("verl", ["algorithm=grpo", f"{OLD}=recomputed"], {f"{CORRECTION}.bypass_mode": False}),
        # the cap of bounded weights: itself for TRL, offsets from 1 for verl
        ("trl", BOUNDED, {"epsilon_high": 1.3}),
        ("verl", BOUNDED, {f"{ACTOR}.clip_ratio_high": 0.3, f"{ACTOR}.clip_ratio_low": 0.8}),
        ("verl", [*KL, "algorithm/kl=k1"], {f"{ACTOR}.kl_loss_type": "kl"}),
        ("verl", [*KL, "algorithm/kl=k2"], {f"{ACTOR}.kl_loss_type": "mse"}),
        ("verl", [*KL, "algorithm/kl=k3"], {f"{ACTOR}.kl_loss_type": "low_var_kl"}),
        ("verl", [*KL, "algorithm/kl=k3_k2"], {f"{ACTOR}.kl_loss_type": "low_var_kl+"}),
        ("trl", [*KL, "algorithm/kl=k1"], {"beta": None}),
        ("trl", [*KL, "algorithm/kl=k2"], {"beta": None}),
        ("trl", [*KL, "algorithm/kl=k3"], {"beta": 0.04}),
        ("trl", [*KL, "algorithm/kl=k3_k2"], {"beta": None}),
        # TRL weights its KL by the ratio unless told otherwise
        ("trl", ["algorithm=grpo_kl"], {"beta": 0.04, "use_bias_correction_kl": False}),
        ("trl", ["algorithm=grpo_kl_ratio"], {"beta": 0.04, "use_bias_correction_kl": True}),
        ("trl", ["algorithm=dr_grpo"], {"loss_type": "dr_grpo"}),
        ("verl", ["algorithm=dr_grpo"], {f"{ACTOR}.loss_scale_factor": 32}),
        ("verl", ["algorithm=dr_grpo_equation"], {f"{ACTOR}.loss_scale_factor": 1.0}),
        ("verl", ["algorithm=grpo"], {f"{ACTOR}.clip_ratio_c": 1e9}),  # a dual clip that cannot be switched off
        ("trl", ["algorithm=icepop"], {"vllm_importance_sampling_mode": "token_mask", "vllm_importance_sampling_clip_min": 0.5}),
        ("verl", ["algorithm=icepop"], {f"{CORRECTION}.rollout_is_threshold": "0.5_5"}),
        (
            "verl", ["algorithm=gdpo", "algorithm.advantage.format_weight=0.25", "algorithm.advantage.length_weight=0"],
            {"algorithm.gdpo_reward_weights": [1.0, 0.25, 0.0]},
        ),
    ],
)  # fmt: skip
def test_settings_have_their_names_and_units(
    dialect: str, overrides: list[str], settings: dict[str, Any]
) -> None:
    """None: the key is not written."""
    found = exported(dialect, *overrides).settings
    assert {key: found.get(key) for key in settings} == {
        key: pytest.approx(value) if isinstance(value, float) else value for key, value in settings.items()
    }


@pytest.mark.parametrize(
    ("dialect", "overrides", "section"),
    [
        ("verl", ADAM, "optimizer"),
        ("verl", ["algorithm=grpo", f"{OLD}=sampler"], "algorithm.engine_correction"),
        ("verl", ["algorithm=grpo", f"{OLD}=recomputed"], "algorithm.engine_correction"),
        ("trl", ["algorithm=grpo_kl"], "algorithm.kl"),
        ("trl", ["algorithm=grpo_kl_ratio"], "algorithm.kl"),
        ("trl", ["algorithm=icepop"], "algorithm.engine_correction"),
    ],
)
def test_a_section_comes_back_whole(dialect: str, overrides: list[str], section: str) -> None:
    returned = back(dialect, exported(dialect, *overrides).settings)
    changed = difference(compose_run(overrides), returned)
    assert [key for key in changed if key.startswith(f"{section}.")] == []


def warmed_up(**optim: Any) -> dict[str, Any]:
    return {
        "trainer.total_training_steps": 50,
        **{f"{ACTOR}.optim.{key}": value for key, value in optim.items()},
    }


def bounded(level: str, threshold: Any) -> dict[str, Any]:
    return {f"{CORRECTION}.rollout_is": level, f"{CORRECTION}.rollout_is_threshold": threshold}


def corrected(kind: str, floor: float, cap: float) -> dict[str, Any]:
    names = {"kind": kind, "floor": floor, "cap": cap}
    return {f"algorithm.engine_correction.{name}": value for name, value in names.items()}


TRLS_OWN = {
    "optimizer.learning_rate": 1e-6, "optimizer.beta2": 0.999, "sampling.max_response_tokens": 512,
    "algorithm.responses_per_prompt": 8,
    "training.steps": compose_run([]).training.steps,  # TRL counts epochs, then
}  # fmt: skip
REFILL = {
    "actor_rollout_ref.rollout.n": 8,
    "algorithm.filter_groups.enable": True,
    "algorithm.filter_groups.max_num_gen_batches": 0,
}


@pytest.mark.parametrize(
    ("dialect", "given", "ours"),
    [
        ("verl", {f"{ACTOR}.optim.clip_grad": 0.3}, {"optimizer.max_gradient_norm": 0.3}),
        ("trl", {"beta": 0.02}, {"algorithm.kl.kind": "k3_ratio"}),  # its default since 1.16
        ("trl", {}, {"algorithm.kl.kind": "k3", **TRLS_OWN}),  # without a KL term nothing is weighted
        ("trl", {"num_generations": None, "learning_rate": None, "max_steps": -1}, TRLS_OWN),
        (
            "trl", {"loss_type": "sapo"},
            {"algorithm.surrogate.temperature_positive": 1.0, "algorithm.surrogate.temperature_negative": 1.05},
        ),
        ("trl", {"use_vllm": True, "vllm_importance_sampling_clip_max": None}, {"algorithm.engine_correction.cap": 1e9}),
        (
            "trl", {"lr_scheduler_type": "constant_with_warmup", "warmup_steps": 0.1, "max_steps": 100},
            {"optimizer.warmup_steps": 10},
        ),
        (
            "trl", {"reward_weights": [1.0, 0.5], "multi_objective_aggregation": "normalize_then_sum"},
            {"algorithm.advantage.outcome_weight": 1.0, "algorithm.advantage.format_weight": 0.5,
             "algorithm.advantage.length_weight": 0.0},
        ),
        ("verl", {}, {"algorithm.surrogate.dual_clip": 3.0}),  # its default is on
        ("verl", {f"{ACTOR}.clip_ratio_c": 1e9}, {"algorithm.surrogate.dual_clip": None}),
        ("verl", bounded("token", "0.5_5.0"), corrected("token_mask", 0.5, 5.0)),  # its own preset for IcePop
        ("verl", bounded("sequence", "0.5_5.0"), corrected("sequence_mask", 0.5, 5.0)),
        ("verl", bounded("token", "2.0"), corrected("token", 0.0, 2.0)),
        ("verl", bounded("token", 3), corrected("token", 0.0, 3.0)),
        ("verl", {f"{ACTOR}.loss_scale_factor": 1024}, {"algorithm.aggregation.kind": "batch_token_mean"}),
        ("verl", {"algorithm.adv_estimator": "gae", "algorithm.gamma": 0.9}, {"algorithm.advantage.discount": 0.9}),
        # a warm-up of no steps is its share of the training
        ("verl", warmed_up(lr_warmup_steps=-1), {"optimizer.warmup_steps": 0}),
        ("verl", warmed_up(lr_warmup_steps=None, lr_warmup_steps_ratio=0.0), {"optimizer.warmup_steps": 0}),
        ("verl", warmed_up(lr_warmup_steps=7, lr_warmup_steps_ratio=0.5), {"optimizer.warmup_steps": 7}),
        ("verl", warmed_up(lr_warmup_steps=-1, lr_warmup_steps_ratio=0.1), {"optimizer.warmup_steps": 5}),
        ("verl", REFILL, {"algorithm.dead_groups.policy": "refill"}),
        ("verl", REFILL | {"algorithm.filter_groups.max_num_gen_batches": 7}, {"algorithm.dead_groups.max_rounds": 7}),
        # the DAPO recipe's script, keys as it has them
        (
            "verl",
            {
                "data.train_batch_size": 512, f"{ACTOR}.ppo_mini_batch_size": 32, "actor_rollout_ref.rollout.n": 16,
                "data.max_response_length": 20480, f"{ACTOR}.clip_ratio_low": 0.2, f"{ACTOR}.clip_ratio_high": 0.28,
                f"{ACTOR}.clip_ratio_c": 10.0,
                f"{ACTOR}.loss_agg_mode": "token-mean", "algorithm.filter_groups.enable": True, "algorithm.filter_groups.metric": "acc",
                "reward_model.overlong_buffer.enable": True, "reward_model.overlong_buffer.len": 4096, f"{ACTOR}.optim.lr_warmup_steps": 10,
            },
            {
                "algorithm.prompts_per_step": 512, "algorithm.updates_per_step": 16, "algorithm.responses_per_prompt": 16,
                "algorithm.surrogate.clip_high": 0.28, "algorithm.surrogate.dual_clip": 10.0, "algorithm.overlong.policy": "soft",
                "algorithm.overlong.buffer_fraction": 0.2, "algorithm.dead_groups.policy": "refill", "optimizer.warmup_steps": 10,
            },
        ),
    ],
)  # fmt: skip
def test_a_foreign_configuration_is_read(dialect: str, given: dict[str, Any], ours: dict[str, Any]) -> None:
    found = flatten(dump(back(dialect, given)))
    assert {key: found[key] for key in ours} == ours


@pytest.mark.parametrize(
    "given", [bounded("token", "0.5_5.0"), bounded("sequence", "0.5_5.0"), bounded("token", 3)]
)
def test_verls_bounds_of_importance_weights_survive_both_ways(given: dict[str, Any]) -> None:
    config = back("verl", given)
    again = back("verl", verl.export(config).settings)
    assert again.algorithm.engine_correction == config.algorithm.engine_correction


def test_differences_that_a_backend_may_accept_have_names() -> None:
    assert list(exported("verl", *WARM_DAPO).deviations) == ["warmup_from_zero", "unbounded_refill"]
    assert exported("verl", "algorithm=grpo").deviations == {}


@pytest.mark.parametrize(
    ("dialect", "given", "said"),
    [
        ("trl", {"lr_scheduler_type": "polynomial"}, "lr_scheduler_type=polynomial: the learning rate here stays, or"),
        ("trl", {"lr_scheduler_type": "constant", "warmup_steps": 9}, "warmup_steps=9 has no effect"),
        ("trl", {"warmup_steps": 0.1}, "warmup_steps=0.1: a share of the training's steps, which are not known; give rows=N"),
        ("trl", {"reward_weights": [1.0, 0.2]}, "reward_weights=[1.0, 0.2]: the reward here is algorithm.reward"),
        (
            "trl", {"reward_weights": [1, 1, 1, 2], "multi_objective_aggregation": "normalize_then_sum"},
            "reward_weights=[1, 1, 1, 2]: the rewards here are outcome, format, length",
        ),
        ("trl", {"max_completion_length": None}, "max_completion_length=null: responses have a cap here"),
        ("verl", {"algorithm.gamma": 0.9}, "algorithm.gamma=0.9 has no effect in verl with adv_estimator=grpo"),
        ("verl", {"critic.optim.lr": 1e-5}, "critic.optim.lr=1e-05 has no effect"),
        ("verl", {"trainer.critic_warmup": 3}, "trainer.critic_warmup=3: verl's actor waits"),
        (
            "verl", {"algorithm.gamma": 0.9, "algorithm.adv_estimator": "reinforce_plus_plus"},
            "algorithm.gamma=0.9: returns are not discounted here",
        ),
        (
            "verl", {f"{ACTOR}.loss_agg_mode": "token-mean", f"{ACTOR}.loss_scale_factor": 1024},
            "loss_scale_factor=1024 has no effect",
        ),
        ("verl", bounded("token", "1.5_5"), "must hold 1"),
        ("verl", {f"{ACTOR}.optim.lr_warmup_steps_ratio": 0.1}, "total_training_steps"),
        ("verl", REFILL, "verl refills without limit"),
        (
            "verl", {"algorithm.adv_estimator": "gdpo", "algorithm.gdpo_reward_keys": ["style", "format"]},
            "gdpo_reward_keys",
        ),
    ],
)  # fmt: skip
def test_what_is_lost_on_the_way_here_is_said(dialect: str, given: dict[str, Any], said: str) -> None:
    values = {"algorithm.adv_estimator": "grpo", **given} if dialect == "verl" else given
    out = member("harness.exchange.dialects", dialect).overrides(values)
    assert any(said in line for line in [*out.inexpressible, *out.notes]), out
    if said != "must hold 1":
        back(dialect, values)  # it composes


@pytest.mark.parametrize(
    ("dialect", "given"),
    [
        ("trl", {"lr_scheduler_type": "constant_with_warmup", "warmup_steps": 0.1, "max_steps": 100}),
        ("verl", {"algorithm.gamma": 1.0, "algorithm.lam": 1.0, "trainer.critic_warmup": 0}),
        ("verl", {"algorithm.filter_groups.max_num_gen_batches": 0}),  # nothing is filtered
    ],
)
def test_what_has_no_effect_there_or_a_name_here_loses_nothing(dialect: str, given: dict[str, Any]) -> None:
    given = {"trainer.total_training_steps": 9, **given} if dialect == "verl" else given
    out = member("harness.exchange.dialects", dialect).overrides(given)
    assert out.inexpressible == []
    back(dialect, given)


def test_keys_without_effect_set_nothing() -> None:
    out = verl.overrides({f"{ACTOR}.loss_agg_mode": "token-mean", f"{ACTOR}.loss_scale_factor": 1024})
    assert "algorithm.aggregation.constant_tokens" not in out.settings
    share = verl.overrides({f"{ACTOR}.optim.lr_warmup_steps_ratio": 0.1})
    assert "optimizer.warmup_steps" not in share.settings


@pytest.mark.parametrize(
    ("dialect", "given", "message"),
    [
        ("trl", {"scale_rewards": "grup"}, "scale_rewards='grup' is not known; did you mean 'group'"),
        ("trl", {"vllm_importance_sampling_mode": "token"}, "vllm_importance_sampling_mode='token' is not known"),
        ("trl", {"multi_objective_aggregation": "sum"}, "multi_objective_aggregation='sum' is not known"),
        ("trl", {"num_generations": 0}, "num_generations=0 is no count; give an integer from 1 on"),
        ("verl", bounded("token", "wide"), "rollout_is_threshold=wide is neither a number nor lower_upper"),
    ],
)  # fmt: skip
def test_values_that_cannot_be_are_named(dialect: str, given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        member("harness.exchange.dialects", dialect).overrides(given)


@pytest.mark.parametrize(
    ("dialect", "overrides", "named"),
    [
        ("trl", ["algorithm=dapo"], "dead_groups.policy=refill"),
        ("trl", ["algorithm=grpo"], "advantage.epsilon=1e-06"),
        ("trl", ["algorithm=dapo_group_token_mean"], "aggregation=group_token_mean"),
        ("trl", ["algorithm=vapo"], "advantage.kind=gae"),
        ("trl", ["algorithm=scale_rl"], "curriculum.kind=retire"),
        ("trl", ["algorithm=reinforce_pp_baseline"], "k2 in the loss"),
        ("trl", BOUNDED, "cap_min"),
        ("trl", ["algorithm=dr_grpo_equation"], "constant_tokens"),
        ("verl", ["algorithm=dapo"], "overlong.policy"),
        ("verl", ["algorithm=vapo"], "lambda_value"),
        ("verl", ["algorithm=reinforce_pp_baseline"], "advantage.whiten_over"),
        ("verl", ["algorithm=dapo_microbatch"], "aggregation=microbatch_token_mean"),
        ("verl", ["algorithm=best_worst_dpo"], "best_worst"),
        ("verl", ["algorithm=rft"], "source.kind=initial_policy"),
        ("verl", ["algorithm=grpo_kl_ratio"], "k3_ratio"),
        ("verl", ["algorithm=gdpo"], "advantage.epsilon=0.0001: verl adds 1e-06"),
        ("verl", ["algorithm=gdpo", "algorithm.advantage.ddof=0"], "advantage.ddof=0"),
        ("verl", ["algorithm=gdpo", "algorithm.advantage.batch_normalise=false"], "batch_normalise=False"),
    ],
)  # fmt: skip
def test_what_a_target_cannot_express_is_named(dialect: str, overrides: list[str], named: str) -> None:
    lines = exported(dialect, *overrides).inexpressible
    assert any(named in line for line in lines), lines


def test_a_constant_that_is_the_cap_is_trls_own() -> None:
    assert not any("constant" in line for line in exported("trl", "algorithm=dr_grpo").inexpressible)


def test_decoupled_rewards_come_back_with_verls_epsilon() -> None:
    weights = ["algorithm.advantage.format_weight=0.25", "algorithm.advantage.length_weight=0"]
    returned = back("verl", exported("verl", "algorithm=gdpo", *weights).settings).algorithm.advantage
    assert (returned.outcome_weight, returned.format_weight, returned.length_weight) == (1.0, 0.25, 0.0)
    assert returned.epsilon == 1e-6


@pytest.mark.parametrize("dialect", DIALECTS)
def test_budgets_ends_of_responses_and_values_of_rewards_are_said(dialect: str) -> None:
    given = [
        "training.generated_tokens=1000000", "training.seconds=60", "sampling.stop_strings=[stop]",
        "algorithm.reward.wrong=0", "algorithm.reward.format_credit=0.1",
    ]  # fmt: skip
    out = exported(dialect, "algorithm=grpo", *given)
    said = [line.partition("=")[0] for line in out.inexpressible]
    assert {"training.generated_tokens", "training.seconds"} <= set(said)
    assert ("sampling.stop_strings" in said) != (["stop"] in out.settings.values())
    rewards = "give 1 for a right answer and 0 for a wrong one, 0.1 more where an answer can be extracted"
    assert any(rewards in note for note in out.notes)
    plain = exported(dialect, "algorithm=grpo")
    assert not any(line.startswith(("training.", "sampling.stop")) for line in plain.inexpressible)

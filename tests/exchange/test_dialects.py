"""Other trainers' names: values and units both ways, and what they cannot express is said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from harness.cli import main
from harness.commands._arguments import key_values
from harness.configuration.compose import compose_run, options
from harness.configuration.error import ConfigError
from harness.configuration.identity import difference
from harness.configuration.registry import kinds, member
from harness.configuration.schema import RunConfig
from harness.exchange.dialects import trl, verl

DIALECTS = sorted(kinds("harness.exchange.dialects"))
ACTOR = "actor_rollout_ref.actor"


def back(dialect: str, values: dict[str, Any]) -> RunConfig:
    settings = member("harness.exchange.dialects", dialect).overrides(values).settings
    text = {None: "null", True: "true", False: "false"}
    return compose_run(
        [f"{k}={text[v] if isinstance(v, bool) or v is None else v}" for k, v in settings.items()]
    )


@pytest.mark.parametrize("dialect", DIALECTS)
@pytest.mark.parametrize("name", options("algorithm"))
def test_what_is_expressible_survives_the_way_there_and_back(dialect: str, name: str) -> None:
    config = compose_run([f"algorithm={name}", "optimizer.warmup_steps=5"])
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


def test_trl_units() -> None:
    # 32 prompts x 8 responses in 16 updates: 16 responses an update on one device; 5 rollout steps of warm-up are 80 updates.
    out = trl.export(
        compose_run(["algorithm=dapo", "optimizer.warmup_steps=5", "training.steps=100"])
    ).settings
    assert (out["per_device_train_batch_size"], out["generation_batch_size"], out["num_generations"]) == (
        16,
        256,
        8,
    )
    assert (out["warmup_steps"], out["max_steps"]) == (80, 1600)
    assert (out["loss_type"], out["epsilon"], out["epsilon_high"]) == ("dapo", 0.2, 0.28)


def test_verl_units() -> None:
    # verl counts prompts: 32 a step, 2 an update, multiplied by n inside; warm-up in rollout steps.
    out = verl.export(compose_run(["algorithm=dapo", "optimizer.warmup_steps=5"])).settings
    assert (out["data.train_batch_size"], out[f"{ACTOR}.ppo_mini_batch_size"]) == (32, 2)
    assert out[f"{ACTOR}.optim.lr_warmup_steps"] == 5


def test_verl_reads_the_gradient_clip_and_adam_where_its_optimiser_does() -> None:
    given = [
        "algorithm=grpo",
        "optimizer.max_gradient_norm=0.5",
        "optimizer.beta2=0.95",
        "optimizer.epsilon=1e-15",
    ]
    out = verl.export(compose_run(given)).settings
    assert out[f"{ACTOR}.optim.clip_grad"] == 0.5
    assert f"{ACTOR}.grad_clip" not in out  # a key of its actor that nothing reads
    returned = back("verl", out).optimizer
    assert (returned.max_gradient_norm, returned.beta2, returned.epsilon) == (0.5, 0.95, 1e-15)
    assert back("verl", {f"{ACTOR}.grad_clip": 0.3}).optimizer.max_gradient_norm == 0.3  # older scripts


def test_differences_that_a_backend_may_accept_have_names() -> None:
    out = verl.export(compose_run(["algorithm=dapo", "optimizer.warmup_steps=5"]))
    assert list(out.deviations) == ["warmup_from_zero", "unbounded_refill"]
    assert verl.export(compose_run(["algorithm=grpo"])).deviations == {}


def test_verl_says_which_old_log_probabilities() -> None:
    for choice, bypass in (("sampler", True), ("recomputed", False)):
        given = compose_run(["algorithm=grpo", f"algorithm.engine_correction.old_log_probs={choice}"])
        out = verl.export(given).settings
        assert out["algorithm.rollout_correction.bypass_mode"] is bypass
        assert back("verl", out).algorithm.engine_correction.old_log_probs == choice


def test_the_cap_of_bounded_weights_has_three_conventions() -> None:
    config = compose_run(
        ["algorithm=cispo", "algorithm.surrogate.cap_max=1.3", "algorithm.surrogate.cap_min=0.2"]
    )
    assert trl.export(config).settings["epsilon_high"] == 1.3  # the cap itself
    assert any("cap_min" in line for line in trl.export(config).inexpressible)
    out = verl.export(config).settings  # offsets from 1
    assert out[f"{ACTOR}.clip_ratio_high"] == pytest.approx(0.3)
    assert out[f"{ACTOR}.clip_ratio_low"] == pytest.approx(0.8)


@pytest.mark.parametrize(
    ("kind", "name"), [("k1", "kl"), ("k2", "mse"), ("k3", "low_var_kl"), ("k3_k2", "low_var_kl+")]
)
def test_kl_names(kind: str, name: str) -> None:
    config = compose_run(["algorithm=grpo", f"algorithm/kl={kind}", "algorithm.kl.coefficient=0.04"])
    assert verl.export(config).settings[f"{ACTOR}.kl_loss_type"] == name
    assert ("beta" in trl.export(config).settings) == (kind == "k3")


def test_trl_weights_its_kl_by_the_ratio_unless_told_otherwise() -> None:
    for name, corrected in (("grpo_kl", False), ("grpo_kl_ratio", True)):
        out = trl.export(compose_run([f"algorithm={name}"])).settings
        assert (out["beta"], out["use_bias_correction_kl"]) == (0.04, corrected)
        assert back("trl", out).algorithm.kl == compose_run([f"algorithm={name}"]).algorithm.kl
    assert back("trl", {"beta": 0.02}).algorithm.kl.kind == "k3_ratio"  # its default since 1.16
    assert back("trl", {}).algorithm.kl.kind == "k3"  # without a KL term nothing is weighted
    assert any(
        "k3_ratio" in line for line in verl.export(compose_run(["algorithm=grpo_kl_ratio"])).inexpressible
    )


def test_trls_defaults_stand_for_what_is_not_given_or_null() -> None:
    for given in ({}, {"num_generations": None, "learning_rate": None, "max_steps": -1}):
        config = back("trl", given)
        assert (config.optimizer.learning_rate, config.optimizer.beta2) == (1e-6, 0.999)
        assert (config.sampling.max_response_tokens, config.algorithm.responses_per_prompt) == (512, 8)
        assert config.training.steps == compose_run([]).training.steps  # TRL counts epochs, then
    soft = back("trl", {"loss_type": "sapo"}).algorithm.surrogate
    assert (soft.temperature_positive, soft.temperature_negative) == (1.0, 1.05)
    assert back("trl", {"vllm_importance_sampling_clip_max": None}).algorithm.engine_correction.cap == 1e9


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "lr_scheduler_type=linear: the learning rate here stays"),
        ({"lr_scheduler_type": "cosine"}, "lr_scheduler_type=cosine: the learning rate here stays"),
        ({"lr_scheduler_type": "constant", "warmup_steps": 9}, "warmup_steps=9 has no effect"),
        ({"warmup_steps": 0.1}, "warmup_steps=0.1: a share of max_steps; give it"),
        ({"reward_weights": [1.0, 0.2]}, "reward_weights=[1.0, 0.2]: the reward here is algorithm.reward"),
        (
            {"reward_weights": [1, 1, 1, 2], "multi_objective_aggregation": "normalize_then_sum"},
            "reward_weights=[1, 1, 1, 2]: the rewards here are outcome, format, length",
        ),
        ({"loss_type": "bnpo"}, "loss_type=bnpo: its micro-batch is per_device_train_batch_size responses"),
        ({"max_completion_length": None}, "max_completion_length=null: responses have a cap here"),
    ],
)
def test_what_of_trl_is_lost_is_said(given: dict[str, Any], said: str) -> None:
    out = trl.overrides(given)
    assert any(line.startswith(said) for line in [*out.inexpressible, *out.notes]), out
    back("trl", given)  # it composes


def test_a_constant_learning_rate_loses_nothing() -> None:
    given = {"lr_scheduler_type": "constant_with_warmup", "warmup_steps": 0.1, "max_steps": 100}
    assert trl.overrides(given).inexpressible == []
    assert back("trl", given).optimizer.warmup_steps == 10
    two = {"reward_weights": [1.0, 0.5], "multi_objective_aggregation": "normalize_then_sum"}
    advantage = back("trl", two).algorithm.advantage
    assert (advantage.outcome_weight, advantage.format_weight, advantage.length_weight) == (1.0, 0.5, 0.0)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"scale_rewards": "grup"}, "scale_rewards='grup' is not known; did you mean 'group'"),
        ({"vllm_importance_sampling_mode": "token"}, "vllm_importance_sampling_mode='token' is not known"),
        ({"multi_objective_aggregation": "sum"}, "multi_objective_aggregation='sum' is not known"),
        ({"num_generations": 0}, "num_generations=0 is no count; give an integer from 1 on"),
    ],
)
def test_values_that_trl_does_not_take_are_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        trl.overrides(given)


def test_divisors_of_the_constant_sum() -> None:
    code = compose_run(["algorithm=dr_grpo"])
    assert trl.export(code).settings["loss_type"] == "dr_grpo"
    assert not any("constant" in line for line in trl.export(code).inexpressible)
    assert verl.export(code).settings[f"{ACTOR}.loss_scale_factor"] == 32
    equation = compose_run(["algorithm=dr_grpo_equation"])
    assert any("constant_tokens" in line for line in trl.export(equation).inexpressible)
    assert verl.export(equation).settings[f"{ACTOR}.loss_scale_factor"] == 1.0


@pytest.mark.parametrize(
    ("dialect", "name", "named"),
    [
        ("trl", "dapo", "dead_groups.policy=refill"),
        ("trl", "grpo", "advantage.epsilon=1e-06"),
        ("trl", "dapo_group_token_mean", "aggregation=group_token_mean"),
        ("trl", "vapo", "advantage.kind=gae"),
        ("trl", "scale_rl", "curriculum.kind=retire"),
        ("trl", "reinforce_pp_baseline", "k2 in the loss"),
        ("verl", "dapo", "overlong.policy"),
        ("verl", "vapo", "lambda_value"),
        ("verl", "reinforce_pp_baseline", "advantage.whiten_over"),
        ("verl", "dapo_microbatch", "aggregation=microbatch_token_mean"),
        ("verl", "best_worst_dpo", "best_worst"),
        ("verl", "rft", "source.kind=initial_policy"),
    ],
)
def test_what_a_target_cannot_express_is_named(dialect: str, name: str, named: str) -> None:
    exported = member("harness.exchange.dialects", dialect).export(compose_run([f"algorithm={name}"]))
    assert any(named in line for line in exported.inexpressible), exported.inexpressible


@pytest.mark.parametrize("dialect", DIALECTS)
def test_budgets_ends_of_responses_and_values_of_rewards_are_said(dialect: str) -> None:
    given = [
        "training.generated_tokens=1000000", "training.seconds=60", "sampling.stop_strings=[stop]",
        "algorithm.reward.wrong=0", "algorithm.reward.format_credit=0.1",
    ]  # fmt: skip
    out = member("harness.exchange.dialects", dialect).export(compose_run(["algorithm=grpo", *given]))
    said = [line.partition("=")[0] for line in out.inexpressible]
    assert {
        "training.generated_tokens",
        "training.seconds",
        "sampling.stop_strings",
    } <= set(said)
    rewards = "give 1 for a right answer and 0 for a wrong one, 0.1 more where an answer can be extracted"
    assert any(rewards in note for note in out.notes)
    plain = member("harness.exchange.dialects", dialect).export(compose_run(["algorithm=grpo"]))
    assert not any(line.startswith(("training.", "sampling.")) for line in plain.inexpressible)


def test_a_dual_clip_that_cannot_be_switched_off() -> None:
    assert verl.export(compose_run(["algorithm=grpo"])).settings[f"{ACTOR}.clip_ratio_c"] == 1e9
    assert back("verl", {}).algorithm.surrogate.dual_clip == 3.0  # verl's default is on
    assert back("verl", {f"{ACTOR}.clip_ratio_c": 1e9}).algorithm.surrogate.dual_clip is None


@pytest.mark.parametrize(
    ("level", "threshold", "expected"),
    [
        ("token", "0.5_5.0", ("token_mask", 0.5, 5.0)),  # verl's own preset for IcePop
        ("sequence", "0.5_5.0", ("sequence_mask", 0.5, 5.0)),
        ("token", "2.0", ("token", 0.0, 2.0)),
        ("token", 3, ("token", 0.0, 3.0)),
    ],
)
def test_verls_bounds_of_importance_weights(level: str, threshold: Any, expected: tuple[Any, ...]) -> None:
    keys = {"algorithm.rollout_correction.rollout_is": level}
    config = back("verl", keys | {"algorithm.rollout_correction.rollout_is_threshold": threshold})
    correction = config.algorithm.engine_correction
    assert (correction.kind, correction.floor, correction.cap) == expected
    again = back("verl", verl.export(config).settings).algorithm.engine_correction
    assert again == correction


def test_bounds_that_are_no_numbers_are_refused_by_name() -> None:
    keys = {"algorithm.rollout_correction.rollout_is": "token"}
    with pytest.raises(ConfigError, match=r"rollout_is_threshold=wide is neither a number nor lower_upper"):
        verl.overrides(keys | {"algorithm.rollout_correction.rollout_is_threshold": "wide"})
    told = verl.overrides(keys | {"algorithm.rollout_correction.rollout_is_threshold": "1.5_5"})
    assert any("must hold 1" in line for line in told.inexpressible)


def test_a_constant_beside_a_token_mean_has_no_effect() -> None:
    out = verl.overrides({f"{ACTOR}.loss_agg_mode": "token-mean", f"{ACTOR}.loss_scale_factor": 1024})
    assert "algorithm.aggregation.constant_tokens" not in out.settings
    assert any("loss_scale_factor=1024 has no effect" in line for line in out.notes)
    assert back("verl", {f"{ACTOR}.loss_scale_factor": 1024}).algorithm.aggregation.kind == "batch_token_mean"


def test_masks_have_names_elsewhere() -> None:
    config = compose_run(["algorithm=icepop"])
    out = trl.export(config).settings
    assert (out["vllm_importance_sampling_mode"], out["vllm_importance_sampling_clip_min"]) == (
        "token_mask",
        0.5,
    )
    assert back("trl", out).algorithm.engine_correction == config.algorithm.engine_correction
    assert verl.export(config).settings["algorithm.rollout_correction.rollout_is_threshold"] == "0.5_5"


def test_a_published_recipe_is_read() -> None:
    # The DAPO recipe's script, keys as it has them.
    config = back(
        "verl",
        {
            "data.train_batch_size": 512, f"{ACTOR}.ppo_mini_batch_size": 32, "actor_rollout_ref.rollout.n": 16,
            "data.max_response_length": 20480, f"{ACTOR}.clip_ratio_low": 0.2, f"{ACTOR}.clip_ratio_high": 0.28,
            f"{ACTOR}.clip_ratio_c": 10.0,
            f"{ACTOR}.loss_agg_mode": "token-mean", "algorithm.filter_groups.enable": True, "algorithm.filter_groups.metric": "acc",
            "reward_model.overlong_buffer.enable": True, "reward_model.overlong_buffer.len": 4096, f"{ACTOR}.optim.lr_warmup_steps": 10,
        },
    )  # fmt: skip
    algorithm = config.algorithm
    assert (algorithm.prompts_per_step, algorithm.updates_per_step, algorithm.responses_per_prompt) == (
        512,
        16,
        16,
    )
    assert (algorithm.surrogate.clip_high, algorithm.surrogate.dual_clip) == (0.28, 10.0)
    assert (algorithm.overlong.policy, algorithm.overlong.buffer_fraction) == ("soft", 0.2)
    assert (algorithm.dead_groups.policy, config.optimizer.warmup_steps) == ("refill", 10)


def test_the_command_exports_yaml_with_remarks(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "dialect=trl", "algorithm=dapo"]) == 0
    text = capsys.readouterr().out
    assert yaml.safe_load(text)["epsilon_high"] == 0.28
    assert "# trl cannot express:" in text
    assert "dead_groups.policy=refill" in text


def test_the_command_imports_what_it_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["export", "dialect=trl", "algorithm=dr_grpo", "algorithm.surrogate.clip_high=0.25"]) == 0
    file = tmp_path / "grpo_config.yaml"
    file.write_text(capsys.readouterr().out, encoding="utf-8")
    assert main(["import", "dialect=trl", f"file={file}", "ref_model_mixup_alpha=0.6"]) == 0
    lines = capsys.readouterr().out.splitlines()
    config = compose_run([line for line in lines if not line.startswith("#")])
    assert config.algorithm.aggregation.kind == "constant_sum"
    assert config.algorithm.surrogate.clip_high == 0.25
    assert "#   ref_model_mixup_alpha=0.6: not read" in lines


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["export", "algorithm=dapo"], "name one dialect"),
        (["export", "dialect=tlr", "algorithm=dapo"], "did you mean 'trl'?"),
        (["import", "dialect=trl", "file=nowhere.yaml"], "no file nowhere.yaml"),
        (["import", "dialect=trl", "epsilon=high"], "epsilon=high is not a number"),
        (["import", "dialect=verl", f"{ACTOR}.clip_ratio_low=low"], "clip_ratio_low=low is not a number"),
        (["import", "dialect=verl", f"{ACTOR}.optim.betas=[0.9"], "is not YAML"),
    ],
)
def test_mistakes_are_named(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        (
            ["dialect=trl", "epsilon=3e-4", "epsilon_high=4E-4"],
            ["algorithm.surrogate.clip_low=0.0003", "algorithm.surrogate.clip_high=0.0004"],
        ),
        (
            ["dialect=verl", f"{ACTOR}.clip_ratio_low=3e-4", f"{ACTOR}.optim.lr=1e-6"],
            ["algorithm.surrogate.clip_low=0.0003", "optimizer.learning_rate=1e-06"],
        ),
    ],
)
def test_numbers_in_exponent_notation_are_numbers(
    arguments: list[str], lines: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["import", *arguments]) == 0
    assert set(lines) <= set(capsys.readouterr().out.splitlines())
    file = tmp_path / "settings.yaml"
    file.write_text("\n".join(item.replace("=", ": ") for item in arguments[1:]))
    assert main(["import", arguments[0], f"file={file}"]) == 0
    assert set(lines) <= set(capsys.readouterr().out.splitlines())


def test_what_names_things_keeps_its_spelling() -> None:
    given = key_values(["arm=1e-4", "run=010", "cap=1e3"], ("arm", "run", "cap"), "x", texts=("arm", "run"))
    assert given == {"arm": "1e-4", "run": "010", "cap": 1000.0}
    assert key_values(["regrade=1234567e12345678"], ("regrade",), "x") == {"regrade": "1234567e12345678"}
    assert key_values(["out=my results #2"], ("out",), "x") == {"out": "my results #2"}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"algorithm.gamma": 1.0, "algorithm.lam": 1.0, "trainer.critic_warmup": 0}, None),
        ({"algorithm.gamma": 0.9}, "algorithm.gamma=0.9 has no effect in verl with adv_estimator=grpo"),
        ({"critic.optim.lr": 1e-5}, "critic.optim.lr=1e-05 has no effect"),
        ({"trainer.critic_warmup": 3}, "trainer.critic_warmup=3: verl's actor waits"),
        (
            {"algorithm.gamma": 0.9, "algorithm.adv_estimator": "reinforce_plus_plus"},
            "algorithm.gamma=0.9: returns are not discounted here",
        ),
    ],
)
def test_keys_of_verls_critic_are_read_with_gae_only(given: dict[str, Any], said: str | None) -> None:
    values = {"algorithm.adv_estimator": "grpo", **given}
    out = verl.overrides(values)
    back("verl", values)  # it composes
    remarks = [*out.inexpressible, *out.notes]
    assert not remarks if said is None else any(said in line for line in remarks), remarks
    gae = back("verl", {"algorithm.adv_estimator": "gae", "algorithm.gamma": 0.9}).algorithm.advantage
    assert gae.discount == 0.9


@pytest.mark.parametrize(
    ("given", "steps"),
    [
        ({"lr_warmup_steps": -1}, 0),
        ({"lr_warmup_steps": None, "lr_warmup_steps_ratio": 0.0}, 0),
        ({"lr_warmup_steps": 7, "lr_warmup_steps_ratio": 0.5}, 7),
        ({"lr_warmup_steps": -1, "lr_warmup_steps_ratio": 0.1}, 5),
    ],
)
def test_verls_warmup_of_no_steps_is_its_share_of_the_training(given: dict[str, Any], steps: int) -> None:
    values = {f"{ACTOR}.optim.{key}": value for key, value in given.items()}
    assert back("verl", {**values, "trainer.total_training_steps": 50}).optimizer.warmup_steps == steps


def test_a_share_of_unknown_training_steps_is_said() -> None:
    out = verl.overrides({f"{ACTOR}.optim.lr_warmup_steps_ratio": 0.1})
    assert "optimizer.warmup_steps" not in out.settings
    assert any("total_training_steps" in line for line in out.inexpressible)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({f"{ACTOR}.ppo_mini_batch_size": 32}, "ppo_mini_batch_size=32: a share of data.train_batch_size"),
        (
            {"reward_model.overlong_buffer.enable": True, "reward_model.overlong_buffer.len": 4096},
            "overlong_buffer.len=4096: a share of data.max_response_length",
        ),
    ],
)
def test_shares_of_what_is_not_given_are_said(given: dict[str, Any], said: str) -> None:
    assert any(said in line for line in verl.overrides(given).inexpressible)
    whole = {**given, "data.train_batch_size": 64, "data.max_response_length": 8192}
    assert verl.overrides(whole).inexpressible == []


def test_verls_refill_without_limit_has_no_counterpart() -> None:
    rounds = {"algorithm.filter_groups.max_num_gen_batches": 0}
    assert verl.overrides(rounds).inexpressible == []  # nothing is filtered
    given = {**rounds, "algorithm.filter_groups.enable": True}
    assert any("verl refills without limit" in line for line in verl.overrides(given).inexpressible)
    assert back("verl", given).algorithm.dead_groups.policy == "refill"
    given["algorithm.filter_groups.max_num_gen_batches"] = 7
    assert back("verl", given).algorithm.dead_groups.max_rounds == 7


def test_decoupled_rewards_survive_verl_or_are_said_not_to() -> None:
    weights = ["algorithm.advantage.format_weight=0.25", "algorithm.advantage.length_weight=0"]
    exported = verl.export(compose_run(["algorithm=gdpo", *weights]))
    assert exported.settings["algorithm.gdpo_reward_weights"] == [1.0, 0.25, 0.0]
    returned = back("verl", exported.settings).algorithm.advantage
    assert (returned.outcome_weight, returned.format_weight, returned.length_weight) == (1.0, 0.25, 0.0)
    assert returned.epsilon == 1e-6  # verl's, in a group
    assert any("advantage.epsilon=0.0001: verl adds 1e-06" in line for line in exported.inexpressible)
    other = ["algorithm.advantage.ddof=0", "algorithm.advantage.batch_normalise=false"]
    lines = " ".join(verl.export(compose_run(["algorithm=gdpo", *other])).inexpressible)
    assert "advantage.ddof=0" in lines
    assert "batch_normalise=False" in lines
    foreign = {"algorithm.adv_estimator": "gdpo", "algorithm.gdpo_reward_keys": ["style", "format"]}
    assert any("gdpo_reward_keys" in line for line in verl.overrides(foreign).inexpressible)

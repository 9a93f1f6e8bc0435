"""The two tables: what a trainer's settings become here, what ours become there, and that nothing is dropped without a line."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pytest
from trainer_configs import ACTOR, CORRECTION, DIALECTS, OVERLONG, RESOLVED, TRL, VERL, compose_once, lines, read

from harness.configuration.compose import compose_run, options
from harness.configuration.error import ConfigError
from harness.configuration.identity import difference, flatten
from harness.configuration.schema import dump
from harness.exchange.dialect import Translation, load_table

ODD = [None, "${x}", "???", "auto", -1, 0, True, math.nan, math.inf, [], {}, ["a", 1], [None], "1e", 10**30]


def situations(dialect: str) -> Iterator[tuple[dict[str, Any], set[str]]]:
    """The resolved configuration with all its keys, and for each block of the table one in which its rows have an effect, with those."""
    table, values = load_table(dialect), RESOLVED[dialect]
    yield values, {*values, *(key.replace("*", "x") for key in table.active(values))}
    for block in table.beside:
        yield values | {key: wanted[0] for key, wanted in block.condition.items()}, {*block.condition, *block.rows}
    if dialect == "verl":
        in_reward = {f"{ACTOR}.use_kl_loss": False, "algorithm.use_kl_in_reward": True}
        yield VERL | in_reward, {"algorithm.kl_ctrl.kl_coef", "algorithm.kl_penalty", *in_reward}
        yield VERL | {"trainer.total_training_steps": None}, {"trainer.total_epochs"}
        yield VERL | {f"{ACTOR}.optim.lr_warmup_steps": 7}, {f"{ACTOR}.optim.lr_warmup_steps"}
    else:
        yield TRL | {"max_steps": -1}, {"num_train_epochs"}
        yield TRL | {"warmup_steps": 0}, {"warmup_ratio"}


def outcome(dialect: str, values: dict[str, Any], compose: bool = False) -> Any:
    """What a user sees of a translation; a refusal with a message is an answer, too, another exception is none."""
    try:
        found = DIALECTS[dialect].translate(values)
        if compose:
            compose_run(found.overrides())
    except ConfigError as error:
        return str(error)
    return found.settings, sorted(found.inexpressible), sorted(found.notes), found.missing


# ---- nothing is dropped, and nothing is a traceback ----


@pytest.mark.parametrize("dialect", DIALECTS)
def test_no_key_at_an_odd_value_is_a_traceback(dialect: str) -> None:
    """`${x}`, null, a text, a list: each is a listed line, a clear error, or a value."""
    for values, keys in situations(dialect):
        for key in sorted(keys):
            for odd in ODD:
                answer = outcome(dialect, values | {key: odd})
                named = key.rpartition(".")[2] in answer or "responses" in answer if isinstance(answer, str) else True
                assert named, (key, odd, answer)


def changed(value: Any) -> Any:
    """Another value of the same kind."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value * 2 if value else 3
    if isinstance(value, list):
        return [*value, 0.5]
    return 0.25 if value is None else "another"


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_key_of_the_table_that_changes_changes_the_translation_or_is_listed(dialect: str) -> None:
    silent, heard = set(), set()
    for values, keys in situations(dialect):
        base, rows = outcome(dialect, values), load_table(dialect).active(values)
        for key in keys & {name.replace("*", "x") for name in rows}:
            other = outcome(dialect, values | {key: changed(values.get(key, 0.125))})
            (silent if other == base else heard).add(key)
    assert silent - heard == set()
    assert len(heard) > 60


@pytest.mark.parametrize("dialect", DIALECTS)
def test_rows_name_keys_that_the_harness_has(dialect: str) -> None:
    """Each value of a row composes, beside the settings that give it an effect."""
    for values, keys in situations(dialect):
        for key, row in load_table(dialect).active(values).items():
            for choice, meaning in {} if isinstance(row, str) or key not in keys else row.items():
                if isinstance(meaning, dict):
                    answer = outcome(dialect, values | {key: choice}, compose=True)
                    assert "unknown" not in str(answer), answer


# ---- from theirs to ours ----


FILTER = "algorithm.filter_groups"
SEPARATE = {"multi_objective_aggregation": "normalize_then_sum", "reward_funcs": None}


@pytest.mark.parametrize(
    ("dialect", "change", "ours"),
    [
        # 256 responses = 16 a device x 8 steps x 2 devices; an update takes 16 x 2 x 2 = 64 of them.
        (
            "trl", {},
            {
                "algorithm.prompts_per_step": 32, "algorithm.updates_per_step": 4, "training.steps": 100, "seed": 42,
                "optimizer.warmup_steps": 4, "optimizer.decay": "cosine", "optimizer.final_share": 0.1,
                "algorithm.surrogate.clip_low": 0.2, "algorithm.surrogate.clip_high": 0.28, "algorithm.surrogate.dual_clip": 4.0,
                "algorithm.aggregation.kind": "batch_token_mean", "algorithm.kl.kind": "k3", "algorithm.kl.coefficient": 0.04,
                "algorithm.engine_correction.kind": "token_mask", "algorithm.engine_correction.floor": 0.5,
                "algorithm.engine_correction.cap": 3.0, "algorithm.engine_correction.old_log_probs": "recomputed",
                "algorithm.advantage.epsilon": 1e-4, "algorithm.overlong.policy": "mask",
                "model.path": "Qwen/Qwen2.5-0.5B", "model.lora.rank": 16, "model.lora.targets": "q_proj",
            },
        ),
        (
            "verl", {},
            {
                "algorithm.prompts_per_step": 32, "algorithm.updates_per_step": 4, "training.steps": 100,
                "optimizer.warmup_steps": 10, "optimizer.decay": "cosine",  # a tenth of 100 steps
                "algorithm.surrogate.clip_high": 0.28, "algorithm.surrogate.dual_clip": 10.0,
                "algorithm.aggregation.kind": "batch_token_mean",
                "algorithm.overlong.policy": "soft", "algorithm.overlong.buffer_fraction": 0.25,
                "algorithm.dead_groups.policy": "refill", "algorithm.dead_groups.metric": "accuracy",
                "algorithm.dead_groups.max_rounds": 10,
                "algorithm.kl.kind": "k3", "algorithm.kl.placement": "loss", "algorithm.kl.coefficient": 0.001,
                "algorithm.advantage.epsilon": 1e-6, "algorithm.engine_correction.kind": "token", "sampling.top_k": 0,
            },
        ),
        # A filter biases the correction, which cannot be written then.
        ("trl", {"top_p": 0.95}, {"algorithm.engine_correction.kind": "none", "sampling.top_p": 0.95}),
        ("trl", {"top_k": 20}, {"algorithm.engine_correction.kind": "none", "sampling.top_k": 20}),
        ("trl", {"use_bias_correction_kl": True}, {"algorithm.kl.kind": "k3_ratio"}),
        ("trl", {"loss_type": "sapo", "sapo_temperature_pos": 1.5}, {"algorithm.surrogate.temperature_positive": 1.5}),
        ("trl", {"loss_type": "cispo", "epsilon_high": 5.0}, {"algorithm.surrogate.cap_max": 5.0, "algorithm.surrogate.cap_min": 0.0}),
        ("trl", {"loss_type": "dr_grpo"}, {"algorithm.aggregation.constant_tokens": 1024.0}),
        ("trl", {"loss_type": "bnpo"}, {"algorithm.aggregation.micro_batch_responses": 16}),
        ("trl", {"epsilon": 1.0, "epsilon_high": 1e9}, {"algorithm.surrogate.kind": "policy_gradient"}),
        ("trl", {"epsilon_high": None}, {"algorithm.surrogate.clip_high": 0.2}),
        ("trl", {"use_vllm": False}, {"algorithm.engine_correction.kind": "none"}),
        ("trl", {"scale_rewards": "batch"}, {"algorithm.advantage.scale": "batch_reward_std"}),
        (
            "trl", SEPARATE | {"reward_weights": [1.0, 0.5]},
            {"algorithm.advantage.outcome_weight": 1.0, "algorithm.advantage.format_weight": 0.5, "algorithm.advantage.length_weight": 0.0},
        ),
        ("trl", {"warmup_steps": 0.1}, {"optimizer.warmup_steps": 10}),  # of 400 updates, four a rollout step
        ("verl", {f"{ACTOR}.clip_ratio_c": 1e9}, {"algorithm.surrogate.dual_clip": None}),
        (
            "verl", {f"{ACTOR}.policy_loss.loss_mode": "gspo", f"{CORRECTION}.rollout_is": None},
            {"algorithm.importance_ratio": "sequence", "algorithm.aggregation.kind": "batch_token_mean"},
        ),
        ("trl", {"max_grad_norm": 0.0}, {"optimizer.max_gradient_norm": 1e9}),
        ("trl", {"use_peft": True, "lora_r": None, "lora_target_modules": "q_proj"}, {"model.lora.rank": 16}),
        ("verl", {f"{ACTOR}.policy_loss.loss_mode": "cispo"}, {"algorithm.surrogate.cap_min": 0.8, "algorithm.surrogate.cap_max": 1.28}),
        ("verl", {f"{ACTOR}.loss_agg_mode": "seq-mean-token-sum-norm"}, {"algorithm.aggregation.constant_tokens": 64}),
        ("verl", {f"{ACTOR}.loss_agg_mode": "seq-mean-token-sum"}, {"algorithm.aggregation.constant_tokens": 1.0}),
        (
            "verl", {f"{CORRECTION}.rollout_is_threshold": "0.5_5.0"},
            {"algorithm.engine_correction.kind": "token_mask", "algorithm.engine_correction.floor": 0.5},
        ),
        ("verl", {f"{CORRECTION}.bypass_mode": True}, {"algorithm.engine_correction.old_log_probs": "sampler"}),
        ("verl", {f"{ACTOR}.optim.lr_warmup_steps": 7}, {"optimizer.warmup_steps": 7}),
        ("verl", {"algorithm.adv_estimator": "gae"}, {"algorithm.advantage.lambda_policy": 0.95, "algorithm.advantage.lambda_value": 0.95}),
        ("verl", {"algorithm.adv_estimator": "gdpo"}, {"algorithm.advantage.format_weight": 0.5, "algorithm.advantage.length_weight": 0.0}),
        ("verl", {f"{ACTOR}.kl_loss_type": "kl+"}, {"algorithm.kl.kind": "k2"}),
        (
            "verl", {f"{ACTOR}.use_kl_loss": False, "algorithm.use_kl_in_reward": True, "algorithm.kl_penalty": "kl+"},
            {"algorithm.kl.kind": "k1", "algorithm.kl.placement": "reward", "algorithm.kl.coefficient": 0.01},
        ),
    ],
)  # fmt: skip
def test_a_setting_of_theirs_is_read(dialect: str, change: dict[str, Any], ours: dict[str, Any]) -> None:
    found = flatten(dump(read(dialect, RESOLVED[dialect] | change)))
    assert {key: found[key] for key in ours} == ours


def test_a_second_kl_term_of_verl_is_listed() -> None:
    """verl allows both; the loss's has its place here and the reward's was lost without a word."""
    both = VERL | {"algorithm.use_kl_in_reward": True}
    algorithm = read("verl", both).algorithm
    assert (algorithm.kl.coefficient, algorithm.kl.placement) == (0.001, "loss")
    said = "algorithm.use_kl_in_reward=True: verl adds this KL term of algorithm.kl_ctrl.kl_coef=0.01 to the loss's; one has a place here"
    assert said in lines("verl", both)


@pytest.mark.parametrize(
    ("dialect", "condition", "key"),
    [
        ("trl", "multi_objective_aggregation", "scale_rewards"),
        ("trl", "loss_type", "delta"),
        ("verl", f"{ACTOR}.policy_loss.loss_mode", f"{ACTOR}.clip_ratio_high"),
        ("verl", "algorithm.adv_estimator", "algorithm.norm_adv_by_std_in_grpo"),
    ],
)
def test_a_key_whose_condition_is_not_in_the_file_is_listed(dialect: str, condition: str, key: str) -> None:
    values = {name: value for name, value in RESOLVED[dialect].items() if name != condition}
    assert any(
        line.startswith(f"{key}=") and f"{condition}, which is not in the file" in line
        for line in lines(dialect, values)
    )


def test_a_reward_function_that_is_a_text_is_one_name() -> None:
    values = TRL | {"reward_funcs": "accuracy", "reward_weights": [2.0]}
    assert read("trl", values).algorithm.reward.correct == 2.0
    assert not any("reward_funcs=" in line for line in lines("trl", values))


def test_weights_that_are_not_as_many_as_the_reward_functions_are_refused() -> None:
    values = TRL | {"reward_funcs": ["accuracy", "format", "length"], "reward_weights": [1.0]}
    with pytest.raises(ConfigError, match="reward_funcs has 3 names, reward_weights 1 numbers"):
        DIALECTS["trl"].translate(values)
    listed = lines("trl", values | {"reward_weights": [1.0, 0.5, 0.25]})
    assert {"format (weight 0.5)", "length (weight 0.25)"} <= {
        line.partition("=")[2].partition(":")[0] for line in listed
    }


@pytest.mark.parametrize(
    ("dialect", "change", "line"),
    [
        ("trl", {"repetition_penalty": 1.2}, "repetition_penalty=1.2: no counterpart here, only for 1.0"),
        ("trl", {"lr_scheduler_type": "polynomial"}, "lr_scheduler_type=polynomial: no counterpart here, only for constant"),
        ("trl", {"lr_scheduler_type": "constant"}, "warmup_steps=16 has no effect"),
        ("trl", {"max_steps": -1}, "num_train_epochs=3.0: the length follows from the size of the data set; give max_steps=N"),
        ("trl", {"max_completion_length": None}, "max_completion_length=None: no counterpart"),
        ("trl", {"sync_ref_model": True}, "sync_ref_model=True: every"),
        ("trl", {"loss_type": "luspo"}, "loss_type=luspo: weighs responses by length here only with"),
        ("trl", {"loss_type": "another"}, "loss_type=another: no counterpart here, only for grpo, bnpo"),
        ("trl", {"reward_funcs": None, "reward_weights": [1.0, 0.2]}, "reward_weights=[1.0, 0.2]: the reward is algorithm.reward"),
        ("trl", {"vllm_importance_sampling_clip_max": None}, "vllm_importance_sampling_clip_max=None: no counterpart here"),
        ("trl", {}, "dataset_name=open-r1/x: choose task="),
        ("verl", {"algorithm.adv_estimator": "reinforce_plus_plus", "algorithm.gamma": 0.9}, "algorithm.gamma=0.9: no counterpart"),
        ("verl", {"trainer.critic_warmup": 3}, "trainer.critic_warmup=3: no counterpart here, only for 0"),
        ("verl", {f"{CORRECTION}.rollout_is_threshold": "1.5_5"}, "the bounds must hold 1 here"),
        ("verl", {"trainer.total_training_steps": None}, "lr_warmup_steps_ratio=0.1: a share of trainer.total_training_steps"),
        ("verl", {f"{FILTER}.max_num_gen_batches": 0}, "max_num_gen_batches=0: verl refills without limit"),
        ("verl", {f"{ACTOR}.grad_clip": 0.3}, f"{ACTOR}.grad_clip=0.3: read by nothing from verl 0.8 on"),
        ("verl", {"algorithm.adv_estimator": "gdpo", "algorithm.gdpo_reward_keys": ["style"]}, "gdpo_reward_keys=['style']: the rewards"),
        ("verl", {f"{ACTOR}.policy_loss.loss_mode": "sapo"}, "use_kl_loss=True: verl aggregates it by token-mean beside sapo"),
        (
            "verl", {f"{ACTOR}.policy_loss.loss_mode": "sapo", f"{ACTOR}.entropy_coeff": 0.01},
            "entropy_coeff=0.01: verl aggregates it by token-mean",
        ),
        ("trl", {"delta": 1.1}, "delta=1.1: below 1 + clip_high"),
        ("trl", {}, "TRL's updates take random responses of the step"),
        ("verl", {f"{ACTOR}.clip_ratio": 0.3}, "clip_ratio=0.3 has no effect in verl beside"),
        ("verl", {"reward.reward_manager.name": "naive"}, f"{OVERLONG}.enable=True: only reward.reward_manager.name=dapo reads it"),
        ("verl", {"reward_model.overlong_buffer.enable": True}, "reward_model.overlong_buffer.enable=True: no counterpart"),
        ("verl", {f"{ACTOR}.optim.lr": "${lr}"}, "optim.lr=${lr}: refers to another setting"),
    ],
)  # fmt: skip
def test_what_is_lost_on_the_way_here_is_listed(dialect: str, change: dict[str, Any], line: str) -> None:
    values = RESOLVED[dialect] | change
    assert any(line in each for each in lines(dialect, values)), lines(dialect, values)
    if "${" not in line:
        read(dialect, values)  # it composes


@pytest.mark.parametrize(
    ("dialect", "change", "message"),
    [
        ("trl", {"num_generations": 0}, "num_generations=0 is no count"),
        ("trl", {"num_generations": 7}, "no whole groups in every update"),
        ("trl", {"generation_batch_size": 200}, "generation_batch_size=200 is not per_device_train_batch_size=16 x steps_per_generation=8"),
        ("trl", {"epsilon": "high"}, "epsilon=high is not a number"),
        ("verl", {f"{CORRECTION}.rollout_is_threshold": "wide"}, "rollout_is_threshold=wide is neither a number nor lower_upper"),
        ("verl", {f"{ACTOR}.ppo_mini_batch_size": 5}, "data.train_batch_size=32 prompts are no multiple of"),
        ("verl", {"data.train_batch_size": "${x}"}, r"train_batch_size=\$\{x\} refers to another setting"),
        ("verl", {f"{ACTOR}.optim.betas": "auto"}, "betas=auto is no list of numbers"),
    ],
)  # fmt: skip
def test_values_that_cannot_be_are_named(dialect: str, change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        DIALECTS[dialect].translate(RESOLVED[dialect] | change)


def test_batch_sizes_of_trl_need_the_devices_where_nothing_tells_them() -> None:
    bare = {key: value for key, value in TRL.items() if key not in ("generation_batch_size", "steps_per_generation")}
    line = "per_device_train_batch_size=16: counts responses on one device; give devices=N, the processes that trained"
    assert line in lines("trl", bare)
    # 16 a device x 2 accumulated x 4 devices make 128 responses, one update.
    algorithm = read("trl", bare, devices=4).algorithm
    assert (algorithm.prompts_per_step, algorithm.updates_per_step) == (16, 1)


# ---- from ours to theirs ----

WARM_DAPO = ["algorithm=dapo", "optimizer.warmup_steps=5"]
BOUNDED = ["algorithm=cispo", "algorithm.surrogate.cap_max=1.3", "algorithm.surrogate.cap_min=0.2"]
KL = ["algorithm=grpo", "algorithm.kl.coefficient=0.04"]
OLD = "algorithm.engine_correction.old_log_probs"
UNCLIPPED, NO_BOUNDS = ["algorithm=grpo", "algorithm/surrogate=policy_gradient"], {"low": 1.0, "high": 1e9, "c": 1e9}


def exported(dialect: str, *overrides: str) -> Translation:
    found: Translation = DIALECTS[dialect].export(compose_once(*overrides))
    return found


@pytest.mark.parametrize("name", options("algorithm"))
@pytest.mark.parametrize("dialect", DIALECTS)
def test_what_is_expressible_survives_the_way_there_and_back(dialect: str, name: str) -> None:
    there = exported(dialect, f"algorithm={name}", "optimizer.warmup_steps=5")
    kinds = ("algorithm.advantage.kind", "algorithm.surrogate.kind", "algorithm.aggregation.kind")
    if any(line.startswith(kinds) for line in there.inexpressible):
        return  # another kind of algorithm: nothing to come back to
    returned = read(dialect, there.settings, devices=1 if dialect == "trl" else None)
    lost = " ".join(there.inexpressible + there.notes)
    for key, (before, after) in difference(
        compose_once(f"algorithm={name}", "optimizer.warmup_steps=5"), returned
    ).items():
        leaf, section = key.rpartition(".")[2], key.split(".")[1]
        named = leaf in lost or f"algorithm.{section}" in lost or section in ("reward", "overlong", "kl")
        assert named, f"{key}: {before} came back as {after}\n" + "\n".join(there.inexpressible)


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
        ("verl", WARM_DAPO, {"data.train_batch_size": 32, f"{ACTOR}.ppo_mini_batch_size": 2, f"{ACTOR}.optim.lr_warmup_steps": 5}),
        # `ACTOR.grad_clip` is a key that nothing reads
        ("verl", ["optimizer.max_gradient_norm=0.5"], {f"{ACTOR}.optim.clip_grad": 0.5, f"{ACTOR}.grad_clip": None}),
        ("verl", ["algorithm=grpo", f"{OLD}=sampler"], {f"{CORRECTION}.bypass_mode": True}),
        ("verl", ["algorithm=grpo", f"{OLD}=recomputed"], {f"{CORRECTION}.bypass_mode": False}),
        # the cap of bounded weights: itself for TRL, offsets from 1 for verl
        ("trl", BOUNDED, {"epsilon_high": 1.3}),
        ("verl", BOUNDED, {f"{ACTOR}.clip_ratio_high": 0.3, f"{ACTOR}.clip_ratio_low": 0.8}),
        ("verl", [*KL, "algorithm/kl=k1"], {f"{ACTOR}.kl_loss_type": "kl"}),
        ("verl", [*KL, "algorithm/kl=k3_k2"], {f"{ACTOR}.kl_loss_type": "low_var_kl+"}),
        ("trl", [*KL, "algorithm/kl=k1"], {"beta": None}),
        ("trl", ["algorithm=grpo_kl"], {"beta": 0.04, "use_bias_correction_kl": False}),
        ("trl", ["algorithm=grpo_kl_ratio"], {"beta": 0.04, "use_bias_correction_kl": True}),
        ("trl", ["algorithm=dr_grpo"], {"loss_type": "dr_grpo"}),
        ("verl", ["algorithm=dr_grpo"], {f"{ACTOR}.loss_agg_mode": "seq-mean-token-sum-norm", f"{ACTOR}.loss_scale_factor": 32}),
        ("verl", ["algorithm=dr_grpo_equation"], {f"{ACTOR}.loss_scale_factor": 1.0}),
        ("verl", ["algorithm=grpo"], {f"{ACTOR}.clip_ratio_c": 1e9}),  # a dual clip that cannot be switched off
        (
            "verl", UNCLIPPED,
            {f"{ACTOR}.policy_loss.loss_mode": "vanilla", **{f"{ACTOR}.clip_ratio_{at}": end for at, end in NO_BOUNDS.items()}},
        ),
        ("verl", [*UNCLIPPED, "algorithm.surrogate.importance_weighted=false"], {f"{ACTOR}.policy_loss.loss_mode": "gpg"}),
        ("trl", ["algorithm=icepop"], {"vllm_importance_sampling_mode": "token_mask", "vllm_importance_sampling_clip_min": 0.5}),
        ("verl", ["algorithm=icepop"], {f"{CORRECTION}.rollout_is_threshold": "0.5_5"}),
        (
            "verl", ["algorithm=gdpo", "algorithm.advantage.format_weight=0.25", "algorithm.advantage.length_weight=0"],
            {"algorithm.gdpo_reward_weights": [1.0, 0.25, 0.0]},
        ),
    ],
)  # fmt: skip
def test_settings_have_their_names_and_units(dialect: str, overrides: list[str], settings: dict[str, Any]) -> None:
    """None: the key is not written."""
    found = exported(dialect, *overrides).settings
    assert {key: found.get(key) for key in settings} == {
        key: pytest.approx(value) if isinstance(value, float) else value for key, value in settings.items()
    }


@pytest.mark.parametrize(
    ("dialect", "overrides", "named"),
    [
        ("trl", ["algorithm=dapo"], "dead_groups.policy=refill"),
        ("trl", ["algorithm=grpo"], "advantage.epsilon=1e-06"),
        ("trl", ["algorithm=dapo_group_token_mean"], "aggregation.kind=group_token_mean"),
        ("trl", ["algorithm=vapo"], "advantage.kind=gae"),
        ("trl", ["algorithm=scale_rl"], "curriculum.kind=retire"),
        ("trl", ["algorithm=reinforce_pp_baseline"], "k2 in the loss"),
        ("trl", BOUNDED, "cap_min"),
        ("trl", ["algorithm=dr_grpo_equation"], "constant_tokens"),
        ("verl", ["algorithm=dapo"], "overlong.policy"),
        ("verl", ["algorithm=vapo"], "lambda_value"),
        ("verl", ["algorithm=reinforce_pp_baseline"], "advantage.whiten_over"),
        ("verl", ["algorithm=dapo_microbatch"], "aggregation.kind=microbatch_token_mean"),
        ("verl", ["algorithm=best_worst_dpo"], "best_worst"),
        ("verl", ["algorithm=grpo_kl_ratio"], "k3_ratio"),
        ("verl", ["algorithm=gdpo"], "advantage.epsilon=0.0001: verl adds 1e-06"),
        ("verl", ["algorithm=gdpo", "algorithm.advantage.batch_normalise=false"], "batch_normalise=False"),
    ],
)  # fmt: skip
def test_what_a_target_cannot_express_is_named(dialect: str, overrides: list[str], named: str) -> None:
    found = exported(dialect, *overrides).inexpressible
    assert any(named in line for line in found), found


@pytest.mark.parametrize("dialect", DIALECTS)
def test_budgets_ends_of_responses_and_values_of_rewards_are_said(dialect: str) -> None:
    given = ["training.generated_tokens=1000000", "training.seconds=60", "sampling.stop_strings=[stop]"]
    given += ["algorithm.reward.wrong=0", "algorithm.reward.format_credit=0.1"]
    out = exported(dialect, "algorithm=grpo", *given)
    named = [line.partition("=")[0] for line in out.inexpressible]
    assert {"training.generated_tokens", "training.seconds", "sampling.stop_strings"} <= set(named)
    rewards = "give 1 for a right answer and 0 for a wrong one, 0.1 more where an answer can be extracted"
    assert any(rewards in note for note in out.notes)
    assert not any(
        line.startswith(("training.", "sampling.stop")) for line in exported(dialect, "algorithm=grpo").inexpressible
    )


def test_differences_that_a_backend_may_accept_have_names() -> None:
    assert list(exported("verl", *WARM_DAPO).deviations) == ["warmup_from_zero", "unbounded_refill"]
    assert exported("verl", "algorithm=grpo").deviations == {}

"""verl's Hydra keys. Batches are counted in prompts (multiplied by `rollout.n` inside), warm-up in rollout steps.

Fixed in verl: ddof 1 and epsilon 1e-6 in the group estimator, whitening over tokens in REINFORCE++ and GDPO, a dual clip that cannot be
switched off (a constant that no ratio reaches stands for none). Clip bounds of `cispo` are offsets from 1. Dynamic sampling keys are
those of the DAPO recipe.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.config import RunConfig
from harness.dialects import Translation

_ACTOR, _ROLLOUT = "actor_rollout_ref.actor", "actor_rollout_ref.rollout"
_AGGREGATION = {
    "response_mean": "seq-mean-token-mean",
    "batch_token_mean": "token-mean",
    "constant_sum": "seq-mean-token-sum-norm",
}
_KL = {"k1": "kl", "k2": "mse", "k3": "low_var_kl", "k3_k2": "low_var_kl+"}
_NO_DUAL_CLIP = 1e9
_EPSILON = 1e-6
_WHITEN_EPSILON = 1e-8  # under the square root
_METRIC = {"accuracy": "acc", "reward": "seq_final_reward"}


def export(config: RunConfig) -> Translation:
    """See the family's contract."""
    out = Translation()
    for part in (_batches, _advantage, _loss, _kl, _rewards, _correction):
        part(config, out)
    return out


def _batches(config: RunConfig, out: Translation) -> None:
    algorithm, optimizer, sampling = config.algorithm, config.optimizer, config.sampling
    out.settings |= {
        "data.train_batch_size": algorithm.prompts_per_step,
        "data.max_response_length": sampling.max_response_tokens,
        f"{_ROLLOUT}.n": algorithm.responses_per_prompt,
        f"{_ROLLOUT}.temperature": sampling.temperature,
        f"{_ROLLOUT}.top_p": sampling.top_p,
        f"{_ROLLOUT}.top_k": sampling.top_k or -1,
        f"{_ACTOR}.ppo_mini_batch_size": algorithm.prompts_per_step // algorithm.updates_per_step,
        f"{_ACTOR}.ppo_epochs": algorithm.epochs_per_step,
        f"{_ACTOR}.optim.lr": optimizer.learning_rate,
        f"{_ACTOR}.optim.lr_warmup_steps": optimizer.warmup_steps,
        f"{_ACTOR}.optim.weight_decay": optimizer.weight_decay,
        f"{_ACTOR}.grad_clip": optimizer.max_gradient_norm,
        "trainer.total_training_steps": config.training.steps,
    }
    out.notes.append("train_batch_size and ppo_mini_batch_size count prompts; verl multiplies by rollout.n")
    out.notes.append("lr_warmup_steps counts rollout steps, as here")


def _advantage(config: RunConfig, out: Translation) -> None:
    advantage = config.algorithm.advantage
    if advantage.kind == "gae":
        _gae(advantage, out)
        return
    if advantage.kind == "return_to_go":
        name, tokens = "reinforce_plus_plus", advantage.whiten_over
        if advantage.baseline != "none":
            out.cannot("algorithm.advantage.baseline", advantage.baseline, "reinforce_plus_plus has none")
        if tokens != "tokens":
            out.cannot("algorithm.advantage.whiten_over", tokens, "verl whitens over tokens")
    elif advantage.kind == "decoupled":
        name = "gdpo"
        out.notes.append("verl's gdpo whitens the sum over tokens, here it is divided over sequences")
    elif advantage.kind == "group":
        name = _group_estimator(advantage, out)
    else:
        out.cannot("algorithm.advantage.kind", advantage.kind, "verl has no such estimator")
        return
    out.settings["algorithm.adv_estimator"] = name


def _group_estimator(advantage: Any, out: Translation) -> str:
    pair = (advantage.baseline, advantage.scale)
    if pair in (("group_mean", "group_std"), ("group_mean", "none")):
        out.settings["algorithm.norm_adv_by_std_in_grpo"] = advantage.scale == "group_std"
        if advantage.scale == "group_std" and (advantage.ddof, advantage.epsilon) != (1, _EPSILON):
            out.cannot(
                "algorithm.advantage",
                f"ddof {advantage.ddof}, epsilon {advantage.epsilon:g}",
                "verl has ddof 1 and 1e-6",
            )
        return "grpo"
    if pair == ("leave_one_out", "none"):
        return "rloo"
    if pair == ("group_mean", "batch_whiten"):
        if advantage.whiten_over != "tokens":
            out.cannot(
                "algorithm.advantage.whiten_over",
                advantage.whiten_over,
                "verl whitens over tokens, which moves dead groups",
            )
        if (advantage.ddof, advantage.epsilon) != (1, _WHITEN_EPSILON):
            out.cannot(
                "algorithm.advantage",
                f"ddof {advantage.ddof}, epsilon {advantage.epsilon:g}",
                "verl whitens with ddof 1 and 1e-8",
            )
        return "reinforce_plus_plus_baseline"
    out.cannot("algorithm.advantage", f"{pair[0]}, {pair[1]}", "verl has no such baseline and scale together")
    return "grpo"


def _gae(advantage: Any, out: Translation) -> None:
    critic = advantage.critic
    out.settings |= {
        "algorithm.adv_estimator": "gae",
        "algorithm.gamma": advantage.discount,
        "algorithm.lam": advantage.lambda_policy,
        "critic.optim.lr": critic.learning_rate,
        "critic.grad_clip": critic.max_gradient_norm,
        "critic.cliprange_value": critic.value_clip if critic.value_clip is not None else 1e9,
        "trainer.critic_warmup": critic.warmup_steps,
    }
    if advantage.lambda_value != advantage.lambda_policy:
        out.cannot("algorithm.advantage.lambda_value", advantage.lambda_value, "verl has one lambda")
    if advantage.length_adaptive_alpha is not None:
        out.cannot(
            "algorithm.advantage.length_adaptive_alpha",
            advantage.length_adaptive_alpha,
            "verl's lambda is fixed",
        )
    if advantage.whiten_over != "tokens":
        out.cannot("algorithm.advantage.whiten_over", advantage.whiten_over, "verl whitens over tokens")


def _loss(config: RunConfig, out: Translation) -> None:
    algorithm = config.algorithm
    surrogate, aggregation = algorithm.surrogate, algorithm.aggregation
    if aggregation.kind in _AGGREGATION:
        out.settings[f"{_ACTOR}.loss_agg_mode"] = _AGGREGATION[aggregation.kind]
    else:
        out.cannot(
            "algorithm.aggregation",
            aggregation.kind,
            "verl has no such scope (its legacy code had micro-batches)",
        )
    if aggregation.kind == "constant_sum":
        out.settings[f"{_ACTOR}.loss_scale_factor"] = aggregation.constant_tokens
    mode = "vanilla"
    if surrogate.kind == "ppo_clip":
        mode = "gspo" if algorithm.importance_ratio == "sequence" else "vanilla"
        out.settings |= {
            f"{_ACTOR}.clip_ratio": surrogate.clip_low,
            f"{_ACTOR}.clip_ratio_low": surrogate.clip_low,
            f"{_ACTOR}.clip_ratio_high": surrogate.clip_high,
            f"{_ACTOR}.clip_ratio_c": surrogate.dual_clip or _NO_DUAL_CLIP,
        }
    elif surrogate.kind == "clipped_is":
        mode = "cispo"
        out.settings |= {
            f"{_ACTOR}.clip_ratio_low": 1 - surrogate.cap_min,
            f"{_ACTOR}.clip_ratio_high": surrogate.cap_max - 1,
        }
        out.notes.append(
            "cispo's bounds are offsets from 1: cap_min = 1 - clip_ratio_low, cap_max = 1 + clip_ratio_high"
        )
    elif surrogate.kind == "policy_gradient" and not surrogate.importance_weighted:
        mode = "gpg"
    else:
        out.cannot("algorithm.surrogate", surrogate.kind, "verl's actor has no such loss")
        return
    out.settings[f"{_ACTOR}.policy_loss.loss_mode"] = mode
    out.settings[f"{_ACTOR}.entropy_coeff"] = algorithm.entropy_coefficient
    if algorithm.positive_nll_coefficient:
        out.cannot(
            "algorithm.positive_nll_coefficient",
            algorithm.positive_nll_coefficient,
            "verl has no likelihood term",
        )


def _kl(config: RunConfig, out: Translation) -> None:
    kl = config.algorithm.kl
    in_loss, in_reward = (kl.coefficient > 0 and kl.placement == place for place in ("loss", "reward"))
    out.settings |= {f"{_ACTOR}.use_kl_loss": in_loss, "algorithm.use_kl_in_reward": in_reward}
    if in_loss:
        out.settings |= {f"{_ACTOR}.kl_loss_coef": kl.coefficient, f"{_ACTOR}.kl_loss_type": _KL[kl.kind]}
    if in_reward:
        out.settings |= {"algorithm.kl_ctrl.kl_coef": kl.coefficient, "algorithm.kl_penalty": _KL[kl.kind]}


def _rewards(config: RunConfig, out: Translation) -> None:
    algorithm, cap = config.algorithm, config.sampling.max_response_tokens
    overlong, dead = algorithm.overlong, algorithm.dead_groups
    out.settings["reward_model.overlong_buffer.enable"] = overlong.punishes
    if overlong.punishes:
        out.settings |= {
            "reward_model.overlong_buffer.len": round(cap * overlong.buffer_fraction),
            "reward_model.overlong_buffer.penalty_factor": overlong.penalty,
        }
        if overlong.shape != "additive":
            out.cannot("algorithm.overlong.shape", overlong.shape, "verl's punishment is added")
    if overlong.masks:
        out.cannot("algorithm.overlong.policy", overlong.policy, "verl has no overlong filtering")
    out.settings["algorithm.filter_groups.enable"] = dead.policy == "refill"
    if dead.policy == "refill":
        out.settings |= {
            "algorithm.filter_groups.metric": _METRIC[dead.metric],
            "algorithm.filter_groups.max_num_gen_batches": dead.max_rounds,
        }
        out.notes.append("at max_num_gen_batches the DAPO recipe raises; here the step trains on what it has")
        if dead.surplus == "carry":
            out.cannot("algorithm.dead_groups.surplus", "carry", "the DAPO recipe discards surplus groups")
    elif dead.policy == "drop":
        out.cannot("algorithm.dead_groups.policy", "drop", "verl drops groups only with refill")
    for key, value, usual in (
        ("curriculum", algorithm.curriculum.kind, "uniform"),
        ("source", algorithm.source.kind, "policy"),
    ):
        if value != usual:
            out.cannot(f"algorithm.{key}", value, f"verl has {usual} only")


def _correction(config: RunConfig, out: Translation) -> None:
    correction = config.algorithm.engine_correction
    if correction.kind == "token":
        out.settings |= {
            "algorithm.rollout_correction.rollout_is": "token",
            "algorithm.rollout_correction.rollout_is_threshold": correction.cap,
        }
    if correction.old_log_probs == "sampler":
        out.notes.append(
            "verl recomputes old log-probabilities with the trainer (here: algorithm.engine_correction.old_log_probs=recomputed)"
        )


# ---- back -----------------------------------------------------------------------------------------------------------------

_PLAIN = {
    "data.train_batch_size": "algorithm.prompts_per_step",
    "data.max_response_length": "sampling.max_response_tokens",
    f"{_ROLLOUT}.n": "algorithm.responses_per_prompt",
    f"{_ROLLOUT}.temperature": "sampling.temperature",
    f"{_ROLLOUT}.top_p": "sampling.top_p",
    f"{_ACTOR}.ppo_epochs": "algorithm.epochs_per_step",
    f"{_ACTOR}.optim.lr": "optimizer.learning_rate",
    f"{_ACTOR}.optim.lr_warmup_steps": "optimizer.warmup_steps",
    f"{_ACTOR}.optim.weight_decay": "optimizer.weight_decay",
    f"{_ACTOR}.grad_clip": "optimizer.max_gradient_norm",
    f"{_ACTOR}.entropy_coeff": "algorithm.entropy_coefficient",
    "trainer.total_training_steps": "training.steps",
    "algorithm.gamma": "algorithm.advantage.discount",
    "algorithm.lam": "algorithm.advantage.lambda_policy",
    "critic.optim.lr": "algorithm.advantage.critic.learning_rate",
    "critic.grad_clip": "algorithm.advantage.critic.max_gradient_norm",
    "trainer.critic_warmup": "algorithm.advantage.critic.warmup_steps",
    "algorithm.filter_groups.max_num_gen_batches": "algorithm.dead_groups.max_rounds",
    "reward_model.overlong_buffer.penalty_factor": "algorithm.overlong.penalty",
}
_READ = {
    *_PLAIN, f"{_ROLLOUT}.top_k", f"{_ACTOR}.ppo_mini_batch_size", "algorithm.adv_estimator", "algorithm.norm_adv_by_std_in_grpo",
    f"{_ACTOR}.loss_agg_mode", f"{_ACTOR}.loss_scale_factor", f"{_ACTOR}.policy_loss.loss_mode", f"{_ACTOR}.clip_ratio",
    f"{_ACTOR}.clip_ratio_low", f"{_ACTOR}.clip_ratio_high", f"{_ACTOR}.clip_ratio_c", f"{_ACTOR}.use_kl_loss", f"{_ACTOR}.kl_loss_coef",
    f"{_ACTOR}.kl_loss_type", "algorithm.use_kl_in_reward", "algorithm.kl_ctrl.kl_coef", "algorithm.kl_penalty",
    "algorithm.filter_groups.enable", "algorithm.filter_groups.metric", "reward_model.overlong_buffer.enable",
    "reward_model.overlong_buffer.len", "algorithm.rollout_correction.rollout_is", "algorithm.rollout_correction.rollout_is_threshold",
    "critic.cliprange_value",
}  # fmt: skip
_ESTIMATORS: dict[str, dict[str, Any]] = {
    "grpo": {},
    "rloo": {"algorithm.advantage.baseline": "leave_one_out", "algorithm.advantage.scale": "none"},
    "reinforce_plus_plus_baseline": {
        "algorithm.advantage.scale": "batch_whiten",
        "algorithm.advantage.whiten_over": "tokens",
        "algorithm.advantage.epsilon": 1e-8,
    },
    "reinforce_plus_plus": {"algorithm/advantage": "return_to_go"},
    "gdpo": {"algorithm/advantage": "decoupled"},
    "gae": {"algorithm/advantage": "gae", "algorithm.advantage.lambda_value": 0.95},
}


def overrides(values: Mapping[str, Any]) -> Translation:
    """Our overrides for verl's keys; keys that are not given keep our defaults, not verl's."""
    out = Translation({"algorithm": "grpo"})
    out.inexpressible = [f"{key}={values[key]}: not read" for key in values if key not in _READ]
    name = values.get("algorithm.adv_estimator", "grpo")
    if name in _ESTIMATORS:
        out.settings |= _ESTIMATORS[name]
    else:
        out.inexpressible.append(f"algorithm.adv_estimator={name}: no counterpart")
    if name == "grpo" and not values.get("algorithm.norm_adv_by_std_in_grpo", True):
        out.settings["algorithm.advantage.scale"] = "none"
    _loss_back(values, out)
    out.settings |= {ours: values[theirs] for theirs, ours in _PLAIN.items() if theirs in values}
    if "algorithm.lam" in values:
        out.settings["algorithm.advantage.lambda_value"] = values["algorithm.lam"]
    if f"{_ROLLOUT}.top_k" in values:
        out.settings["sampling.top_k"] = max(0, values[f"{_ROLLOUT}.top_k"])
    if name == "gae" and "critic.cliprange_value" in values:
        clip = values["critic.cliprange_value"]
        out.settings["algorithm.advantage.critic.value_clip"] = None if clip >= 1e9 else clip
    mini, batch = values.get(f"{_ACTOR}.ppo_mini_batch_size"), values.get("data.train_batch_size")
    if mini and batch:
        out.settings["algorithm.updates_per_step"] = batch // mini
    _kl_back(values, out)
    _rewards_back(values, out)
    return out


def _loss_back(values: Mapping[str, Any], out: Translation) -> None:
    agg = values.get(f"{_ACTOR}.loss_agg_mode", "token-mean")
    names = {theirs: ours for ours, theirs in _AGGREGATION.items()}
    if agg == "seq-mean-token-sum":
        out.settings |= {
            "algorithm/aggregation": "constant_sum",
            "algorithm.aggregation.constant_tokens": 1.0,
        }
    elif agg in names:
        out.settings["algorithm/aggregation"] = names[agg]
    else:
        out.inexpressible.append(f"{_ACTOR}.loss_agg_mode={agg}: no counterpart")
    if f"{_ACTOR}.loss_scale_factor" in values:
        out.settings["algorithm.aggregation.constant_tokens"] = float(values[f"{_ACTOR}.loss_scale_factor"])
    mode = values.get(f"{_ACTOR}.policy_loss.loss_mode", "vanilla")
    clip = values.get(f"{_ACTOR}.clip_ratio", 0.2)
    low, high = (values.get(f"{_ACTOR}.clip_ratio_{side}", clip) for side in ("low", "high"))
    if mode == "cispo":
        out.settings["algorithm/surrogate"] = "clipped_is"
        out.settings |= {"algorithm.surrogate.cap_min": 1 - low, "algorithm.surrogate.cap_max": 1 + high}
    elif mode == "gpg":
        out.settings["algorithm/surrogate"] = "policy_gradient"
        out.settings["algorithm.surrogate.importance_weighted"] = False
    elif mode in ("vanilla", "gspo"):
        dual = values.get(f"{_ACTOR}.clip_ratio_c", 3.0)
        out.settings |= {
            "algorithm.surrogate.clip_low": low,
            "algorithm.surrogate.clip_high": high,
            "algorithm.surrogate.dual_clip": None if dual >= _NO_DUAL_CLIP else dual,
            "algorithm.importance_ratio": "sequence" if mode == "gspo" else "token",
        }
    else:
        out.inexpressible.append(f"{_ACTOR}.policy_loss.loss_mode={mode}: no counterpart")


def _kl_back(values: Mapping[str, Any], out: Translation) -> None:
    names = {theirs: ours for ours, theirs in _KL.items()}
    for switch, coefficient, kind, place in (
        (f"{_ACTOR}.use_kl_loss", f"{_ACTOR}.kl_loss_coef", f"{_ACTOR}.kl_loss_type", "loss"),
        ("algorithm.use_kl_in_reward", "algorithm.kl_ctrl.kl_coef", "algorithm.kl_penalty", "reward"),
    ):
        if values.get(switch):
            default = "low_var_kl" if place == "loss" else "kl"
            out.settings |= {
                "algorithm/kl": names[values.get(kind, default)],
                "algorithm.kl.coefficient": values.get(coefficient, 0.001),
                "algorithm.kl.placement": place,
            }


def _rewards_back(values: Mapping[str, Any], out: Translation) -> None:
    if values.get("reward_model.overlong_buffer.enable"):
        out.settings["algorithm.overlong.policy"] = "soft"
        length, cap = values.get("reward_model.overlong_buffer.len"), values.get("data.max_response_length")
        if length and cap:
            out.settings["algorithm.overlong.buffer_fraction"] = length / cap
    if values.get("algorithm.filter_groups.enable"):
        out.settings["algorithm.dead_groups.policy"] = "refill"
        metric = values.get("algorithm.filter_groups.metric", "acc")
        out.settings["algorithm.dead_groups.metric"] = "accuracy" if metric == "acc" else "reward"
    if values.get("algorithm.rollout_correction.rollout_is") == "token":
        out.settings["algorithm.engine_correction.kind"] = "token"
        out.settings["algorithm.engine_correction.old_log_probs"] = "recomputed"
        cap = values.get("algorithm.rollout_correction.rollout_is_threshold", 2.0)
        out.settings["algorithm.engine_correction.cap"] = cap

"""From verl's keys to our overrides; older spellings of published scripts are read too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.configuration.error import ConfigError
from harness.exchange.dialects import Translation, require_numbers
from harness.exchange.dialects._verl_names import (
    ACTOR,
    AGGREGATION,
    COMPONENTS,
    CORRECTION,
    EPSILON,
    FILTER,
    GDPO_KEYS,
    GDPO_WEIGHTS,
    KL,
    LOSS_MODES,
    NO_CLIP,
    NO_FLOOR,
    OPTIMIZER,
    OVERLONG,
    ROLLOUT,
    SELECTION,
)

_OLD_OVERLONG = "reward_model.overlong_buffer"
_PLAIN = {
    "data.train_batch_size": "algorithm.prompts_per_step",
    "data.max_response_length": "sampling.max_response_tokens",
    f"{ROLLOUT}.n": "algorithm.responses_per_prompt",
    f"{ROLLOUT}.temperature": "sampling.temperature",
    f"{ROLLOUT}.top_p": "sampling.top_p",
    f"{ACTOR}.ppo_epochs": "algorithm.epochs_per_step",
    f"{OPTIMIZER}.lr": "optimizer.learning_rate",
    f"{OPTIMIZER}.weight_decay": "optimizer.weight_decay",
    f"{OPTIMIZER}.override_optimizer_config.eps": "optimizer.epsilon",
    f"{ACTOR}.grad_clip": "optimizer.max_gradient_norm",  # until 2025; then nothing reads it
    f"{OPTIMIZER}.clip_grad": "optimizer.max_gradient_norm",
    f"{ACTOR}.entropy_coeff": "algorithm.entropy_coefficient",
    "trainer.total_training_steps": "training.steps",
    f"{_OLD_OVERLONG}.penalty_factor": "algorithm.overlong.penalty",
    f"{OVERLONG}.penalty_factor": "algorithm.overlong.penalty",
}
_GAE = {  # of gae alone: the other estimators have no critic
    "algorithm.gamma": "algorithm.advantage.discount",
    "algorithm.lam": "algorithm.advantage.lambda_policy",
    "critic.optim.lr": "algorithm.advantage.critic.learning_rate",
    "critic.grad_clip": "algorithm.advantage.critic.max_gradient_norm",
    "critic.optim.clip_grad": "algorithm.advantage.critic.max_gradient_norm",
    "trainer.critic_warmup": "algorithm.advantage.critic.warmup_steps",
}
_WARMUP, _WARMUP_RATIO = f"{OPTIMIZER}.lr_warmup_steps", f"{OPTIMIZER}.lr_warmup_steps_ratio"
_ROUNDS = f"{FILTER}.max_num_gen_batches"
_TEXTS = {
    "algorithm.adv_estimator", f"{ACTOR}.loss_agg_mode", f"{ACTOR}.policy_loss.loss_mode", f"{ACTOR}.kl_loss_type",
    "algorithm.kl_penalty", f"{FILTER}.metric", "reward.reward_manager.name", f"{CORRECTION}.rollout_is",
    f"{CORRECTION}.rollout_is_threshold",
}  # fmt: skip
_READ = {
    *_PLAIN, *_GAE, *_TEXTS, _WARMUP, _WARMUP_RATIO, _ROUNDS, GDPO_KEYS, GDPO_WEIGHTS, f"{ROLLOUT}.top_k",
    f"{ACTOR}.ppo_mini_batch_size", "algorithm.norm_adv_by_std_in_grpo", f"{ACTOR}.loss_scale_factor", f"{ACTOR}.clip_ratio",
    f"{ACTOR}.clip_ratio_low", f"{ACTOR}.clip_ratio_high", f"{ACTOR}.clip_ratio_c", f"{ACTOR}.tau_pos", f"{ACTOR}.tau_neg",
    f"{ACTOR}.use_kl_loss", f"{ACTOR}.kl_loss_coef", *(f"{ACTOR}.policy_loss.{key}" for key in SELECTION),
    "algorithm.use_kl_in_reward", "algorithm.kl_ctrl.kl_coef", f"{FILTER}.enable", f"{_OLD_OVERLONG}.enable", f"{_OLD_OVERLONG}.len",
    f"{OVERLONG}.enable", f"{OVERLONG}.len", f"{OVERLONG}.log", "reward.reward_kwargs.max_resp_len",
    f"{CORRECTION}.bypass_mode", f"{OPTIMIZER}.betas", "critic.cliprange_value",
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
    "gdpo": {"algorithm/advantage": "decoupled", "algorithm.advantage.epsilon": EPSILON},
    "gae": {"algorithm/advantage": "gae", "algorithm.advantage.lambda_value": 0.95},
}


def overrides(values: Mapping[str, Any]) -> Translation:
    """Our overrides for verl's keys; keys that are not given, or null, keep our defaults, not verl's."""
    out = Translation({"algorithm": "grpo"})
    values = _given(values, out)
    _advantage(values, out)
    _loss(values, out)
    out.settings |= {ours: values[theirs] for theirs, ours in _PLAIN.items() if theirs in values}
    if f"{ROLLOUT}.top_k" in values:
        out.settings["sampling.top_k"] = max(0, values[f"{ROLLOUT}.top_k"])
    mini, batch = values.get(f"{ACTOR}.ppo_mini_batch_size"), values.get("data.train_batch_size")
    if mini and batch:
        out.settings["algorithm.updates_per_step"] = batch // mini
    elif mini:
        out.inexpressible.append(
            f"{ACTOR}.ppo_mini_batch_size={mini}: a share of data.train_batch_size; give it"
        )
    if f"{OPTIMIZER}.betas" in values:
        out.settings["optimizer.beta1"], out.settings["optimizer.beta2"] = values[f"{OPTIMIZER}.betas"]
    for part in (_warmup, _kl, _rewards, _correction):
        part(values, out)
    return out


def _given(values: Mapping[str, Any], out: Translation) -> dict[str, Any]:
    """What says something; what is not read, or refers to another key, is recorded."""
    given = {}
    for key, value in values.items():
        if key not in _READ:
            out.inexpressible.append(f"{key}={value}: not read")
        elif isinstance(value, str) and "${" in value:
            out.inexpressible.append(f"{key}={value}: refers to another key; give its value")
        elif value is not None:
            given[key] = value
    require_numbers(given, _READ, _TEXTS)
    return given


def _advantage(values: Mapping[str, Any], out: Translation) -> None:
    name = values.get("algorithm.adv_estimator", "grpo")
    if name in _ESTIMATORS:
        out.settings |= _ESTIMATORS[name]
    else:
        out.inexpressible.append(f"algorithm.adv_estimator={name}: no counterpart")
    if not values.get("algorithm.norm_adv_by_std_in_grpo", True):
        if name == "grpo":
            out.settings["algorithm.advantage.scale"] = "none"
        elif name == "gdpo":
            out.inexpressible.append(
                "algorithm.norm_adv_by_std_in_grpo=False: each reward is divided by its deviation here"
            )
    if name == "gdpo":
        _decoupled(values, out)
    if name != "gae":
        _without_critic(values, name, out)
        return
    out.settings |= {ours: values[theirs] for theirs, ours in _GAE.items() if theirs in values}
    if "algorithm.lam" in values:
        out.settings["algorithm.advantage.lambda_value"] = values["algorithm.lam"]
    if "critic.cliprange_value" in values:
        clip = values["critic.cliprange_value"]
        out.settings["algorithm.advantage.critic.value_clip"] = None if clip >= 1e9 else clip


def _without_critic(values: Mapping[str, Any], name: str, out: Translation) -> None:
    """Keys of gae beside another estimator: most change nothing in verl, either."""
    for key in (*_GAE, "critic.cliprange_value"):
        value = values.get(key)
        if value is None or (key in ("algorithm.gamma", "algorithm.lam") and value == 1):
            continue
        if key == "trainer.critic_warmup":
            if value > 0:
                out.inexpressible.append(f"{key}={value}: verl's actor waits that long even without a critic")
        elif key == "algorithm.gamma" and name == "reinforce_plus_plus":
            out.inexpressible.append(f"{key}={value}: returns are not discounted here")
        else:
            out.notes.append(f"{key}={value} has no effect in verl with adv_estimator={name}")


def _decoupled(values: Mapping[str, Any], out: Translation) -> None:
    keys, weights = values.get(GDPO_KEYS), values.get(GDPO_WEIGHTS)
    if keys is None or not set(keys) <= set(COMPONENTS):
        for key, value in ((GDPO_KEYS, keys), (GDPO_WEIGHTS, weights)):
            if value is not None:
                out.inexpressible.append(f"{key}={value}: the rewards here are {', '.join(COMPONENTS)}")
        return
    by_name = dict(zip(keys, weights or [1.0] * len(keys), strict=False))
    out.settings |= {f"algorithm.advantage.{name}_weight": by_name.get(name, 0.0) for name in COMPONENTS}


def _warmup(values: Mapping[str, Any], out: Translation) -> None:
    """Steps come first; none, 0 or less means the share of the training steps, which is 0 unless given."""
    if _WARMUP not in values and _WARMUP_RATIO not in values:
        return
    steps, ratio = values.get(_WARMUP, -1), values.get(_WARMUP_RATIO, 0.0)
    if steps <= 0 and ratio > 0:
        total = values.get("trainer.total_training_steps", 0)
        if total <= 0:
            out.inexpressible.append(
                f"{_WARMUP_RATIO}={ratio}: a share of trainer.total_training_steps; give it"
            )
            return
        steps = int(ratio * total)
    out.settings["optimizer.warmup_steps"] = max(0, steps)


def _loss(values: Mapping[str, Any], out: Translation) -> None:
    agg = values.get(f"{ACTOR}.loss_agg_mode", "token-mean")
    names = {theirs: ours for ours, theirs in AGGREGATION.items()}
    if agg == "seq-mean-token-sum":
        out.settings |= {
            "algorithm/aggregation": "constant_sum",
            "algorithm.aggregation.constant_tokens": 1.0,
        }
    elif agg in names:
        out.settings["algorithm/aggregation"] = names[agg]
    else:
        out.inexpressible.append(f"{ACTOR}.loss_agg_mode={agg}: no counterpart")
    if f"{ACTOR}.loss_scale_factor" in values:
        factor = values[f"{ACTOR}.loss_scale_factor"]
        if agg == AGGREGATION["constant_sum"]:
            out.settings["algorithm.aggregation.constant_tokens"] = float(factor)
        else:
            out.notes.append(
                f"{ACTOR}.loss_scale_factor={factor} has no effect in verl with loss_agg_mode={agg}"
            )
    mode = values.get(f"{ACTOR}.policy_loss.loss_mode", "vanilla")
    clip = values.get(f"{ACTOR}.clip_ratio", 0.2)
    low, high = (values.get(f"{ACTOR}.clip_ratio_{side}", clip) for side in ("low", "high"))
    if mode == "cispo":
        out.settings["algorithm/surrogate"] = "clipped_is"
        out.settings |= {"algorithm.surrogate.cap_min": 1 - low, "algorithm.surrogate.cap_max": 1 + high}
    elif mode == "gpg":
        out.settings["algorithm/surrogate"] = "policy_gradient"
        out.settings["algorithm.surrogate.importance_weighted"] = False
    elif mode in ("vanilla", "gspo"):
        out.settings["algorithm.importance_ratio"] = "sequence" if mode == "gspo" else "token"
        dual = values.get(f"{ACTOR}.clip_ratio_c", 3.0)
        if low >= 1 and high >= NO_CLIP:
            out.settings["algorithm/surrogate"] = "policy_gradient"
        else:
            out.settings |= {
                "algorithm.surrogate.clip_low": low,
                "algorithm.surrogate.clip_high": high,
                "algorithm.surrogate.dual_clip": None if dual >= NO_CLIP or mode == "gspo" else dual,
            }
    elif not _other_loss(values, mode, out):
        out.inexpressible.append(f"{ACTOR}.policy_loss.loss_mode={mode}: no counterpart")


def _other_loss(values: Mapping[str, Any], mode: str, out: Translation) -> bool:
    """Modes with a surrogate of their own; whether this is one."""
    for surrogate, (modes, needs, names) in LOSS_MODES.items():
        for divergence, theirs in modes.items():
            if mode != theirs:
                continue
            out.settings["algorithm/surrogate"] = surrogate
            if needs:
                out.settings["algorithm/aggregation"] = needs
            if divergence:
                out.settings["algorithm.surrogate.divergence"] = divergence
            given = {ours: f"{ACTOR}.{key}" for ours, key in names.items() if f"{ACTOR}.{key}" in values}
            out.settings |= {f"algorithm.surrogate.{ours}": values[key] for ours, key in given.items()}
            return True
    return False


def _kl(values: Mapping[str, Any], out: Translation) -> None:
    names = {theirs: ours for ours, theirs in KL.items()}
    for switch, coefficient, kind, place in (
        (f"{ACTOR}.use_kl_loss", f"{ACTOR}.kl_loss_coef", f"{ACTOR}.kl_loss_type", "loss"),
        ("algorithm.use_kl_in_reward", "algorithm.kl_ctrl.kl_coef", "algorithm.kl_penalty", "reward"),
    ):
        if values.get(switch):
            estimator = values.get(kind, "low_var_kl" if place == "loss" else "kl")
            if estimator not in names:
                out.inexpressible.append(f"{kind}={estimator}: no counterpart")
                continue
            out.settings |= {
                "algorithm/kl": names[estimator],
                "algorithm.kl.coefficient": values.get(coefficient, 0.001),
                "algorithm.kl.placement": place,
            }


def _rewards(values: Mapping[str, Any], out: Translation) -> None:
    for overlong in (_OLD_OVERLONG, OVERLONG):
        if not values.get(f"{overlong}.enable"):
            continue
        out.settings["algorithm.overlong.policy"] = "soft"
        length, cap = values.get(f"{overlong}.len"), values.get("data.max_response_length")
        if length and cap:
            out.settings["algorithm.overlong.buffer_fraction"] = length / cap
        elif length:
            out.inexpressible.append(f"{overlong}.len={length}: a share of data.max_response_length; give it")
    if values.get(f"{FILTER}.enable"):
        out.settings["algorithm.dead_groups.policy"] = "refill"
        metric = values.get(f"{FILTER}.metric", "acc")
        out.settings["algorithm.dead_groups.metric"] = "accuracy" if metric == "acc" else "reward"
    rounds = values.get(_ROUNDS)
    if rounds is not None and rounds > 0:
        out.settings["algorithm.dead_groups.max_rounds"] = rounds
    elif rounds is not None and values.get(f"{FILTER}.enable"):
        out.inexpressible.append(
            f"{_ROUNDS}={rounds}: verl refills without limit; algorithm.dead_groups.max_rounds bounds a step here"
        )


def _correction(values: Mapping[str, Any], out: Translation) -> None:
    bypass = values.get(f"{CORRECTION}.bypass_mode")
    if bypass is not None:
        out.settings["algorithm.engine_correction.old_log_probs"] = "sampler" if bypass else "recomputed"
    if values.get(f"{CORRECTION}.rollout_is") in ("token", "sequence"):
        out.settings["algorithm.engine_correction.kind"] = values[f"{CORRECTION}.rollout_is"]
        out.settings["algorithm.engine_correction.old_log_probs"] = "recomputed"
        _bounds(values.get(f"{CORRECTION}.rollout_is_threshold", 2.0), out)


def _bounds(threshold: Any, out: Translation) -> None:
    """One number is a cap (weights above are cut); lower_upper zeroes the weights outside (IcePop)."""
    key = f"{CORRECTION}.rollout_is_threshold"
    lower, separator, upper = str(threshold).strip().rpartition("_")
    try:
        floor, cap = float(lower) if separator else 0.0, float(upper)
    except ValueError:
        raise ConfigError(f"{key}={threshold} is neither a number nor lower_upper, such as 0.5_5.0") from None
    if separator:
        out.settings["algorithm.engine_correction.kind"] += "_mask"
        out.settings["algorithm.engine_correction.floor"] = 0.0 if floor <= NO_FLOOR else floor
    if not (floor <= 1 <= cap):
        out.inexpressible.append(f"{key}={threshold}: the bounds must hold 1 here")
        return
    out.settings["algorithm.engine_correction.cap"] = cap

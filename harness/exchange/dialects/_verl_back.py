"""From verl's keys to our overrides; older spellings of published scripts are read too."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.configuration.error import ConfigError
from harness.configuration.families import ADVANTAGE, AGGREGATION, KL, SURROGATE
from harness.configuration.registry import kinds
from harness.exchange.dialects import Translation, require_numbers, their_keys
from harness.exchange.dialects import _verl_tables as tables
from harness.exchange.dialects._verl_tables import (
    ACTOR,
    CORRECTION,
    FILTER,
    ME,
    NO_CLIP,
    NO_FLOOR,
    OPTIMIZER,
    OVERLONG,
    ROLLOUT,
    WARMUP,
)

_OLD_OVERLONG = "reward_model.overlong_buffer"
_OLDER = {
    f"{ACTOR}.grad_clip": "optimizer.max_gradient_norm",  # until 2025; then nothing reads it
    f"{_OLD_OVERLONG}.penalty_factor": "algorithm.overlong.penalty",
    f"{OVERLONG}.penalty_factor": "algorithm.overlong.penalty",
}
_GAE = {"critic.grad_clip": "algorithm.advantage.critic.max_gradient_norm", **tables.GAE}
_VALUE_CLIP = "critic.cliprange_value"
_WARMUP_RATIO = f"{WARMUP}_ratio"
_ROUNDS = f"{FILTER}.max_num_gen_batches"
_TEXTS = {
    "algorithm.adv_estimator", f"{ACTOR}.loss_agg_mode", f"{ACTOR}.policy_loss.loss_mode", f"{ACTOR}.kl_loss_type",
    "algorithm.kl_penalty", f"{FILTER}.metric", "reward.reward_manager.name", f"{CORRECTION}.rollout_is",
    f"{CORRECTION}.rollout_is_threshold",
}  # fmt: skip
_READ = {
    *tables.SAME, *_OLDER, *_GAE, *_TEXTS, WARMUP, _WARMUP_RATIO, _ROUNDS, tables.GDPO_KEYS, tables.GDPO_WEIGHTS, f"{ROLLOUT}.top_k",
    f"{ACTOR}.ppo_mini_batch_size", "algorithm.norm_adv_by_std_in_grpo", f"{ACTOR}.loss_scale_factor", f"{ACTOR}.clip_ratio",
    f"{ACTOR}.clip_ratio_c", *(key for place in tables.KL_PLACES.values() for key in place[:3]),
    f"{FILTER}.enable", f"{_OLD_OVERLONG}.enable", f"{_OLD_OVERLONG}.len", f"{OVERLONG}.enable", f"{OVERLONG}.len", f"{OVERLONG}.log",
    "reward.reward_kwargs.max_resp_len", f"{CORRECTION}.bypass_mode", f"{OPTIMIZER}.betas", _VALUE_CLIP,
}  # fmt: skip


def overrides(values: Mapping[str, Any]) -> Translation:
    """Return our overrides for verl's keys; keys that are not given, or null, keep our defaults, not verl's."""
    out = Translation({"algorithm": "grpo"})
    values = _given(values, out)
    parts = (
        _advantage,
        _aggregation,
        _surrogate,
        _batches,
        _warmup,
        _kl,
        _overlong,
        _dead_groups,
        _correction,
    )
    for part in parts:
        part(values, out)
    return out


def _given(values: Mapping[str, Any], out: Translation) -> dict[str, Any]:
    """Return what says something; record what is not read, or refers to another key."""
    known = _READ.union(*(their_keys(ME, SURROGATE, kind, f"{ACTOR}.") for kind in kinds(SURROGATE)))
    given = {}
    for key, value in values.items():
        if key not in known:
            out.cannot(key, value, "not read")
        elif isinstance(value, str) and "${" in value:
            out.cannot(key, value, "refers to another key; give its value")
        elif value is not None:
            given[key] = value
    require_numbers(given, known, _TEXTS)
    return given


def _batches(values: Mapping[str, Any], out: Translation) -> None:
    out.read(values, {**_OLDER, **tables.SAME})
    if f"{ROLLOUT}.top_k" in values:
        out.settings["sampling.top_k"] = max(0, values[f"{ROLLOUT}.top_k"])
    mini, batch = values.get(f"{ACTOR}.ppo_mini_batch_size"), values.get("data.train_batch_size")
    if mini and batch:
        out.settings["algorithm.updates_per_step"] = batch // mini
    elif mini:
        out.cannot(f"{ACTOR}.ppo_mini_batch_size", mini, "a share of data.train_batch_size; give it")
    if f"{OPTIMIZER}.betas" in values:
        out.settings["optimizer.beta1"], out.settings["optimizer.beta2"] = values[f"{OPTIMIZER}.betas"]


def _warmup(values: Mapping[str, Any], out: Translation) -> None:
    """Steps come first; none, 0 or less means the share of the training steps, which is 0 unless given."""
    if WARMUP not in values and _WARMUP_RATIO not in values:
        return
    steps, ratio = values.get(WARMUP, -1), values.get(_WARMUP_RATIO, 0.0)
    if steps <= 0 and ratio > 0:
        total = values.get("trainer.total_training_steps", 0)
        if total <= 0:
            out.cannot(_WARMUP_RATIO, ratio, "a share of trainer.total_training_steps; give it")
            return
        steps = int(ratio * total)
    out.settings["optimizer.warmup_steps"] = max(0, steps)


def _advantage(values: Mapping[str, Any], out: Translation) -> None:
    name = values.get("algorithm.adv_estimator", "grpo")
    if out.choose(ME, ADVANTAGE, name) is None:
        out.cannot("algorithm.adv_estimator", name, "no counterpart")
    out.imply(tables.ESTIMATOR.get(name, {}))
    undivided = not values.get("algorithm.norm_adv_by_std_in_grpo", True)
    if name == "grpo" and undivided:
        out.settings["algorithm.advantage.scale"] = "none"
    if name == "gdpo":
        if undivided:
            reason = "each reward is divided by its deviation here"
            out.cannot("algorithm.norm_adv_by_std_in_grpo", "False", reason)
        _decoupled(values, out)
    if name != "gae":
        _without_critic(values, name, out)
        return
    out.read(values, _GAE)
    out.settings["algorithm.advantage.lambda_value"] = values.get("algorithm.lam", 0.95)
    if _VALUE_CLIP in values:
        clip = values[_VALUE_CLIP]
        out.settings["algorithm.advantage.critic.value_clip"] = None if clip >= NO_CLIP else clip


def _without_critic(values: Mapping[str, Any], name: str, out: Translation) -> None:
    """Keys of gae beside another estimator: most change nothing in verl, either."""
    for key in (*_GAE, _VALUE_CLIP):
        value = values.get(key)
        if value is None or (key in ("algorithm.gamma", "algorithm.lam") and value == 1):
            continue
        if key == "trainer.critic_warmup":
            if value > 0:
                out.cannot(key, value, "verl's actor waits that long even without a critic")
        elif key == "algorithm.gamma" and name == "reinforce_plus_plus":
            out.cannot(key, value, "returns are not discounted here")
        else:
            out.notes.append(f"{key}={value} has no effect in verl with adv_estimator={name}")


def _decoupled(values: Mapping[str, Any], out: Translation) -> None:
    keys, weights = values.get(tables.GDPO_KEYS), values.get(tables.GDPO_WEIGHTS)
    if keys is None or not set(keys) <= set(tables.COMPONENTS):
        for key, value in ((tables.GDPO_KEYS, keys), (tables.GDPO_WEIGHTS, weights)):
            if value is not None:
                out.cannot(key, value, f"the rewards here are {', '.join(tables.COMPONENTS)}")
        return
    by_name = dict(zip(keys, weights or [1.0] * len(keys), strict=False))
    for name in tables.COMPONENTS:
        out.settings[f"algorithm.advantage.{name}_weight"] = by_name.get(name, 0.0)


def _aggregation(values: Mapping[str, Any], out: Translation) -> None:
    mode = values.get(f"{ACTOR}.loss_agg_mode", "token-mean")
    if out.choose(ME, AGGREGATION, mode) is None:
        out.cannot(f"{ACTOR}.loss_agg_mode", mode, "no counterpart")
    factor = values.get(f"{ACTOR}.loss_scale_factor")
    if factor is not None and mode == "seq-mean-token-sum-norm":
        out.settings["algorithm.aggregation.constant_tokens"] = float(factor)
    elif factor is not None:
        out.notes.append(
            f"{ACTOR}.loss_scale_factor={factor} has no effect in verl with loss_agg_mode={mode}"
        )


def _surrogate(values: Mapping[str, Any], out: Translation) -> None:
    mode = values.get(f"{ACTOR}.policy_loss.loss_mode", "vanilla")
    kind = out.choose(ME, SURROGATE, "vanilla" if mode == "gspo" else mode)
    if kind is None:
        out.cannot(f"{ACTOR}.policy_loss.loss_mode", mode, "no counterpart")
        return
    if mode in tables.FIXED_AGGREGATION:
        out.settings["algorithm/aggregation"] = tables.FIXED_AGGREGATION[mode]
    low, high = f"{ACTOR}.clip_ratio_low", f"{ACTOR}.clip_ratio_high"
    clip = values.get(f"{ACTOR}.clip_ratio", 0.2)
    bounds = {low: values.get(low, clip), high: values.get(high, clip)}
    if mode == "cispo":
        out.settings["algorithm.surrogate.cap_min"] = 1 - bounds[low]
        out.settings["algorithm.surrogate.cap_max"] = 1 + bounds[high]
    elif kind == "ppo_clip":
        out.settings["algorithm.importance_ratio"] = "sequence" if mode == "gspo" else "token"
        if bounds[low] >= 1 and bounds[high] >= NO_CLIP:
            out.settings["algorithm/surrogate"] = "policy_gradient"
            return
        dual = values.get(f"{ACTOR}.clip_ratio_c", 3.0)
        out.settings["algorithm.surrogate.dual_clip"] = None if dual >= NO_CLIP or mode == "gspo" else dual
        values = {**values, **bounds}
    out.read(values, their_keys(ME, SURROGATE, kind, f"{ACTOR}."))


def _kl(values: Mapping[str, Any], out: Translation) -> None:
    for place, (switch, coefficient, estimator, default) in tables.KL_PLACES.items():
        if not values.get(switch):
            continue
        name = values.get(estimator, default)
        if out.choose(ME, KL, name) is None:
            out.cannot(estimator, name, "no counterpart")
            continue
        out.settings["algorithm.kl.coefficient"] = values.get(coefficient, 0.001)
        out.settings["algorithm.kl.placement"] = place


def _overlong(values: Mapping[str, Any], out: Translation) -> None:
    for overlong in (_OLD_OVERLONG, OVERLONG):
        if not values.get(f"{overlong}.enable"):
            continue
        out.settings["algorithm.overlong.policy"] = "soft"
        length, cap = values.get(f"{overlong}.len"), values.get("data.max_response_length")
        if length and cap:
            out.settings["algorithm.overlong.buffer_fraction"] = length / cap
        elif length:
            out.cannot(f"{overlong}.len", length, "a share of data.max_response_length; give it")


def _dead_groups(values: Mapping[str, Any], out: Translation) -> None:
    if values.get(f"{FILTER}.enable"):
        out.settings["algorithm.dead_groups.policy"] = "refill"
        metric = values.get(f"{FILTER}.metric", "acc")
        out.settings["algorithm.dead_groups.metric"] = "accuracy" if metric == "acc" else "reward"
    rounds = values.get(_ROUNDS)
    if rounds is not None and rounds > 0:
        out.settings["algorithm.dead_groups.max_rounds"] = rounds
    elif rounds is not None and values.get(f"{FILTER}.enable"):
        out.cannot(
            _ROUNDS, rounds, "verl refills without limit; algorithm.dead_groups.max_rounds bounds a step here"
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
        out.cannot(key, threshold, "the bounds must hold 1 here")
        return
    out.settings["algorithm.engine_correction.cap"] = cap

"""From verl's keys to our overrides, by the defaults and the code of the release that they were written for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.configuration.error import ConfigError
from harness.configuration.families import ADVANTAGE, AGGREGATION, KL, SURROGATE
from harness.exchange.dialects import Beside, Translation, their_keys
from harness.exchange.dialects import _experiment as experiment
from harness.exchange.dialects import _verl_tables as tables
from harness.exchange.dialects._declared import length, soft_overlong, updates
from harness.exchange.dialects._release import Values, settle
from harness.exchange.dialects._verl_tables import (
    ACTOR,
    CORRECTION,
    FILTER,
    ME,
    NO_CLIP,
    NO_FLOOR,
    OPTIMIZER,
    ROLLOUT,
    WARMUP,
)

_OVERLONG = (
    "reward_model.overlong_buffer",
    "reward_model.reward_kwargs.overlong_buffer_cfg",
    tables.OVERLONG,
)
_OWN = ("verl.trainer.main_ppo", "verl/trainer/main_ppo.py")
_GAE = {key: ours for key, ours in tables.GAE.items() if key != "critic.optim.clip_grad"}
_VALUE_CLIP, _CRITIC_CLIPS = "critic.cliprange_value", ("critic.grad_clip", "critic.optim.clip_grad")
_ROUNDS = f"{FILTER}.max_num_gen_batches"


def overrides(values: Mapping[str, Any], beside: Beside | None = None) -> Translation:
    """Return our overrides for verl's keys.

    Raises:
        ConfigError: a value that verl would not take either, or numbers that do not divide.
    """
    beside = beside or Beside()
    given = settle(ME, values, beside.version, beside.pinned, beside.own)
    out = Translation({"algorithm": "grpo"})
    out.read(given, tables.SAME)
    parts = (
        _batches,
        _optimizer,
        _advantage,
        _surrogate,
        _aggregation,
        _kl,
        _overlong,
        _dead_groups,
        _correction,
    )
    for part in parts:
        part(given, out)
    _length(given, beside, out)
    _program(beside.program, out)
    experiment.verl(given, out)
    out.close(given, ME)
    return out


def _program(program: str | None, out: Translation) -> None:
    """Other programs than verl's trainer are recipes with code of their own."""
    if program is None or program.startswith(_OWN) or program.endswith("dapo.main_dapo"):
        return
    if "one_step_off_policy" in program:
        out.settings["sampling.lag_steps"] = 1
    else:
        out.cannot("program", program, "no trainer of verl itself: what its code changes is not known here")


def _batches(given: Values, out: Translation) -> None:
    out.settings["sampling.top_k"] = max(0, given.number(f"{ROLLOUT}.top_k", 0))
    if given.get("data.train_batch_size") == 0:
        raise ConfigError(
            "data.train_batch_size=0 is that of verl's fully asynchronous trainer; give the prompts of a step"
        )
    _updates(given, out)
    if not given.release.code["ppo_epochs_read"] and out.settings["algorithm.epochs_per_step"] > 1:
        out.settings["algorithm.epochs_per_step"] = 1
        out.notes.append(f"{ACTOR}.ppo_epochs is read by nothing in verl {given.release.name}")
    if given.number(f"{ROLLOUT}.multi_turn.enable", False):
        out.cannot(f"{ROLLOUT}.multi_turn.enable", True, "responses here have one turn")


def _updates(given: Values, out: Translation) -> None:
    keys = ("data.train_batch_size", f"{ACTOR}.ppo_mini_batch_size")
    batch, mini = (given.count(key) for key in keys)
    if mini <= batch or given.release.code["ppo_epochs_read"]:
        updates(*keys)[1](given, Beside(), out)
        return
    out.settings["algorithm.updates_per_step"] = 1  # since 0.3 it is an error
    out.cannot(
        keys[1],
        mini,
        f"more than {keys[0]}={batch}: one update, whose gradient is {batch}/{mini} as large there before it is clipped",
    )


def _optimizer(given: Values, out: Translation) -> None:
    out.settings["optimizer.beta1"], out.settings["optimizer.beta2"] = given.get(f"{OPTIMIZER}.betas")
    out.settings["optimizer.epsilon"] = given.number(f"{OPTIMIZER}.override_optimizer_config.eps", 1e-8)
    key = given.release.code["clips_at"]
    other = f"{ACTOR}.grad_clip" if key != f"{ACTOR}.grad_clip" else f"{OPTIMIZER}.clip_grad"
    out.settings["optimizer.max_gradient_norm"] = given.number(key)
    if other in given and given.get(other) != given.number(key):
        out.notes.append(f"{other}={given.get(other)} is read by nothing in verl {given.release.name}")
    kind = given.get(f"{OPTIMIZER}.lr_scheduler_type")
    kind = given.get(f"{OPTIMIZER}.warmup_style", kind) or "constant"
    least = given.number(f"{OPTIMIZER}.min_lr_ratio") if kind == "cosine" else None
    experiment.decay(
        str(kind), {"min_lr_rate": least} if least else {}, f"{OPTIMIZER}.lr_scheduler_type", out
    )


def _length(given: Values, beside: Beside, out: Translation) -> None:
    """Training steps, and the warm-up: none, 0 or less means the share of the training steps."""
    if given.number("trainer.val_only", False):
        out.cannot("trainer.val_only", True, "nothing is trained there")
    given_steps = int(given.number("trainer.total_training_steps") or 0)
    total = length(
        given, beside, out, given_steps, "trainer.total_epochs", given.count("data.train_batch_size")
    )
    steps, ratio = given.number(WARMUP, -1), given.number(f"{WARMUP}_ratio", 0.0)
    if steps <= 0 and ratio > 0:
        if not total:
            out.cannot(
                f"{WARMUP}_ratio", ratio, "a share of trainer.total_training_steps; give it, or rows=N"
            )
            return
        steps = int(ratio * total)
    out.settings["optimizer.warmup_steps"] = max(0, int(steps))


def _advantage(given: Values, out: Translation) -> None:
    name = str(given.get("algorithm.adv_estimator")).removesuffix("_vectorized")
    if out.choose(ME, ADVANTAGE, name) is None:
        out.cannot("algorithm.adv_estimator", name, "no counterpart")
    out.imply(tables.ESTIMATOR.get(name, {}))
    if name in ("grpo", "gdpo"):
        undivided = not given.number("algorithm.norm_adv_by_std_in_grpo", True)
        if undivided and name == "grpo":
            out.settings["algorithm.advantage.scale"] = "none"
        elif undivided:
            out.cannot(
                "algorithm.norm_adv_by_std_in_grpo", "False", "each reward is divided by its deviation here"
            )
    if name == "gdpo":
        _decoupled(given, out)
    if name == "gae":
        _critic(given, out)
    else:
        _without_critic(given, name, out)


def _critic(given: Values, out: Translation) -> None:
    out.read(given, _GAE)
    out.settings["algorithm.advantage.lambda_value"] = given.number("algorithm.lam")
    clip = given.number(_VALUE_CLIP)
    out.settings["algorithm.advantage.critic.value_clip"] = None if clip >= NO_CLIP else clip
    key = _CRITIC_CLIPS[given.release.code["clips_at"].endswith("clip_grad")]
    out.settings["algorithm.advantage.critic.max_gradient_norm"] = given.number(key)
    given.idle("critic.model.path")


def _without_critic(given: Values, name: str, out: Translation) -> None:
    """Keys of gae beside another estimator: most change nothing in verl, either."""
    given.idle("algorithm.norm_adv_by_std_in_grpo", "critic.model.path")
    for key in (*_GAE, _VALUE_CLIP, *_CRITIC_CLIPS):
        if key not in given:
            continue
        value = given.get(key)
        if key in ("algorithm.gamma", "algorithm.lam") and value == 1:
            continue
        if key == "trainer.critic_warmup":
            if value > 0:
                out.cannot(key, value, "verl's actor waits that long even without a critic")
        elif key == "algorithm.gamma" and name == "reinforce_plus_plus":
            out.cannot(key, value, "returns are not discounted here")
        else:
            out.notes.append(f"{key}={value} has no effect in verl with adv_estimator={name}")


def _decoupled(given: Values, out: Translation) -> None:
    keys, weights = given.get(tables.GDPO_KEYS), given.get(tables.GDPO_WEIGHTS)
    if keys is None or not set(keys) <= set(tables.COMPONENTS):
        for key, value in ((tables.GDPO_KEYS, keys), (tables.GDPO_WEIGHTS, weights)):
            if value is not None:
                out.cannot(key, value, f"the rewards here are {', '.join(tables.COMPONENTS)}")
        return
    by_name = dict(zip(keys, weights or [1.0] * len(keys), strict=False))
    for name in tables.COMPONENTS:
        out.settings[f"algorithm.advantage.{name}_weight"] = by_name.get(name, 0.0)


def _aggregation(given: Values, out: Translation) -> None:
    mode, loss = given.get(f"{ACTOR}.loss_agg_mode"), given.get(f"{ACTOR}.policy_loss.loss_mode")
    factor = given.number(f"{ACTOR}.loss_scale_factor")
    # Since 0.8 they change nothing.
    given.idle(f"{ACTOR}.use_dynamic_bsz", f"{ACTOR}.ppo_max_token_len_per_gpu")
    if loss in tables.FIXED_AGGREGATION:
        out.settings["algorithm/aggregation"] = tables.FIXED_AGGREGATION[loss]
        return
    if out.choose(ME, AGGREGATION, mode) is None:
        out.cannot(f"{ACTOR}.loss_agg_mode", mode, "no counterpart")
    if factor is not None and mode == "seq-mean-token-sum-norm":
        out.settings["algorithm.aggregation.constant_tokens"] = float(factor)
    elif factor is not None:
        out.notes.append(
            f"{ACTOR}.loss_scale_factor={factor} has no effect in verl with loss_agg_mode={mode}"
        )
    if given.release.code["token_mean_over"] == "micro-batch":
        _micro_batches(given, mode, out)


def _micro_batches(given: Values, mode: str, out: Translation) -> None:
    """Before 0.8 the actor took every mean in each micro-batch, and the mean of these."""
    dynamic = given.number(f"{ACTOR}.use_dynamic_bsz", False)
    per_gpu, whole = (
        given.count(f"{ACTOR}.ppo_micro_batch_size_per_gpu"),
        given.count(f"{ACTOR}.ppo_micro_batch_size"),
    )
    if mode == "token-mean" and not dynamic and per_gpu:
        out.settings["algorithm/aggregation"] = "microbatch_token_mean"
        out.settings["algorithm.aggregation.micro_batch_responses"] = per_gpu
    elif mode == "token-mean":
        tokens = given.number(f"{ACTOR}.ppo_max_token_len_per_gpu")
        what = (
            f"at most {tokens} tokens, prompts included"
            if dynamic
            else f"{whole or 'unknown'} responses over all GPUs"
        )
        out.cannot(
            f"{ACTOR}.loss_agg_mode",
            mode,
            f"this release means over each micro-batch of {what}; here over the update",
        )
    elif mode == "seq-mean-token-sum-norm":
        out.cannot(
            f"{ACTOR}.loss_agg_mode",
            mode,
            "this release does not divide by the responses of a micro-batch; here the sum is",
        )


def _surrogate(given: Values, out: Translation) -> None:
    mode = given.get(f"{ACTOR}.policy_loss.loss_mode")
    kind = out.choose(ME, SURROGATE, "vanilla" if mode == "gspo" else mode)
    if kind is None:
        out.cannot(f"{ACTOR}.policy_loss.loss_mode", mode, "no counterpart")
        return
    names = their_keys(ME, SURROGATE, kind, f"{ACTOR}.")
    low, high = f"{ACTOR}.clip_ratio_low", f"{ACTOR}.clip_ratio_high"
    bounds = {key: given.number(key) for key in (low, high)}
    if (
        None in bounds.values() or -1 in bounds.values()
    ):  # to 0.3 there is the one number; -1 stands for it in a fork
        whole = given.number(f"{ACTOR}.clip_ratio")
        bounds = {key: whole if bound in (None, -1) else bound for key, bound in bounds.items()}
    elif f"{ACTOR}.clip_ratio" in given and not (low in given and high in given):
        out.notes.append(
            f"{ACTOR}.clip_ratio has no effect in verl {given.release.name}: clip_ratio_low and clip_ratio_high stand"
        )
    if mode == "cispo":
        out.settings["algorithm.surrogate.cap_min"] = max(
            0.0, 1 - bounds[low]
        )  # from 1 on no lower bound binds
        out.settings["algorithm.surrogate.cap_max"] = 1 + bounds[high]
        given.idle(f"{ACTOR}.clip_ratio_c")
        return
    if kind == "ppo_clip":
        out.settings["algorithm.importance_ratio"] = "sequence" if mode == "gspo" else "token"
        if bounds[low] >= 1 and bounds[high] >= NO_CLIP:
            out.settings["algorithm/surrogate"] = "policy_gradient"
            given.idle(f"{ACTOR}.clip_ratio_c")
            return
        dual = given.number(f"{ACTOR}.clip_ratio_c")
        out.settings["algorithm.surrogate.dual_clip"] = None if dual >= NO_CLIP or mode == "gspo" else dual
        bounds[low] = min(bounds[low], 1.0)
    given.idle(f"{ACTOR}.clip_ratio_c")
    for theirs, ours in names.items():
        value = bounds[theirs] if theirs in bounds else given.number(theirs)
        if value is not None:
            out.settings[ours] = value


def _kl(given: Values, out: Translation) -> None:
    for place, (switch, coefficient, estimator, default) in tables.KL_PLACES.items():
        if place == "reward" and switch not in given.release.keys and switch not in given:
            used = not given.number(tables.KL_PLACES["loss"][0], False)  # 0.3 has the one or the other
        else:
            used = given.number(switch, False)
        weight = given.number(coefficient, 0.001) if used else 0.0
        if not used or not weight:
            given.idle(coefficient, estimator)
            continue
        name, plus, _ = str(given.get(estimator, default)).partition("+")
        name = tables.KL_ALIASES.get(name, name)
        name = {"low_var_kl": "low_var_kl+"}.get(name, "mse") if plus else name  # with + the gradient is k2's
        if out.choose(ME, KL, name) is None:
            out.cannot(estimator, name, "no counterpart")
            continue
        out.settings["algorithm.kl.coefficient"] = weight
        out.settings["algorithm.kl.placement"] = place
        loss, mode = given.get(f"{ACTOR}.policy_loss.loss_mode"), given.get(f"{ACTOR}.loss_agg_mode")
        if place == "loss" and loss in tables.FIXED_AGGREGATION and mode != "seq-mean-token-mean":
            out.cannot(
                switch,
                True,
                f"verl takes the KL term by {mode} beside {loss}; here by the policy loss's response_mean",
            )


def _overlong(given: Values, out: Translation) -> None:
    for overlong in _OVERLONG:
        on = given.number(f"{overlong}.enable", False)
        tokens, penalty = given.number(f"{overlong}.len"), given.number(f"{overlong}.penalty_factor")
        if on and tokens:
            soft_overlong(
                tokens, 1.0 if penalty is None else penalty, given.count("data.max_response_length"), out
            )
    given.idle("reward.reward_kwargs.max_resp_len", "reward_model.reward_kwargs.max_resp_len")


def _dead_groups(given: Values, out: Translation) -> None:
    rounds, on = given.number(_ROUNDS), given.number(f"{FILTER}.enable", False)
    metric = given.get(f"{FILTER}.metric") or "acc"
    if on:
        out.settings["algorithm.dead_groups.policy"] = "refill"
        out.settings["algorithm.dead_groups.metric"] = "accuracy" if metric == "acc" else "reward"
    if rounds and rounds > 0:
        out.settings["algorithm.dead_groups.max_rounds"] = rounds
    elif on:
        reason = "verl refills without limit; algorithm.dead_groups.max_rounds bounds a step here"
        out.cannot(_ROUNDS, rounds or 0, reason)


def _correction(given: Values, out: Translation) -> None:
    bypass = given.number(f"{CORRECTION}.bypass_mode", False)
    level, loss = given.get(f"{CORRECTION}.rollout_is"), given.get(f"{CORRECTION}.loss_type", "ppo_clip")
    threshold = given.get(f"{CORRECTION}.rollout_is_threshold", 2.0) if level else 2.0
    out.settings["algorithm.engine_correction.old_log_probs"] = "sampler" if bypass else "recomputed"
    if level not in ("token", "sequence"):
        given.idle(f"{CORRECTION}.rollout_is_threshold", f"{CORRECTION}.rollout_is_batch_normalize")
    if bypass and loss == "reinforce":
        _weighted(level, threshold, out)
    elif bypass:
        given.idle(
            f"{CORRECTION}.rollout_is", f"{CORRECTION}.rollout_is_threshold"
        )  # the ratio itself corrects
    elif level in ("token", "sequence"):
        out.settings["algorithm.engine_correction.kind"] = level
        _bounds(threshold, out)


def _weighted(level: Any, threshold: Any, out: Translation) -> None:
    """Bypass mode without a clip: log-probabilities weighted by the cut ratio to the sampler, as in CISPO."""
    prefix = "algorithm.surrogate."
    for key in [key for key in out.settings if key.startswith(prefix)]:
        del out.settings[key]
    out.settings["algorithm/surrogate"] = "policy_gradient"
    if level is None:
        out.settings[f"{prefix}importance_weighted"] = False
    elif level == "token" and "_" not in str(threshold):
        out.settings |= {"algorithm/surrogate": "clipped_is", f"{prefix}cap_min": 0.0}
        out.settings[f"{prefix}cap_max"] = float(threshold)
    else:
        reason = "without a clip only cut token weights have a counterpart; here the ratio itself, not cut"
        out.cannot(f"{CORRECTION}.rollout_is", f"{level} ({threshold})", reason)


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

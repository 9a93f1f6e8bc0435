"""From TRL's settings to our overrides, by the defaults and the code of the release that they were written for."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

from harness.configuration.error import ConfigError, require
from harness.configuration.families import AGGREGATION, SURROGATE
from harness.exchange.dialects import Beside, Translation, their_keys
from harness.exchange.dialects import _experiment as experiment
from harness.exchange.dialects import _trl_tables as tables
from harness.exchange.dialects._release import Values, settle

_CAPS = ("vllm_importance_sampling_clip_max", "vllm_importance_sampling_cap")  # since 1.6, before


def overrides(values: Mapping[str, Any], beside: Beside | None = None) -> Translation:
    """Return our overrides for a `GRPOConfig`'s keyword arguments and those of TRL's and open-r1's scripts.

    Raises:
        ConfigError: a value that TRL would not take either, or numbers that do not divide.
    """
    beside = beside or Beside()
    given = settle(tables.ME, _nested(values), beside.version, beside.pinned)
    out = Translation({"algorithm": "grpo"})
    out.read(given, tables.SAME)
    _batches(given, beside, out)
    for part in (_loss, _advantage, _correction, _kl, _sampling):
        part(given, out)
    _schedule(given, beside, out)
    masked = given.number("mask_truncated_completions", False)
    out.settings["algorithm.overlong.policy"] = "mask" if masked else "score"
    if beside.program and not re.search(r"(^|/)grpo\w*\.py$", beside.program):
        out.cannot(
            "program",
            beside.program,
            "no script of TRL's: what it sets over TRL's defaults is not known here",
        )
    experiment.trl(given, out)
    out.close(given, tables.ME)
    return out


def _nested(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings with `a.b` as a mapping in `a`: GRPOConfig's own names have no dots."""
    nested: dict[str, Any] = {}
    for key, value in values.items():
        name, _, inner = key.partition(".")
        if inner:
            nested[name] = {**nested.get(name, {}), inner: value}
        else:
            nested[name] = value
    return nested


def _batches(given: Values, beside: Beside, out: Translation) -> None:
    """Responses of a generation and of an update; TRL counts them for one device."""
    devices = beside.devices or given.count("num_processes")
    group = given.count("num_generations")
    per_device, accumulated = (
        given.count(key) for key in ("per_device_train_batch_size", "gradient_accumulation_steps")
    )
    update = per_device * accumulated * (devices or 1)
    if given.release.code["batch_counts"] == "prompts":
        update *= group
    generation = given.count("generation_batch_size")
    if generation is None:
        generation = update // accumulated * given.count("steps_per_generation", accumulated)
    if devices is None:
        devices_said = "1 device (an assumption: give devices=N, the processes that train)"
        out.notes.insert(0, f"batch sizes are read for {devices_said}")
    else:
        devices_said = f"{devices} devices"
        out.notes.append(f"batch sizes are read for {devices_said}")
    said = f"per_device_train_batch_size={per_device} x gradient_accumulation_steps={accumulated} on {devices_said}"
    if generation < update and update % generation == 0:
        generation = update  # several generations make one update
    at_once = per_device * (devices or 1) if given.release.code["groups_in"] == "micro-batch" else generation
    if (
        at_once % group
        or generation % group
        or generation % update
        or (generation // group) % (generation // update)
    ):
        raise ConfigError(
            f"{at_once} responses a generation in groups of num_generations={group}, {update} an update ({said}): these are no whole "
            "groups in every update; give devices=N as it was, or mend the numbers"
        )
    out.settings["algorithm.prompts_per_step"] = generation // group
    out.settings["algorithm.updates_per_step"] = generation // update


def _schedule(given: Values, beside: Beside, out: Translation) -> None:
    """Steps here are rollout steps, TRL's are optimiser updates."""
    updates = out.settings["algorithm.updates_per_step"] * given.count("num_iterations")
    steps, epochs = given.number("max_steps"), given.number("num_train_epochs")
    if steps is not None and steps > 0:
        total = int(steps)
        if total % updates:
            out.notes.append(f"max_steps={total} updates are no whole number of rollout steps of {updates}")
    elif beside.rows is not None:
        total = math.ceil(epochs * (beside.rows // out.settings["algorithm.prompts_per_step"])) * updates
        out.notes.append(f"num_train_epochs={epochs:g} of {beside.rows} rows are {total} optimiser updates")
    else:
        total = 0
        out.cannot(
            "num_train_epochs",
            epochs,
            "the length in steps follows from the data set's size; give rows=N or max_steps=N",
        )
    if total:
        out.settings["training.steps"] = max(1, total // updates)
    experiment.decay(
        str(given.get("lr_scheduler_type")), given.get("lr_scheduler_kwargs") or {}, "lr_scheduler_type", out
    )
    _warmup(given, total, updates, out)


def _warmup(given: Values, total: int, updates: int, out: Translation) -> None:
    steps, ratio = given.number("warmup_steps"), given.number("warmup_ratio")
    share, key = (steps, "warmup_steps") if steps else (ratio, "warmup_ratio")
    warmup = share if steps and steps >= 1 else share * total
    if share and given.get("lr_scheduler_type") == "constant":
        out.notes.append(f"{key}={share} has no effect with lr_scheduler_type=constant")
        warmup = 0
    elif share and 0 < share < 1 and not total:
        out.cannot(
            key, share, "a share of the training's steps, which are not known; give rows=N or max_steps=N"
        )
        return
    out.settings["optimizer.warmup_steps"] = math.ceil(warmup / updates)


def _advantage(given: Values, out: Translation) -> None:
    how = given.get("multi_objective_aggregation")
    require("multi_objective_aggregation", how, ("sum_then_normalize", "normalize_then_sum"))
    if how == "normalize_then_sum":
        out.settings["algorithm/advantage"] = "decoupled"
        weights = given.get("reward_weights")
        if weights is not None:
            padded = [*weights, 0.0, 0.0, 0.0]  # a reward function that is not there weighs nothing
            named = dict(zip(tables.COMPONENTS, padded, strict=False))
            out.settings |= {f"algorithm.advantage.{name}_weight": weight for name, weight in named.items()}
            out.notes.append(f"reward_weights are read in the order {', '.join(tables.COMPONENTS)}")
        if weights is not None and len(weights) > len(tables.COMPONENTS):
            out.cannot("reward_weights", weights, f"the rewards here are {', '.join(tables.COMPONENTS)}")
    else:
        given_scale = given.get("scale_rewards")
        scale = {True: "group", False: "none"}.get(given_scale, given_scale)
        require("scale_rewards", scale, tuple(tables.SCALE.values()))
        out.settings["algorithm.advantage.scale"] = _ours(tables.SCALE, scale)
    if out.settings.get("algorithm.advantage.scale") != "none":
        out.imply(tables.NORMALISATION)


def _loss(given: Values, out: Translation) -> None:
    loss, low = given.get("loss_type"), given.number("epsilon")
    high = given.number("epsilon_high", low)
    surrogate = out.choose(tables.ME, SURROGATE, loss)
    if surrogate is not None:
        out.settings["algorithm/aggregation"] = tables.FIXED_AGGREGATION[loss]
    elif out.choose(tables.ME, AGGREGATION, loss) is None:
        out.cannot("loss_type", loss, "no counterpart")
        return
    elif high >= tables.NO_CLIP and low >= 1:
        out.settings["algorithm/surrogate"] = "policy_gradient"
    if loss == "bnpo":
        out.settings["algorithm.aggregation.micro_batch_responses"] = given.count(
            "per_device_train_batch_size"
        )
    updates = out.settings["algorithm.updates_per_step"]
    if loss in ("dapo", "cispo") and updates > 1 and not given.release.code["window_mean"]:
        reason = f"this release divides by the tokens of the whole generation, so gradients there are 1/{updates} as large before clipping"
        out.cannot("loss_type", loss, reason)
    chosen = out.settings.get("algorithm/surrogate", "ppo_clip")
    bounds = {"epsilon": min(low, 1.0), "epsilon_high": high}  # from 1 on no lower bound binds
    for theirs, ours in their_keys(tables.ME, SURROGATE, chosen).items():
        value = bounds[theirs] if theirs in bounds else given.number(theirs)
        out.settings[ours] = value


def _kl(given: Values, out: Translation) -> None:
    beta = given.number("beta")
    out.settings["algorithm.kl.coefficient"] = beta
    if not beta:
        given.idle("sync_ref_model", "ref_model_mixup_alpha", "ref_model_sync_steps")
        return
    out.settings["algorithm/kl"] = "k3_ratio" if given.number("use_bias_correction_kl") else "k3"
    if given.number("sync_ref_model", False):
        every, mixed = given.number("ref_model_sync_steps"), given.number("ref_model_mixup_alpha")
        reason = f"every {every} updates the reference moves by {mixed}; kl.reset_every_steps here drops the optimiser's moments"
        out.cannot("sync_ref_model", True, reason)
    elif "sync_ref_model" not in given:
        given.idle("ref_model_mixup_alpha", "ref_model_sync_steps")


def _sampling(given: Values, out: Translation) -> None:
    vllm = given.number("use_vllm", False)
    top_k = given.number("top_k", 0)
    out.settings["sampling.top_k"] = 0 if vllm and "top_k" not in given.release.keys else max(0, top_k)
    if "max_completion_length" in given.given and given.given["max_completion_length"] is None:
        del out.settings["sampling.max_response_tokens"]
        out.cannot("max_completion_length", "null", "responses have a cap here; give one")
    temperature = given.number("temperature")
    if temperature != 1 and not given.release.code["scored_at_temperature"]:
        out.cannot(
            "temperature",
            temperature,
            "this release takes log-probabilities at temperature 1, here at the sampling's",
        )
    prompt = given.number("max_prompt_length")
    if prompt:
        out.notes.append(
            f"max_prompt_length={prompt}: longer prompts keep their last {prompt} tokens there, all here"
        )


def _correction(given: Values, out: Translation) -> None:
    out.settings["algorithm.engine_correction.old_log_probs"] = "recomputed"
    key = _CAPS[0] if _CAPS[0] in given.release.keys else _CAPS[1]
    mode, cap, floor = (
        given.get("vllm_importance_sampling_mode"), given.number(key), given.number("vllm_importance_sampling_clip_min", 0.0),
    )  # fmt: skip
    if given.given.get(_CAPS[1]) is not None:  # its older name is still read
        cap = given.number(_CAPS[1])
    if mode is not None:
        require("vllm_importance_sampling_mode", mode, tuple(tables.CORRECTIONS.values()))
    on = given.number("vllm_importance_sampling_correction") and given.number("use_vllm", False)
    if not on:
        out.settings["algorithm.engine_correction.kind"] = "none"
        return
    null = key in given.given and given.given[key] is None
    out.settings |= {
        "algorithm.engine_correction.kind": _ours(tables.CORRECTIONS, mode),
        "algorithm.engine_correction.cap": tables.NO_CLIP if null or cap is None else cap,
        "algorithm.engine_correction.floor": floor,
    }


def _ours(names: Mapping[str, str], theirs: str) -> str:
    return next(ours for ours, name in names.items() if name == theirs)

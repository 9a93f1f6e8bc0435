"""TRL's `GRPOConfig` (1.16). Batches are counted in responses per device, warm-up in optimiser steps; written for one device.

Fixed in TRL: group statistics with ddof 1 and epsilon 1e-4; the KL in the loss, k3 times the ratio (its default since 1.16) or plain k3;
no dynamic sampling; the CISPO cap is `epsilon_high` itself. Its `scale_rewards="batch"` divides by the standard deviation of the batch's
*rewards*.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.configuration.algorithm import EntropyControl
from harness.configuration.error import ConfigError, require
from harness.configuration.families import AGGREGATION, SURROGATE
from harness.configuration.schema import RunConfig
from harness.exchange.dialects import (
    IN_NO_TRAINER,
    Only,
    Translation,
    note_rewards,
    require_numbers,
    their_keys,
    their_name,
)

_ME = "trl"
_NO_CLIP = 1e9  # an upper bound that no ratio reaches
_SAME = {
    "num_generations": "algorithm.responses_per_prompt",
    "num_iterations": "algorithm.epochs_per_step",
    "importance_sampling_level": "algorithm.importance_ratio",
    "entropy_coef": "algorithm.entropy_coefficient",
    "top_entropy_quantile": "algorithm.top_entropy_fraction",
    "off_policy_mask_threshold": "algorithm.off_policy_mask_nats",
    "learning_rate": "optimizer.learning_rate",
    "adam_beta1": "optimizer.beta1",
    "adam_beta2": "optimizer.beta2",
    "adam_epsilon": "optimizer.epsilon",
    "weight_decay": "optimizer.weight_decay",
    "max_grad_norm": "optimizer.max_gradient_norm",
    "max_completion_length": "sampling.max_response_tokens",
    "temperature": "sampling.temperature",
    "top_p": "sampling.top_p",
    "top_k": "sampling.top_k",
}
_SCALE = {"group_std": "group", "batch_reward_std": "batch", "none": "none"}
_COMPONENTS = ("outcome", "format", "length")  # rewards that the decoupled estimator weighs
_FIXED_AGGREGATION = {"sapo": "response_mean", "vespo": "batch_token_mean", "cispo": "batch_token_mean"}
_CORRECTIONS = {"token": "token_truncate", "sequence": "sequence_truncate"}
_CORRECTIONS |= {kind: kind for kind in ("token_mask", "sequence_mask")}
_ONLY: Only = {
    **IN_NO_TRAINER,
    "sampling.lag_steps": (0, "GRPOTrainer samples from the newest policy"),
    "sampling.stop_strings": (
        [],
        "GRPOTrainer has no setting of its own for them; its generation_kwargs go to the engine as they are",
    ),
    "algorithm.dead_groups.policy": ("keep", "not supported in TRL: dead groups stay in the batch"),
    "algorithm.curriculum.kind": ("uniform", "TRL samples prompts uniformly"),
    "algorithm.source.kind": ("policy", "GRPOTrainer samples from the policy"),
    "algorithm.positive_nll_coefficient": (0.0, "TRL has no likelihood term"),
    "algorithm.entropy_control": (
        EntropyControl(),
        "TRL's use_adaptive_entropy moves the coefficient once an optimiser update by the current policy's entropy, here it is "
        "moved once a rollout step by the sampling policy's",
    ),
}
_NORMALISATION: Only = {
    "algorithm.advantage.ddof": (1, "TRL's standard deviation is the sample form (ddof 1)"),
    "algorithm.advantage.epsilon": (1e-4, "TRL adds 0.0001"),
}
_GROUP: Only = {
    "algorithm.advantage.baseline": ("group_mean", "GRPOTrainer subtracts the group mean (see RLOOTrainer)"),
}
_DECOUPLED: Only = {
    "algorithm.advantage.batch_normalise": (True, "TRL always normalises the sum over the batch"),
}
_CISPO: Only = {"algorithm.surrogate.cap_min": (0.0, "TRL's cispo has no lower cap")}
_DEFAULTS = {  # of TRL 1.16 with transformers' TrainingArguments below it
    "loss_type": "dapo", "epsilon": 0.2, "epsilon_high": None, "delta": None, "beta": 0.0, "scale_rewards": "group",
    "num_generations": 8, "per_device_train_batch_size": 8, "gradient_accumulation_steps": 1, "num_iterations": 1,
    "mask_truncated_completions": False, "vllm_importance_sampling_correction": True, "use_bias_correction_kl": True,
    "vllm_importance_sampling_mode": "sequence_mask", "vllm_importance_sampling_clip_max": 3.0,
    "multi_objective_aggregation": "sum_then_normalize", "importance_sampling_level": "token", "entropy_coef": 0.0,
    "top_entropy_quantile": 1.0, "off_policy_mask_threshold": None, "max_completion_length": 512, "temperature": 1.0, "top_p": 1.0,
    "top_k": 0, "learning_rate": 1e-6, "adam_beta1": 0.9, "adam_beta2": 0.999, "adam_epsilon": 1e-8, "weight_decay": 0.0,
    "max_grad_norm": 1.0, "lr_scheduler_type": "linear", "warmup_steps": 0, "max_steps": -1,
    "sapo_temperature_pos": 1.0, "sapo_temperature_neg": 1.05, "vespo_k_pos": 2.0, "vespo_lambda_pos": 3.0, "vespo_k_neg": 3.0,
    "vespo_lambda_neg": 2.0,
}  # fmt: skip
_READ = {
    *_SAME, *_DEFAULTS, "generation_batch_size", "steps_per_generation", "vllm_importance_sampling_clip_min", "reward_weights",
}  # fmt: skip
_NO_LIMIT = ("max_completion_length", "vllm_importance_sampling_clip_max")  # null says something here
_COUNTS = (
    "num_generations", "per_device_train_batch_size", "gradient_accumulation_steps", "num_iterations", "generation_batch_size",
    "steps_per_generation",
)  # fmt: skip
_TEXTS = {
    "loss_type", "scale_rewards", "lr_scheduler_type", "importance_sampling_level", "vllm_importance_sampling_mode",
    "multi_objective_aggregation",
}  # fmt: skip


def export(config: RunConfig) -> Translation:
    """See the family's contract."""
    out = Translation()
    out.write(config, _SAME)
    out.refuse_others(config, _ONLY)
    for part in (_batches, _advantage, _loss, _kl, _overlong, _correction, note_rewards):
        part(config, out)
    if config.algorithm.top_entropy_fraction < 1:
        out.notes.append("TRL ranks tokens by the current policy's entropy, here it is the sampling policy's")
    if config.algorithm.entropy_coefficient:
        out.notes.append(
            "TRL's entropy bonus is a token mean of its own, not aggregated like the policy loss"
        )
    return out


def overrides(values: Mapping[str, Any]) -> Translation:
    """Return our overrides for a `GRPOConfig`'s keyword arguments; TRL's defaults stand for what is not given, or null.

    Raises:
        ConfigError: a value that TRL would not take, either.
    """
    require_numbers(values, _READ, _TEXTS)
    given = {**_DEFAULTS, **{k: v for k, v in values.items() if v is not None or k in _NO_LIMIT}}
    for key in _COUNTS:
        value = given.get(key, 1)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ConfigError(f"{key}={value} is no count; give an integer from 1 on")
    out = Translation({"algorithm": "grpo"})
    out.inexpressible = [f"{key}={values[key]}: not read" for key in values if key not in _READ]
    out.notes.append("TRL 1.16's defaults stand for what is not given")
    out.read(given, _SAME)
    if given["max_completion_length"] is None:
        del out.settings["sampling.max_response_tokens"]
        out.cannot("max_completion_length", "null", "responses have a cap here; give one")
    for part in (_batches_back, _schedule_back, _loss_back, _advantage_back, _correction_back):
        part(given, out)
    out.settings["algorithm.kl.coefficient"] = given["beta"]
    if given["beta"]:
        out.settings["algorithm/kl"] = "k3_ratio" if given["use_bias_correction_kl"] else "k3"
    out.settings["algorithm.overlong.policy"] = "mask" if given["mask_truncated_completions"] else "score"
    return out


def _batches(config: RunConfig, out: Translation) -> None:
    algorithm, warmup = config.algorithm, config.optimizer.warmup_steps
    responses = algorithm.prompts_per_step * algorithm.responses_per_prompt
    updates = algorithm.updates_per_step * algorithm.epochs_per_step
    out.settings |= {
        "generation_batch_size": responses,
        "per_device_train_batch_size": responses // algorithm.updates_per_step,
        "gradient_accumulation_steps": 1,
        "max_steps": config.training.steps * updates,
        "lr_scheduler_type": "constant_with_warmup" if warmup else "constant",
        "warmup_steps": warmup * updates,
    }
    out.notes.append(
        "per_device_train_batch_size counts responses of one update on one device; max_steps counts optimiser updates"
    )
    if warmup:
        out.notes.append(
            "warmup_steps counts optimiser updates there and rises with every update, here with every rollout step"
        )
    if algorithm.responses_per_prompt == 1:
        out.cannot("algorithm.responses_per_prompt", 1, "GRPOTrainer needs at least 2 generations")


def _batches_back(given: Mapping[str, Any], out: Translation) -> None:
    responses = given.get("generation_batch_size")
    if responses is None:
        windows = given.get("steps_per_generation", given["gradient_accumulation_steps"])
        responses = given["per_device_train_batch_size"] * windows
    out.settings["algorithm.prompts_per_step"] = responses // given["num_generations"]
    per_update = given["per_device_train_batch_size"] * given["gradient_accumulation_steps"]
    out.settings["algorithm.updates_per_step"] = max(1, responses // per_update)
    out.notes.append("batch sizes are read for one device")


def _schedule_back(given: Mapping[str, Any], out: Translation) -> None:
    """Steps here are rollout steps; the learning rate rises and then stays."""
    per_step = out.settings["algorithm.updates_per_step"] * given["num_iterations"]
    kind, steps, warmup = given["lr_scheduler_type"], given["max_steps"], given["warmup_steps"]
    if kind not in ("constant", "constant_with_warmup"):
        out.cannot("lr_scheduler_type", kind, "the learning rate here stays after its warm-up")
    if steps > 0:
        out.settings["training.steps"] = max(1, steps // per_step)
    else:
        out.notes.append("max_steps is not given: TRL trains num_train_epochs, training.steps is as here")
    if 0 < warmup < 1:  # a share of all steps
        if steps <= 0:
            out.cannot("warmup_steps", warmup, "a share of max_steps; give it")
        warmup = warmup * max(0, steps)
    if warmup and kind == "constant":
        out.notes.append(
            f"warmup_steps={given['warmup_steps']} has no effect with lr_scheduler_type=constant"
        )
        warmup = 0
    out.settings["optimizer.warmup_steps"] = round(warmup / per_step)


def _advantage(config: RunConfig, out: Translation) -> None:
    advantage = config.algorithm.advantage
    if advantage.kind == "decoupled":
        out.settings |= {
            "multi_objective_aggregation": "normalize_then_sum",
            "reward_weights": [getattr(advantage, f"{name}_weight") for name in _COMPONENTS],
        }
        out.notes.append(f"reward_weights are for reward functions in the order {', '.join(_COMPONENTS)}")
        out.refuse_others(config, _DECOUPLED)
    elif advantage.kind != "group":
        out.cannot("algorithm.advantage.kind", advantage.kind, "GRPOTrainer has the group estimators only")
        return
    else:
        out.refuse_others(config, _GROUP)
        if advantage.scale in _SCALE:
            out.settings["scale_rewards"] = _SCALE[advantage.scale]
        else:
            reason = "TRL's batch scale is that of the rewards (batch_reward_std)"
            out.cannot("algorithm.advantage.scale", advantage.scale, reason)
    if out.settings.get("scale_rewards") != "none":  # else nothing is divided
        out.refuse_others(config, _NORMALISATION)


def _advantage_back(given: Mapping[str, Any], out: Translation) -> None:
    weights, how = given.get("reward_weights"), given["multi_objective_aggregation"]
    require("multi_objective_aggregation", how, ("sum_then_normalize", "normalize_then_sum"))
    if how == "normalize_then_sum":
        out.settings["algorithm/advantage"] = "decoupled"
        if weights is not None:
            padded = [*weights, 0.0, 0.0, 0.0]  # a reward function that is not there weighs nothing
            named = dict(zip(_COMPONENTS, padded, strict=False))
            out.settings |= {f"algorithm.advantage.{name}_weight": weight for name, weight in named.items()}
            out.notes.append(f"reward_weights are read in the order {', '.join(_COMPONENTS)}")
        if weights is not None and len(weights) > len(_COMPONENTS):
            out.cannot("reward_weights", weights, f"the rewards here are {', '.join(_COMPONENTS)}")
    else:
        if weights is not None and list(weights) != [1.0]:
            how = "weights are read with multi_objective_aggregation=normalize_then_sum"
            out.cannot(
                "reward_weights",
                weights,
                f"the reward here is algorithm.reward and algorithm.overlong; {how}",
            )
        scale = {True: "group", False: "none"}.get(given["scale_rewards"], given["scale_rewards"])
        require("scale_rewards", scale, tuple(_SCALE.values()))
        out.settings["algorithm.advantage.scale"] = _ours(_SCALE, scale)
    if out.settings.get("algorithm.advantage.scale") != "none":
        out.imply(_NORMALISATION)


def _loss(config: RunConfig, out: Translation) -> None:
    surrogate, aggregation = config.algorithm.surrogate, config.algorithm.aggregation
    loss = their_name(_ME, SURROGATE, surrogate)
    if loss is None:
        _aggregation(config, out)
        if surrogate.kind == "policy_gradient" and surrogate.importance_weighted:
            out.settings |= {"epsilon": 1.0, "epsilon_high": _NO_CLIP, "delta": None}
            out.notes.append("no clip is written as bounds that no ratio reaches")
        elif surrogate.kind != "ppo_clip":
            reason = "GRPOTrainer has no such loss (one update per rollout makes plain REINFORCE)"
            out.cannot("algorithm.surrogate", surrogate.kind, reason)
    else:
        out.settings["loss_type"], needs = loss, _FIXED_AGGREGATION[loss]
        if aggregation.kind != needs:
            out.cannot("algorithm.aggregation", aggregation.kind, f"TRL's {loss} is {needs}")
    out.write(config, their_keys(_ME, SURROGATE, surrogate.kind))
    if loss == "cispo":
        out.notes.append("epsilon_high is the cap itself for cispo, not an offset from 1")
        out.refuse_others(config, _CISPO)


def _aggregation(config: RunConfig, out: Translation) -> None:
    aggregation, cap = config.algorithm.aggregation, config.sampling.max_response_tokens
    loss = their_name(_ME, AGGREGATION, aggregation)
    if loss is None:
        reason = "TRL has neither a token mean per prompt group nor a plain sum; nearest: loss_type=dapo"
        out.cannot("algorithm.aggregation", aggregation.kind, reason)
        return
    if aggregation.kind == "constant_sum":
        constant = aggregation.constant_tokens
        if constant == 1 and config.algorithm.importance_ratio == "sequence":
            loss = "luspo"
        elif constant != cap:
            out.cannot(
                "algorithm.aggregation.constant_tokens", constant, "TRL divides by max_completion_length"
            )
    if loss == "bnpo":
        reason = "bnpo's micro-batch is per_device_train_batch_size responses"
        out.cannot("algorithm.aggregation.micro_batch_tokens", aggregation.micro_batch_tokens, reason)
    out.settings["loss_type"] = loss


def _loss_back(given: Mapping[str, Any], out: Translation) -> None:
    loss, low, high = given["loss_type"], given["epsilon"], given["epsilon_high"]
    high = low if high is None else high
    surrogate = out.choose(_ME, SURROGATE, loss)
    if surrogate is not None:
        out.settings["algorithm/aggregation"] = _FIXED_AGGREGATION[loss]
    elif out.choose(_ME, AGGREGATION, loss) is None:
        out.cannot("loss_type", loss, "no counterpart")
        return
    elif high >= _NO_CLIP and low >= 1:
        out.settings["algorithm/surrogate"] = "policy_gradient"
    if loss == "bnpo":
        theirs = "its micro-batch is per_device_train_batch_size responses"
        out.cannot("loss_type", "bnpo", f"{theirs}, here algorithm.aggregation.micro_batch_tokens tokens")
    chosen = out.settings.get("algorithm/surrogate", "ppo_clip")
    out.read({**given, "epsilon_high": high}, their_keys(_ME, SURROGATE, chosen))


def _kl(config: RunConfig, out: Translation) -> None:
    kl = config.algorithm.kl
    if kl.coefficient and kl.reset_every_steps:
        reason = "TRL's sync_ref_model moves the reference and keeps the optimiser's moments"
        out.cannot("algorithm.kl.reset_every_steps", kl.reset_every_steps, reason)
    if kl.coefficient == 0:
        out.settings["beta"] = 0.0
    elif kl.kind in ("k3", "k3_ratio") and kl.placement == "loss":
        out.settings |= {"beta": kl.coefficient, "use_bias_correction_kl": kl.kind == "k3_ratio"}
    else:
        reason = "GRPOTrainer has k3 in the loss only, times the ratio or not"
        out.cannot("algorithm.kl", f"{kl.kind} in the {kl.placement}", reason)


def _overlong(config: RunConfig, out: Translation) -> None:
    overlong, cap = config.algorithm.overlong, config.sampling.max_response_tokens
    out.settings["mask_truncated_completions"] = overlong.masks
    if overlong.masks and overlong.statistics == "exclude":
        reason = "TRL keeps masked responses in the group statistics"
        out.cannot("algorithm.overlong.statistics", "exclude", reason)
    if overlong.policy == "wrong":
        reason = "the reward function has to give truncated completions the wrong reward"
        out.cannot("algorithm.overlong", "wrong", reason)
    if overlong.punishes:
        buffer = round(cap * overlong.buffer_fraction)
        out.notes.append(
            f"add the reward function get_soft_overlong_punishment(max_completion_len={cap}, soft_punish_cache={buffer})"
        )
        if overlong.shape != "additive" or overlong.penalty != 1:
            said = f"{overlong.shape}, penalty {overlong.penalty:g}"
            out.cannot("algorithm.overlong", said, "TRL's punishment is added, at most -1")


def _correction(config: RunConfig, out: Translation) -> None:
    correction = config.algorithm.engine_correction
    out.settings["vllm_importance_sampling_correction"] = correction.kind != "none"
    if correction.kind in _CORRECTIONS:
        out.settings |= {
            "vllm_importance_sampling_mode": _CORRECTIONS[correction.kind],
            "vllm_importance_sampling_clip_max": correction.cap,
            "vllm_importance_sampling_clip_min": correction.floor or None,
        }
    elif correction.kind == "none":
        out.notes.append("vllm_importance_sampling_correction is on by default in TRL, here it is off")
    else:
        reason = "TRL has no geometric mean of a response's weights"
        out.cannot("algorithm.engine_correction.kind", correction.kind, reason)


def _correction_back(given: Mapping[str, Any], out: Translation) -> None:
    if not given["vllm_importance_sampling_correction"]:
        out.settings["algorithm.engine_correction.kind"] = "none"
        return
    mode, cap = given["vllm_importance_sampling_mode"], given["vllm_importance_sampling_clip_max"]
    require("vllm_importance_sampling_mode", mode, tuple(_CORRECTIONS.values()))
    out.settings |= {
        "algorithm.engine_correction.kind": _ours(_CORRECTIONS, mode),
        "algorithm.engine_correction.old_log_probs": "recomputed",
        "algorithm.engine_correction.cap": _NO_CLIP if cap is None else cap,
        "algorithm.engine_correction.floor": given.get("vllm_importance_sampling_clip_min", 0.0),
    }


def _ours(names: Mapping[str, str], theirs: str) -> str:
    return next(ours for ours, name in names.items() if name == theirs)

"""TRL's `GRPOConfig` (1.16). Batches are counted in responses per device, warm-up in optimiser steps; written for one device.

Fixed in TRL: group statistics with ddof 1 and epsilon 1e-4; the KL in the loss, k3 times the ratio (its default since 1.16) or plain k3;
no dynamic sampling; the CISPO cap is `epsilon_high` itself. Its `scale_rewards="batch"` divides by the standard deviation of the batch's
*rewards*.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.configuration.schema import RunConfig
from harness.exchange.dialects import Translation, require_numbers

_LOSS = {
    "response_mean": "grpo",
    "batch_token_mean": "dapo",
    "microbatch_token_mean": "bnpo",
    "constant_sum": "dr_grpo",
}
_SCALE = {"group_std": "group", "batch_reward_std": "batch", "none": "none"}
_NO_CLIP = 1e9  # an upper bound that no ratio reaches
_EPSILON = 1e-4


def export(config: RunConfig) -> Translation:
    """See the family's contract."""
    out = Translation()
    for part in (_batches, _optimizer, _advantage, _loss, _kl, _rewards, _sampling):
        part(config, out)
    return out


def _batches(config: RunConfig, out: Translation) -> None:
    algorithm = config.algorithm
    responses = algorithm.prompts_per_step * algorithm.responses_per_prompt
    out.settings |= {
        "num_generations": algorithm.responses_per_prompt,
        "generation_batch_size": responses,
        "per_device_train_batch_size": responses // algorithm.updates_per_step,
        "gradient_accumulation_steps": 1,
        "num_iterations": algorithm.epochs_per_step,
        "max_steps": config.training.steps * algorithm.updates_per_step * algorithm.epochs_per_step,
    }
    out.notes.append(
        "per_device_train_batch_size counts responses of one update on one device; max_steps counts optimiser updates"
    )
    if algorithm.responses_per_prompt == 1:
        out.cannot("algorithm.responses_per_prompt", 1, "GRPOTrainer needs at least 2 generations")


def _optimizer(config: RunConfig, out: Translation) -> None:
    optimizer, algorithm = config.optimizer, config.algorithm
    updates = algorithm.updates_per_step * algorithm.epochs_per_step
    out.settings |= {
        "learning_rate": optimizer.learning_rate,
        "adam_beta1": optimizer.beta1,
        "adam_beta2": optimizer.beta2,
        "adam_epsilon": optimizer.epsilon,
        "weight_decay": optimizer.weight_decay,
        "max_grad_norm": optimizer.max_gradient_norm,
        "lr_scheduler_type": "constant_with_warmup" if optimizer.warmup_steps else "constant",
        "warmup_steps": optimizer.warmup_steps * updates,
    }
    if optimizer.warmup_steps:
        out.notes.append(
            "warmup_steps counts optimiser updates there and rises with every update, here with every rollout step"
        )


def _advantage(config: RunConfig, out: Translation) -> None:
    advantage = config.algorithm.advantage
    if advantage.kind == "decoupled":
        out.settings["multi_objective_aggregation"] = "normalize_then_sum"
        weights = [advantage.outcome_weight, advantage.format_weight, advantage.length_weight]
        out.settings["reward_weights"] = weights
        out.notes.append("reward_weights are for reward functions in the order outcome, format, length")
        if not advantage.batch_normalise:
            out.cannot(
                "algorithm.advantage.batch_normalise", False, "TRL always normalises the sum over the batch"
            )
    elif advantage.kind != "group":
        out.cannot("algorithm.advantage.kind", advantage.kind, "GRPOTrainer has the group estimators only")
        return
    else:
        if advantage.scale in _SCALE:
            out.settings["scale_rewards"] = _SCALE[advantage.scale]
        else:
            out.cannot(
                "algorithm.advantage.scale",
                advantage.scale,
                "TRL's batch scale is that of the rewards (batch_reward_std)",
            )
        if advantage.baseline != "group_mean":
            out.cannot(
                "algorithm.advantage.baseline",
                advantage.baseline,
                "GRPOTrainer subtracts the group mean (see RLOOTrainer)",
            )
    if getattr(advantage, "scale", "") != "none":
        if advantage.ddof != 1:
            out.cannot(
                "algorithm.advantage.ddof",
                advantage.ddof,
                "TRL's standard deviation is the sample form (ddof 1)",
            )
        if advantage.epsilon != _EPSILON:
            out.cannot("algorithm.advantage.epsilon", advantage.epsilon, f"TRL adds {_EPSILON:g}")


def _loss(config: RunConfig, out: Translation) -> None:
    algorithm = config.algorithm
    surrogate, aggregation = algorithm.surrogate, algorithm.aggregation
    out.settings["importance_sampling_level"] = algorithm.importance_ratio
    if surrogate.kind == "clipped_is":
        if aggregation.kind != "batch_token_mean":
            out.cannot(
                "algorithm.aggregation",
                aggregation.kind,
                "TRL's cispo is a token mean over the update (batch_token_mean)",
            )
        out.settings |= {"loss_type": "cispo", "epsilon_high": surrogate.cap_max}
        out.notes.append("epsilon_high is the cap itself for cispo, not an offset from 1")
        if surrogate.cap_min > 0:
            out.cannot("algorithm.surrogate.cap_min", surrogate.cap_min, "TRL's cispo has no lower cap")
        return
    if aggregation.kind in _LOSS:
        out.settings["loss_type"] = _LOSS[aggregation.kind]
    else:
        out.cannot(
            "algorithm.aggregation",
            aggregation.kind,
            "TRL has neither a token mean per prompt group nor a plain sum; nearest: loss_type=dapo",
        )
    if (
        aggregation.kind == "constant_sum"
        and aggregation.constant_tokens != config.sampling.max_response_tokens
    ):
        out.cannot(
            "algorithm.aggregation.constant_tokens",
            aggregation.constant_tokens,
            "TRL divides by max_completion_length",
        )
    if aggregation.kind == "microbatch_token_mean":
        out.cannot(
            "algorithm.aggregation.micro_batch_tokens", aggregation.micro_batch_tokens,
            "bnpo's micro-batch is per_device_train_batch_size responses",
        )  # fmt: skip
    if surrogate.kind == "ppo_clip":
        out.settings |= {
            "epsilon": surrogate.clip_low,
            "epsilon_high": surrogate.clip_high,
            "delta": surrogate.dual_clip,
        }
    elif surrogate.kind == "policy_gradient" and surrogate.importance_weighted:
        out.settings |= {"epsilon": 1.0, "epsilon_high": _NO_CLIP, "delta": None}
        out.notes.append("no clip is written as bounds that no ratio reaches")
    else:
        out.cannot(
            "algorithm.surrogate",
            surrogate.kind,
            "GRPOTrainer has no such loss (one update per rollout makes plain REINFORCE)",
        )


def _kl(config: RunConfig, out: Translation) -> None:
    kl = config.algorithm.kl
    if kl.coefficient == 0:
        out.settings["beta"] = 0.0
    elif kl.kind in ("k3", "k3_ratio") and kl.placement == "loss":
        out.settings |= {"beta": kl.coefficient, "use_bias_correction_kl": kl.kind == "k3_ratio"}
    else:
        out.cannot(
            "algorithm.kl",
            f"{kl.kind} in the {kl.placement}",
            "GRPOTrainer has k3 in the loss only, times the ratio or not",
        )


def _rewards(config: RunConfig, out: Translation) -> None:
    algorithm, cap = config.algorithm, config.sampling.max_response_tokens
    overlong, dead = algorithm.overlong, algorithm.dead_groups
    out.settings["mask_truncated_completions"] = overlong.masks
    if overlong.masks and overlong.statistics == "exclude":
        out.cannot(
            "algorithm.overlong.statistics", "exclude", "TRL keeps masked responses in the group statistics"
        )
    if overlong.policy == "wrong":
        out.cannot(
            "algorithm.overlong",
            "wrong",
            "the reward function has to give truncated completions the wrong reward",
        )
    if overlong.punishes:
        buffer = round(cap * overlong.buffer_fraction)
        out.notes.append(
            f"add the reward function get_soft_overlong_punishment(max_completion_len={cap}, soft_punish_cache={buffer})"
        )
        if overlong.shape != "additive" or overlong.penalty != 1:
            out.cannot(
                "algorithm.overlong",
                f"{overlong.shape}, penalty {overlong.penalty:g}",
                "TRL's punishment is added, at most -1",
            )
    if dead.policy != "keep":
        out.cannot(
            "algorithm.dead_groups.policy", dead.policy, "not supported in TRL: dead groups stay in the batch"
        )
    if algorithm.curriculum.kind != "uniform":
        out.cannot("algorithm.curriculum", algorithm.curriculum.kind, "TRL samples prompts uniformly")
    if algorithm.source.kind != "policy":
        out.cannot("algorithm.source", algorithm.source.kind, "GRPOTrainer samples from the policy")
    if algorithm.positive_nll_coefficient:
        out.cannot(
            "algorithm.positive_nll_coefficient",
            algorithm.positive_nll_coefficient,
            "TRL has no likelihood term",
        )
    if algorithm.entropy_coefficient:
        out.settings["entropy_coef"] = algorithm.entropy_coefficient
        out.notes.append(
            "TRL's entropy bonus is a token mean of its own, not aggregated like the policy loss"
        )


def _sampling(config: RunConfig, out: Translation) -> None:
    sampling, correction = config.sampling, config.algorithm.engine_correction
    if sampling.lag_steps:
        out.cannot("sampling.lag_steps", sampling.lag_steps, "GRPOTrainer samples from the newest policy")
    out.settings |= {
        "max_completion_length": sampling.max_response_tokens,
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "vllm_importance_sampling_correction": correction.kind != "none",
    }
    if correction.kind == "geometric_mask":
        out.cannot(
            "algorithm.engine_correction.kind",
            correction.kind,
            "TRL has no geometric mean of a response's weights",
        )
    elif correction.kind != "none":
        out.settings |= {
            "vllm_importance_sampling_mode": _CORRECTIONS[correction.kind],
            "vllm_importance_sampling_clip_max": correction.cap,
            "vllm_importance_sampling_clip_min": correction.floor or None,
        }
    else:
        out.notes.append("vllm_importance_sampling_correction is on by default in TRL, here it is off")


# ---- back -----------------------------------------------------------------------------------------------------------------

_CORRECTIONS = {
    "token": "token_truncate",
    "token_mask": "token_mask",
    "sequence": "sequence_truncate",
    "sequence_mask": "sequence_mask",
}
_PLAIN = {
    "num_generations": "algorithm.responses_per_prompt",
    "num_iterations": "algorithm.epochs_per_step",
    "importance_sampling_level": "algorithm.importance_ratio",
    "entropy_coef": "algorithm.entropy_coefficient",
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
_DEFAULTS = {
    "loss_type": "dapo", "epsilon": 0.2, "epsilon_high": None, "delta": None, "beta": 0.0, "scale_rewards": "group",
    "num_generations": 8, "per_device_train_batch_size": 8, "gradient_accumulation_steps": 1, "num_iterations": 1,
    "mask_truncated_completions": False, "vllm_importance_sampling_correction": True, "use_bias_correction_kl": True,
}  # fmt: skip
_READ = {
    *_PLAIN, *_DEFAULTS, "generation_batch_size", "steps_per_generation", "warmup_steps", "lr_scheduler_type",
    "max_steps", "vllm_importance_sampling_mode", "vllm_importance_sampling_clip_max", "vllm_importance_sampling_clip_min",
    "multi_objective_aggregation", "reward_weights",
}  # fmt: skip

_TEXTS = {
    "loss_type", "scale_rewards", "lr_scheduler_type", "importance_sampling_level", "vllm_importance_sampling_mode",
    "multi_objective_aggregation",
}  # fmt: skip


def overrides(values: Mapping[str, Any]) -> Translation:
    """Our overrides for a `GRPOConfig`'s keyword arguments; TRL's defaults stand for what is not given."""
    require_numbers(values, _READ, _TEXTS)
    given = {**_DEFAULTS, **values}
    out = Translation({"algorithm": "grpo"})
    out.inexpressible = [f"{key}={values[key]}: not read" for key in values if key not in _READ]
    out.settings |= {ours: given[theirs] for theirs, ours in _PLAIN.items() if theirs in given}
    _units_back(given, out)
    _loss_back(given, out)
    if values.get("multi_objective_aggregation") == "normalize_then_sum":
        out.settings["algorithm/advantage"] = "decoupled"
        for name, weight in zip(
            ("outcome", "format", "length"), values.get("reward_weights") or (), strict=False
        ):
            out.settings[f"algorithm.advantage.{name}_weight"] = weight
    else:
        scale = {True: "group", False: "none"}.get(given["scale_rewards"], given["scale_rewards"])
        out.settings["algorithm.advantage.scale"] = {v: k for k, v in _SCALE.items()}[scale]
    if out.settings.get("algorithm.advantage.scale") != "none":  # else nothing is divided
        out.settings |= {"algorithm.advantage.ddof": 1, "algorithm.advantage.epsilon": _EPSILON}
    out.settings["algorithm.kl.coefficient"] = given["beta"]
    if given["beta"]:
        out.settings["algorithm/kl"] = "k3_ratio" if given["use_bias_correction_kl"] else "k3"
    out.settings["algorithm.overlong.policy"] = "mask" if given["mask_truncated_completions"] else "score"
    corrects = given["vllm_importance_sampling_correction"]
    mode = values.get("vllm_importance_sampling_mode", "sequence_mask")
    ours = {theirs: kind for kind, theirs in _CORRECTIONS.items()}
    out.settings["algorithm.engine_correction.kind"] = ours[mode] if corrects else "none"
    if corrects:
        out.settings["algorithm.engine_correction.old_log_probs"] = "recomputed"
        out.settings["algorithm.engine_correction.cap"] = values.get("vllm_importance_sampling_clip_max", 3.0)
        out.settings["algorithm.engine_correction.floor"] = (
            values.get("vllm_importance_sampling_clip_min") or 0.0
        )
    return out


def _units_back(given: Mapping[str, Any], out: Translation) -> None:
    size = given["num_generations"]
    per_update = given["per_device_train_batch_size"] * given["gradient_accumulation_steps"]
    responses = given.get("generation_batch_size")
    if responses is None:
        windows = given.get("steps_per_generation") or given["gradient_accumulation_steps"]
        responses = given["per_device_train_batch_size"] * windows
    updates = max(1, responses // per_update)
    out.settings["algorithm.prompts_per_step"] = responses // size
    out.settings["algorithm.updates_per_step"] = updates
    out.notes.append("batch sizes are read for one device")
    per_step = updates * given["num_iterations"]
    out.settings["optimizer.warmup_steps"] = round(given.get("warmup_steps", 0) / per_step)
    if "max_steps" in given:
        out.settings["training.steps"] = given["max_steps"] // per_step


def _loss_back(given: Mapping[str, Any], out: Translation) -> None:
    kind, low = given["loss_type"], given["epsilon"]
    high = low if given["epsilon_high"] is None else given["epsilon_high"]
    if kind == "cispo":
        out.settings |= {
            "algorithm/surrogate": "clipped_is",
            "algorithm/aggregation": "batch_token_mean",
            "algorithm.surrogate.cap_max": high,
        }
        return
    names = {theirs: ours for ours, theirs in _LOSS.items()}
    if kind not in names:
        out.inexpressible.append(f"loss_type={kind}: no counterpart")
        return
    out.settings["algorithm/aggregation"] = names[kind]
    if high >= _NO_CLIP and low >= 1:
        out.settings["algorithm/surrogate"] = "policy_gradient"
        return
    out.settings |= {
        "algorithm.surrogate.clip_low": low,
        "algorithm.surrogate.clip_high": high,
        "algorithm.surrogate.dual_clip": given["delta"],
    }

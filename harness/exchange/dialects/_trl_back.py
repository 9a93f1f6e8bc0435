"""From a `GRPOConfig`'s keyword arguments to our overrides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.exchange.dialects import Translation, require_numbers
from harness.exchange.dialects._trl_names import CORRECTIONS, EPSILON, LOSS, NO_CLIP, SCALE, SMOOTH

_PLAIN = {
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
_DEFAULTS = {
    "loss_type": "dapo", "epsilon": 0.2, "epsilon_high": None, "delta": None, "beta": 0.0, "scale_rewards": "group",
    "num_generations": 8, "per_device_train_batch_size": 8, "gradient_accumulation_steps": 1, "num_iterations": 1,
    "mask_truncated_completions": False, "vllm_importance_sampling_correction": True, "use_bias_correction_kl": True,
}  # fmt: skip
_READ = {
    *_PLAIN, *_DEFAULTS, "generation_batch_size", "steps_per_generation", "warmup_steps", "lr_scheduler_type",
    "max_steps", "vllm_importance_sampling_mode", "vllm_importance_sampling_clip_max", "vllm_importance_sampling_clip_min",
    "multi_objective_aggregation", "reward_weights", "top_entropy_quantile", "off_policy_mask_threshold",
    *(name for _, _, names in SMOOTH.values() for name in names.values()),
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
        out.settings["algorithm.advantage.scale"] = {v: k for k, v in SCALE.items()}[scale]
    if out.settings.get("algorithm.advantage.scale") != "none":  # else nothing is divided
        out.settings |= {"algorithm.advantage.ddof": 1, "algorithm.advantage.epsilon": EPSILON}
    out.settings["algorithm.kl.coefficient"] = given["beta"]
    if given["beta"]:
        out.settings["algorithm/kl"] = "k3_ratio" if given["use_bias_correction_kl"] else "k3"
    out.settings["algorithm.overlong.policy"] = "mask" if given["mask_truncated_completions"] else "score"
    corrects = given["vllm_importance_sampling_correction"]
    mode = values.get("vllm_importance_sampling_mode", "sequence_mask")
    ours = {theirs: kind for kind, theirs in CORRECTIONS.items()}
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
    for ours, (theirs, needs, keys) in SMOOTH.items():
        if kind == theirs:
            out.settings |= {"algorithm/surrogate": ours, "algorithm/aggregation": needs}
            out.settings |= {f"algorithm.surrogate.{o}": given[t] for o, t in keys.items() if t in given}
            return
    names = {theirs: ours for ours, theirs in LOSS.items()}
    if kind == "luspo":
        names["luspo"] = "constant_sum"
        out.settings["algorithm.aggregation.constant_tokens"] = 1.0
    if kind not in names:
        out.inexpressible.append(f"loss_type={kind}: no counterpart")
        return
    out.settings["algorithm/aggregation"] = names[kind]
    if high >= NO_CLIP and low >= 1:
        out.settings["algorithm/surrogate"] = "policy_gradient"
        return
    out.settings |= {
        "algorithm.surrogate.clip_low": low,
        "algorithm.surrogate.clip_high": high,
        "algorithm.surrogate.dual_clip": given["delta"],
    }

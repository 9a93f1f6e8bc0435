"""From a `GRPOConfig`'s keyword arguments to our overrides."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.configuration.error import ConfigError, require
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
    *_PLAIN, *_DEFAULTS, "generation_batch_size", "steps_per_generation", "vllm_importance_sampling_clip_min", "reward_weights",
}  # fmt: skip
_NO_LIMIT = (
    "max_completion_length",
    "vllm_importance_sampling_clip_max",
)  # null says something here: no limit
_COUNTS = (
    "num_generations", "per_device_train_batch_size", "gradient_accumulation_steps", "num_iterations", "generation_batch_size",
    "steps_per_generation",
)  # fmt: skip
_TEXTS = {
    "loss_type", "scale_rewards", "lr_scheduler_type", "importance_sampling_level", "vllm_importance_sampling_mode",
    "multi_objective_aggregation",
}  # fmt: skip


def overrides(values: Mapping[str, Any]) -> Translation:
    """Our overrides for a `GRPOConfig`'s keyword arguments; TRL's defaults stand for what is not given, or null.

    Raises:
        ConfigError: a value that TRL would not take, either.
    """
    require_numbers(values, _READ, _TEXTS)
    given = {**_DEFAULTS, **{k: v for k, v in values.items() if v is not None or k in _NO_LIMIT}}
    _require_counts(given)
    out = Translation({"algorithm": "grpo"})
    out.inexpressible = [f"{key}={values[key]}: not read" for key in values if key not in _READ]
    out.notes.append("TRL 1.16's defaults stand for what is not given")
    out.settings |= {ours: given[theirs] for theirs, ours in _PLAIN.items() if theirs in given}
    if given["max_completion_length"] is None:
        del out.settings["sampling.max_response_tokens"]
        out.inexpressible.append("max_completion_length=null: responses have a cap here; give one")
    _units_back(given, out)
    _schedule_back(given, out)
    _loss_back(given, out)
    _advantage_back(given, out)
    out.settings["algorithm.kl.coefficient"] = given["beta"]
    if given["beta"]:
        out.settings["algorithm/kl"] = "k3_ratio" if given["use_bias_correction_kl"] else "k3"
    out.settings["algorithm.overlong.policy"] = "mask" if given["mask_truncated_completions"] else "score"
    _correction_back(given, out)
    return out


def _require_counts(given: Mapping[str, Any]) -> None:
    for key in _COUNTS:
        value = given.get(key, 1)
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ConfigError(f"{key}={value} is no count; give an integer from 1 on")


def _advantage_back(given: Mapping[str, Any], out: Translation) -> None:
    weights, names = given.get("reward_weights"), ("outcome", "format", "length")
    how = given["multi_objective_aggregation"]
    require("multi_objective_aggregation", how, ("sum_then_normalize", "normalize_then_sum"))
    if how == "normalize_then_sum":
        out.settings["algorithm/advantage"] = "decoupled"
        if weights is not None:
            padded = [*weights, 0.0, 0.0, 0.0]  # a reward function that is not there weighs nothing
            out.settings |= {
                f"algorithm.advantage.{name}_weight": weight
                for name, weight in zip(names, padded, strict=False)
            }
            out.notes.append(f"reward_weights are read in the order {', '.join(names)}")
        if weights is not None and len(weights) > len(names):
            out.inexpressible.append(f"reward_weights={weights}: the rewards here are {', '.join(names)}")
    else:
        if weights is not None and list(weights) != [1.0]:
            out.inexpressible.append(
                f"reward_weights={weights}: the reward here is algorithm.reward and algorithm.overlong; weights are read with "
                "multi_objective_aggregation=normalize_then_sum"
            )
        scale = {True: "group", False: "none"}.get(given["scale_rewards"], given["scale_rewards"])
        require("scale_rewards", scale, tuple(SCALE.values()))
        out.settings["algorithm.advantage.scale"] = {v: k for k, v in SCALE.items()}[scale]
    if out.settings.get("algorithm.advantage.scale") != "none":  # else nothing is divided
        out.settings |= {"algorithm.advantage.ddof": 1, "algorithm.advantage.epsilon": EPSILON}


def _correction_back(given: Mapping[str, Any], out: Translation) -> None:
    if not given["vllm_importance_sampling_correction"]:
        out.settings["algorithm.engine_correction.kind"] = "none"
        return
    mode, cap = given["vllm_importance_sampling_mode"], given["vllm_importance_sampling_clip_max"]
    ours = {theirs: kind for kind, theirs in CORRECTIONS.items()}
    require("vllm_importance_sampling_mode", mode, tuple(ours))
    out.settings |= {
        "algorithm.engine_correction.kind": ours[mode],
        "algorithm.engine_correction.old_log_probs": "recomputed",
        "algorithm.engine_correction.cap": NO_CLIP if cap is None else cap,
        "algorithm.engine_correction.floor": given.get("vllm_importance_sampling_clip_min", 0.0),
    }


def _units_back(given: Mapping[str, Any], out: Translation) -> None:
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
        out.inexpressible.append(f"lr_scheduler_type={kind}: the learning rate here stays after its warm-up")
    if steps > 0:
        out.settings["training.steps"] = max(1, steps // per_step)
    else:
        out.notes.append("max_steps is not given: TRL trains num_train_epochs, training.steps is as here")
    if 0 < warmup < 1:  # a share of all steps
        if steps <= 0:
            out.inexpressible.append(f"warmup_steps={warmup}: a share of max_steps; give it")
        warmup = warmup * max(0, steps)
    if warmup and kind == "constant":
        out.notes.append(
            f"warmup_steps={given['warmup_steps']} has no effect with lr_scheduler_type=constant"
        )
        warmup = 0
    out.settings["optimizer.warmup_steps"] = round(warmup / per_step)


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
    if kind == "bnpo":
        out.inexpressible.append(
            "loss_type=bnpo: its micro-batch is per_device_train_batch_size responses, here algorithm.aggregation.micro_batch_tokens tokens"
        )
    if high >= NO_CLIP and low >= 1:
        out.settings["algorithm/surrogate"] = "policy_gradient"
        return
    out.settings |= {
        "algorithm.surrogate.clip_low": low,
        "algorithm.surrogate.clip_high": high,
        "algorithm.surrogate.dual_clip": given["delta"],
    }

"""TRL's `GRPOConfig`: what its table (`trl.yaml`) cannot say in a row, both ways.

Fixed in TRL: group statistics with ddof 1 and epsilon 1e-4; the KL term in the loss, k3 times the ratio or plain k3; no dynamic sampling;
the CISPO cap is `epsilon_high` itself. Batches are counted in responses a device, warm-up in optimiser
updates. An export is for one device.
"""

import math
import re
from collections.abc import Mapping
from functools import partial
from typing import Any

from harness.configuration.error import ConfigError
from harness.configuration.schema import RunConfig
from harness.exchange import dialect
from harness.exchange.dialect import COMPONENTS, NO_CLIP, Settings, Translation

_CLIP_LOSSES = ("grpo", "bnpo", "dapo", "dr_grpo", "luspo")  # losses with PPO's clip
_LORA_RANK = 16  # TRL's default (trl/trainer/model_config.py)
_RANDOM_UPDATES = "TRL's updates take random responses of the step, ours whole groups (docs/trl.md)"
_AGGREGATION = "multi_objective_aggregation"
_TOKEN_MEAN = (
    "TRL's bonus is a mean over the tokens that train, here it is aggregated like the policy loss, over all tokens"
)
_BELOW_CLIP = "below 1 + clip_high TRL's delta bounds the ratio of positive advantages, too"


def export(config: RunConfig) -> Translation:
    """Return the configuration in the names and units of `GRPOConfig`, for one device."""
    parts = (_export_batches, _export_schedule, _export_rewards, _export_loss, _export_kl, _export_correction)
    without_clip = {"algorithm.surrogate.kind": "ppo_clip", "algorithm.surrogate.dual_clip": None}
    return dialect.export_config("trl", config, parts, without_clip)


def _export_batches(config: RunConfig, out: Translation) -> None:
    algorithm = config.algorithm
    responses = algorithm.prompts_per_step * algorithm.responses_per_prompt
    out.settings |= {
        "generation_batch_size": responses,
        "per_device_train_batch_size": responses // algorithm.updates_per_step,
        "gradient_accumulation_steps": 1,
        "max_steps": config.training.steps * algorithm.updates_per_step * algorithm.epochs_per_step,
    }
    out.notes.append("per_device_train_batch_size is responses an update on one device; max_steps is optimiser updates")
    if algorithm.updates_per_step > 1:
        out.notes.append(_RANDOM_UPDATES)
    if algorithm.responses_per_prompt == 1:
        out.cannot("algorithm.responses_per_prompt", 1, "GRPOTrainer needs at least 2 generations")


def _export_schedule(config: RunConfig, out: Translation) -> None:
    warmup, algorithm = config.optimizer.warmup_steps, config.algorithm
    out.settings["warmup_steps"] = warmup * algorithm.updates_per_step * algorithm.epochs_per_step
    if warmup and config.optimizer.decay == "none":
        out.settings["lr_scheduler_type"] = "constant_with_warmup"
    min_lr_rate = out.settings.pop("lr_scheduler_kwargs.min_lr_rate", None)
    if min_lr_rate is not None:
        out.settings["lr_scheduler_kwargs"] = {"min_lr_rate": min_lr_rate}
    if warmup:
        out.notes.append("TRL's warm-up counts optimiser updates and rises with each, here with every rollout step")


def _export_rewards(config: RunConfig, out: Translation) -> None:
    algorithm, overlong = config.algorithm, config.algorithm.overlong
    if algorithm.advantage.kind == "decoupled":
        out.settings["reward_weights"] = dialect.reward_weights(algorithm.advantage)
        out.notes.append(f"reward_weights are for reward functions in the order {', '.join(COMPONENTS)}")
    out.settings["mask_truncated_completions"] = overlong.masks
    if overlong.masks and overlong.statistics == "exclude":
        out.cannot("algorithm.overlong.statistics", "exclude", "TRL keeps masked responses in the group statistics")
    if overlong.policy == "wrong":
        out.cannot("algorithm.overlong", "wrong", "the reward function has to give cut completions the wrong reward")
    if overlong.punishes:
        cap, buffer = config.sampling.max_response_tokens, dialect.buffer_tokens(config, out)
        out.notes.append(f"add get_soft_overlong_punishment(max_completion_len={cap}, soft_punish_cache={buffer})")
        if overlong.shape != "additive" or overlong.penalty != 1:
            penalty = f"{overlong.shape}, penalty {overlong.penalty:g}"
            out.cannot("algorithm.overlong", penalty, "TRL's punishment is added, at most -1")


def _export_loss(config: RunConfig, out: Translation) -> None:
    algorithm, surrogate, loss = config.algorithm, config.algorithm.surrogate, out.settings["loss_type"]
    if surrogate.kind == "policy_gradient" and surrogate.importance_weighted:
        out.settings |= {"epsilon": 1.0, "epsilon_high": NO_CLIP, "delta": None}
        out.notes.append("no clip is written as bounds that no ratio reaches")
    elif surrogate.kind == "ppo_clip":
        out.settings |= {"epsilon": surrogate.clip_low, "epsilon_high": surrogate.clip_high}
        if surrogate.dual_clip and surrogate.dual_clip < 1 + surrogate.clip_high:
            out.cannot("algorithm.surrogate.dual_clip", surrogate.dual_clip, _BELOW_CLIP)
    elif surrogate.kind == "clipped_is":
        out.settings["epsilon_high"] = surrogate.cap_max
        out.notes.append("epsilon_high is the cap itself for cispo, not an offset from 1")
    if loss == "luspo" and algorithm.importance_ratio != "sequence":
        out.settings["loss_type"] = "dr_grpo"
    _export_aggregation(config, out)
    if out.settings["loss_type"] in ("dapo", "cispo", "vespo") and algorithm.updates_per_step > 1:
        out.notes.append("TRL divides every update by the mean number of tokens of the step's updates, ours by its own")
    is_token_mean = algorithm.aggregation.kind == "batch_token_mean" and algorithm.top_entropy_fraction == 1
    if algorithm.entropy_coefficient and not is_token_mean:
        out.cannot("algorithm.entropy_coefficient", algorithm.entropy_coefficient, _TOKEN_MEAN)
    if algorithm.top_entropy_fraction < 1:
        out.notes.append(
            "TRL ranks the tokens of an update by the current policy's entropy, here those of a rollout step by the sampling policy's"
        )


def _export_aggregation(config: RunConfig, out: Translation) -> None:
    aggregation, loss = config.algorithm.aggregation, out.settings["loss_type"]
    if loss == "dr_grpo" and aggregation.kind == "constant_sum":
        constant = aggregation.constant_tokens
        if constant != config.sampling.max_response_tokens:
            out.cannot("algorithm.aggregation.constant_tokens", constant, "TRL divides by max_completion_length")
    if loss != "bnpo" or aggregation.kind != "microbatch_token_mean":
        return
    if not aggregation.micro_batch_responses:
        reason = "bnpo's micro-batch is per_device_train_batch_size responses"
        out.cannot("algorithm.aggregation.micro_batch_tokens", aggregation.micro_batch_tokens, reason)
        return
    whole, size = out.settings["per_device_train_batch_size"], aggregation.micro_batch_responses
    out.settings |= {"per_device_train_batch_size": size, "gradient_accumulation_steps": -(-whole // size)}
    if whole % size:
        out.cannot("algorithm.aggregation.micro_batch_responses", size, f"an update has {whole} responses")


def _export_kl(config: RunConfig, out: Translation) -> None:
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


def _export_correction(config: RunConfig, out: Translation) -> None:
    if config.algorithm.engine_correction.old_log_probs == "sampler":
        out.notes.append("old_log_probs=sampler: TRL's ratio is to log-probs of the trainer itself, a rounding apart")
    if config.algorithm.engine_correction.kind == "none":
        out.notes.append("vllm_importance_sampling_correction is on by default in TRL, here it is off")


def translate(values: Mapping[str, Any], devices: int | None = None) -> Translation:
    """Return a resolved `GRPOConfig`, with arguments of TRL's scripts, as overrides of ours. Raises `ConfigError`.

    `devices`: processes that trained; None: as the batch sizes of a resolved configuration tell.
    """
    parts = (partial(_batches, devices), _schedule, _rewards, _clip, _denominators, _kl, _model, _release)
    defaults = {"algorithm.engine_correction.old_log_probs": "recomputed"}
    if values.get(_AGGREGATION) is None:
        values = {**values, _AGGREGATION: "sum_then_normalize"}  # TRL's default, beside which scale_rewards counts
    if (cap := values.get("vllm_importance_sampling_cap")) is not None:  # its name before 1.6
        values = {**values, "vllm_importance_sampling_clip_max": cap}
    out = dialect.translate_config("trl", values, parts, defaults)
    if out.settings.get("algorithm.updates_per_step", 1) > 1:
        out.notes.append(_RANDOM_UPDATES)
    return out


def _batches(devices: int | None, source: Settings, out: Translation) -> None:
    """Responses of a generation and of an update; TRL counts them for one device, and for all in `generation_batch_size`."""
    group, key = source.count("num_generations"), "per_device_train_batch_size"
    per_device, accumulation_steps = source.count(key), source.count("gradient_accumulation_steps")
    generation, parts = source.count("generation_batch_size"), source.count("steps_per_generation")
    if not (group and per_device and accumulation_steps):
        for name in (key, "gradient_accumulation_steps", "generation_batch_size", "steps_per_generation"):
            if source.get(name) is not None:
                out.cannot(name, source.get(name), "the other batch sizes and num_generations are not given")
        return
    if devices is None and generation and parts:
        devices = max(1, generation // (per_device * parts))
    if devices is None:
        out.cannot(key, per_device, "counts responses on one device; give devices=N, the processes that trained")
        return
    whole = per_device * devices * (parts or accumulation_steps)
    if generation and parts and generation != whole:
        raise ConfigError(
            f"generation_batch_size={generation} is not {key}={per_device} x steps_per_generation={parts} on {devices} devices"
        )
    generation, update = generation or whole, per_device * accumulation_steps * devices
    if generation < update and update % generation == 0:
        generation = update  # several generations make one update
    if generation % group or generation % update or (generation // group) % (generation // update):
        raise ConfigError(
            f"{generation} responses a generation in groups of num_generations={group}, {update} an update ({key}={per_device} x "
            f"gradient_accumulation_steps={accumulation_steps} on {devices} devices): these are no whole groups in every update"
        )
    out.set("algorithm.prompts_per_step", generation // group)
    out.set("algorithm.updates_per_step", generation // update)
    out.notes.append(f"batch sizes are read for {devices} device{'s' * (devices > 1)}")
    if source.get("loss_type") == "bnpo":
        out.set("algorithm.aggregation.micro_batch_responses", per_device)


def _schedule(source: Settings, out: Translation) -> None:
    """Steps here are rollout steps, TRL's are optimiser updates."""
    steps, share = (source.number("max_steps"), source.number("warmup_steps", 0) or source.number("warmup_ratio", 0))
    total = int(steps) if steps and steps > 0 else 0
    updates = out.settings.get("algorithm.updates_per_step", 0) * int(out.settings.get("algorithm.epochs_per_step", 1))
    if total and updates:
        out.set("training.steps", max(1, total // updates))
        if total % updates:
            out.notes.append(f"max_steps={total} updates are no whole number of rollout steps of {updates}")
    elif total:
        out.cannot("max_steps", total, "counts optimiser updates, and no batch size says how many a rollout step has")
    elif source.number("num_train_epochs") or "max_steps" in source:
        reason = "the length follows from the size of the data set; give max_steps=N, which trainer_state.json has"
        out.cannot("num_train_epochs", source.number("num_train_epochs"), reason)
    if share < 0:
        raise ConfigError(f"warmup_steps or warmup_ratio is {share}, less than 0")
    if share and source.get("lr_scheduler_type") == "constant":
        out.notes.append(f"warmup_steps={share} has no effect with lr_scheduler_type=constant")
    elif share and not (updates and (share >= 1 or total)):
        out.cannot("warmup_steps", share, "the batch sizes, or max_steps for a share, are not known")
    elif "warmup_steps" in source or "warmup_ratio" in source:
        whole = share if share >= 1 else share * total
        out.set("optimizer.warmup_steps", math.ceil(whole / updates) if whole else 0)


def _rewards(source: Settings, out: Translation) -> None:
    masked = source.flag("mask_truncated_completions")
    out.set("algorithm.overlong.policy", "mask" if masked else "score")
    weights, names = source.numbers("reward_weights"), source.names("reward_funcs")
    if names and weights is not None and len(weights) != len(names):
        raise ConfigError(f"reward_funcs has {len(names)} names, reward_weights {len(weights)} numbers; give as many")
    if source.get(_AGGREGATION) == "normalize_then_sum":
        _set_decoupled_weights(names, weights, out)
        return
    out.settings |= {"algorithm.reward.correct": 1.0, "algorithm.reward.wrong": 0.0}
    if not names and weights in (None, [1], [1.0]):
        out.notes.append("rewards are functions of the script there: 1 for a right answer and 0 for a wrong one here")
    elif not names:
        out.cannot("reward_weights", weights, "the reward is algorithm.reward; name the functions, reward_funcs=[...]")
    for name, weight in zip(names, (weights or [1.0] * len(names)) if names else [], strict=True):
        if "accuracy" in name.rpartition(".")[2] and weight:
            out.set("algorithm.reward.correct", float(weight))
            out.notes.append(f"rewards are {weight:g} for a right answer and 0 for a wrong one, as {name} gives them")
        else:
            reason = "no such reward here; algorithm.reward.function=FILE.py:NAME takes a function of one's own"
            out.cannot("reward_funcs", f"{name} (weight {weight:g})", reason)


def _set_decoupled_weights(names: list[str], weights: list[float] | None, out: Translation) -> None:
    weights = [1.0] * len(names) if names and weights is None else weights
    if weights is None or len(weights) > len(COMPONENTS):
        out.cannot("reward_weights", weights, f"the rewards here are {', '.join(COMPONENTS)}; give a weight for each")
        return
    dialect.set_reward_weights(COMPONENTS[: len(weights)], [*map(float, weights)], out)
    order_note = f", which are {', '.join(names)} there" if names else ""
    out.notes.append(f"reward_weights are read in the order {', '.join(COMPONENTS)}{order_note}")


def _clip(source: Settings, out: Translation) -> None:
    loss, low, high = source.get("loss_type"), source.number("epsilon"), source.number("epsilon_high")
    if high is None:
        high = low
    if loss == "cispo" and high is not None and high < 1:
        out.cannot("epsilon_high", high, "it is the cap of cispo's weights, which here is at least 1")
    elif loss == "cispo" and high is not None:
        out.set("algorithm.surrogate.cap_max", high)
    elif loss in _CLIP_LOSSES and high is not None and high >= NO_CLIP and low is not None and low >= 1:
        out.set("algorithm.surrogate.kind", "policy_gradient")
    elif loss in _CLIP_LOSSES or loss is None:
        if low is not None:
            out.set("algorithm.surrogate.clip_low", min(low, 1.0))  # from 1 on no lower bound binds
        if high is not None:
            out.set("algorithm.surrogate.clip_high", high)
    delta = source.number("delta")
    if loss in _CLIP_LOSSES and delta is not None and high is not None and delta < 1 + high:
        out.cannot("delta", delta, _BELOW_CLIP)


def _denominators(source: Settings, out: Translation) -> None:
    loss = source.get("loss_type")
    is_token_mean = out.settings.get("algorithm.aggregation.kind") == "batch_token_mean"
    if (bonus := source.number("entropy_coef")) and not (
        is_token_mean and source.number("top_entropy_quantile", 1) == 1
    ):
        out.cannot("entropy_coef", bonus, _TOKEN_MEAN)
    if loss == "luspo" and source.get("importance_sampling_level") != "sequence":
        out.cannot("loss_type", loss, "weighs responses by length here only with importance_sampling_level=sequence")
    if loss == "dr_grpo" and "sampling.max_response_tokens" in out.settings:
        out.set("algorithm.aggregation.constant_tokens", float(out.settings["sampling.max_response_tokens"]))


def _kl(source: Settings, out: Translation) -> None:
    beta = source.number("beta")
    if beta is None:
        return
    weighted = source.flag("use_bias_correction_kl") and beta != 0
    out.set("algorithm.kl.kind", "k3_ratio" if weighted else "k3")
    out.set("algorithm.kl.coefficient", beta)
    if beta and source.flag("sync_ref_model"):
        sync_steps, mixup_alpha = source.get("ref_model_sync_steps"), source.get("ref_model_mixup_alpha")
        reason = f"every {sync_steps} updates the reference moves by {mixup_alpha}; kl.reset_every_steps here drops the optimiser's moments"
        out.cannot("sync_ref_model", True, reason)


def _model(source: Settings, out: Translation) -> None:
    if (seed := source.number("seed")) is not None:
        out.set("seed", seed)
    dataset, path = (source.get("dataset_name"), source.text("model_name_or_path", source.text("_name_or_path")))
    if dataset is not None:
        out.cannot("dataset_name", dataset, "choose task=, or task=dataset with task.source, revision, fields")
    rank = (source.count("lora_r") or _LORA_RANK) if source.flag("use_peft") else 0
    targets = source.names("lora_target_modules")
    if rank and not targets:
        out.cannot("lora_target_modules", "null", "peft adapts what it has for the model's type; here all-linear")
    if rank and "lora_dropout" not in source:
        out.cannot("lora_dropout", 0.05, "TRL's default; adapters have none here")
    if path:
        dialect.set_model(path, rank, source.number("lora_alpha", 32.0), targets, out)
        out.set("engine", "vllm" if source.flag("use_vllm") else "transformers")
        if revision := source.text("model_revision"):
            out.set("model.revision", revision)
    elif rank:
        out.cannot("lora_r", rank, "an adapter needs the model; give model_name_or_path")


def _release(source: Settings, out: Translation) -> None:
    """Name what the release that trained did otherwise, where the file tells it."""
    release = re.match(r"(\d+)\.(\d+)\.?(\d*)", str(source.get("trl_version")))
    accumulated, generated = source.count("gradient_accumulation_steps"), source.count("steps_per_generation")
    is_old = release is not None and (0, 22, 0) <= tuple(int(part or 0) for part in release.groups()) < (1, 9, 1)
    if is_old and source.get("loss_type") in ("dapo", "cispo", "vespo") and accumulated and generated:
        out.notes.append(f"TRL {source.get('trl_version')} multiplies this loss by {accumulated / generated:g}")

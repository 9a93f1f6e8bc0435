"""TRL's `GRPOConfig` (1.16). Batches are counted in responses per device, warm-up in optimiser steps; written for one device.

Fixed in TRL: group statistics with ddof 1 and epsilon 1e-4; the KL in the loss, k3 times the ratio (its default since 1.16) or plain k3;
no dynamic sampling; the CISPO cap is `epsilon_high` itself. Its `scale_rewards="batch"` divides by the standard deviation of the batch's
*rewards*.
"""

from __future__ import annotations

from harness.configuration.families import AGGREGATION, SURROGATE
from harness.configuration.schema import RunConfig
from harness.exchange.dialects import Translation, note_rewards, their_keys, their_name
from harness.exchange.dialects import _trl_tables as tables
from harness.exchange.dialects._trl_back import overrides

__all__ = ["ALSO", "export", "overrides"]

ALSO = ("model_name_or_path", "dataset_name", "reward_funcs", "num_processes")


def export(config: RunConfig) -> Translation:
    """See the family's contract."""
    out = Translation()
    out.write(config, tables.SAME)
    out.refuse_others(config, tables.ONLY)
    for part in (_batches, _advantage, _loss, _kl, _overlong, _correction, note_rewards):
        part(config, out)
    if config.algorithm.top_entropy_fraction < 1:
        out.notes.append(
            "TRL ranks the tokens of an update by the current policy's entropy, here those of a rollout step by the sampling policy's"
        )
    _entropy(config, out)
    return out


def _entropy(config: RunConfig, out: Translation) -> None:
    algorithm = config.algorithm
    means = algorithm.aggregation.kind == "batch_token_mean" and algorithm.top_entropy_fraction == 1
    if algorithm.entropy_coefficient and not means:
        reason = "TRL's bonus is a mean over the tokens that train, here it is aggregated like the policy loss, over all tokens"
        out.cannot("algorithm.entropy_coefficient", algorithm.entropy_coefficient, reason)


def _batches(config: RunConfig, out: Translation) -> None:
    algorithm, optimizer = config.algorithm, config.optimizer
    warmup, least = optimizer.warmup_steps, optimizer.final_share
    falls = f"{optimizer.decay}_with_min_lr" if least else optimizer.decay
    stays = "constant_with_warmup" if warmup else "constant"
    responses = algorithm.prompts_per_step * algorithm.responses_per_prompt
    updates = algorithm.updates_per_step * algorithm.epochs_per_step
    out.settings |= {
        "generation_batch_size": responses,
        "per_device_train_batch_size": responses // algorithm.updates_per_step,
        "gradient_accumulation_steps": 1,
        "max_steps": config.training.steps * updates,
        "lr_scheduler_type": stays if optimizer.decay == "none" else falls,
        "warmup_steps": warmup * updates,
    }
    if least and optimizer.decay == "cosine":
        out.settings["lr_scheduler_kwargs"] = {"min_lr_rate": least}
    elif least and optimizer.decay != "none":
        out.cannot("optimizer.final_share", least, "transformers' linear schedule ends at 0")
    out.notes.append(
        "per_device_train_batch_size counts responses of one update on one device; max_steps counts optimiser updates"
    )
    if warmup:
        out.notes.append(
            "warmup_steps counts optimiser updates there and rises with every update, here with every rollout step"
        )
    if algorithm.responses_per_prompt == 1:
        out.cannot("algorithm.responses_per_prompt", 1, "GRPOTrainer needs at least 2 generations")


def _advantage(config: RunConfig, out: Translation) -> None:
    advantage = config.algorithm.advantage
    if advantage.kind == "decoupled":
        out.settings |= {
            "multi_objective_aggregation": "normalize_then_sum",
            "reward_weights": [getattr(advantage, f"{name}_weight") for name in tables.COMPONENTS],
        }
        out.notes.append(
            f"reward_weights are for reward functions in the order {', '.join(tables.COMPONENTS)}"
        )
        out.refuse_others(config, tables.DECOUPLED)
    elif advantage.kind != "group":
        out.cannot("algorithm.advantage.kind", advantage.kind, "GRPOTrainer has the group estimators only")
        return
    else:
        out.refuse_others(config, tables.GROUP)
        if advantage.scale == "batch_reward_std":
            out.refuse_others(config, tables.BATCH)
        if advantage.scale in tables.SCALE:
            out.settings["scale_rewards"] = tables.SCALE[advantage.scale]
        else:
            reason = "TRL's batch scale is that of the rewards (batch_reward_std)"
            out.cannot("algorithm.advantage.scale", advantage.scale, reason)
    if out.settings.get("scale_rewards") != "none":  # else nothing is divided
        out.refuse_others(config, tables.NORMALISATION)


def _loss(config: RunConfig, out: Translation) -> None:
    surrogate, aggregation = config.algorithm.surrogate, config.algorithm.aggregation
    loss = their_name(tables.ME, SURROGATE, surrogate)
    if loss is None:
        _aggregation(config, out)
        if surrogate.kind == "policy_gradient" and surrogate.importance_weighted:
            out.settings |= {"epsilon": 1.0, "epsilon_high": tables.NO_CLIP, "delta": None}
            out.notes.append("no clip is written as bounds that no ratio reaches")
        elif surrogate.kind != "ppo_clip":
            reason = "GRPOTrainer has no such loss (one update per rollout makes plain REINFORCE)"
            out.cannot("algorithm.surrogate", surrogate.kind, reason)
    else:
        out.settings["loss_type"], needs = loss, tables.FIXED_AGGREGATION[loss]
        if aggregation.kind != needs:
            out.cannot("algorithm.aggregation", aggregation.kind, f"TRL's {loss} is {needs}")
    out.write(config, their_keys(tables.ME, SURROGATE, surrogate.kind))
    if surrogate.kind == "ppo_clip" and surrogate.dual_clip and surrogate.dual_clip < 1 + surrogate.clip_high:
        reason = "below 1 + clip_high TRL's delta bounds the ratio of positive advantages, too"
        out.cannot("algorithm.surrogate.dual_clip", surrogate.dual_clip, reason)
    if out.settings.get("loss_type") in ("dapo", "cispo", "vespo") and config.algorithm.updates_per_step > 1:
        out.notes.append(
            "TRL divides every update by the mean number of tokens of the step's updates, ours by its own"
        )
    if loss == "cispo":
        out.notes.append("epsilon_high is the cap itself for cispo, not an offset from 1")
        out.refuse_others(config, tables.CISPO)


def _aggregation(config: RunConfig, out: Translation) -> None:
    aggregation, cap = config.algorithm.aggregation, config.sampling.max_response_tokens
    loss = their_name(tables.ME, AGGREGATION, aggregation)
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
    if loss == "bnpo" and aggregation.micro_batch_responses:
        whole, size = out.settings["per_device_train_batch_size"], aggregation.micro_batch_responses
        out.settings |= {
            "per_device_train_batch_size": size,
            "gradient_accumulation_steps": -(-whole // size),
        }
        if whole % size:
            out.cannot(
                "algorithm.aggregation.micro_batch_responses", size, f"an update has {whole} responses"
            )
    elif loss == "bnpo":
        reason = "bnpo's micro-batch is per_device_train_batch_size responses"
        out.cannot("algorithm.aggregation.micro_batch_tokens", aggregation.micro_batch_tokens, reason)
    out.settings["loss_type"] = loss


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
        if abs(buffer - cap * overlong.buffer_fraction) > 1e-6 or buffer < 1:
            said = f"{cap * overlong.buffer_fraction:g} tokens of {cap}"
            out.cannot("algorithm.overlong.buffer_fraction", overlong.buffer_fraction, said)
        out.notes.append(
            f"add the reward function get_soft_overlong_punishment(max_completion_len={cap}, soft_punish_cache={buffer})"
        )
        if overlong.shape != "additive" or overlong.penalty != 1:
            said = f"{overlong.shape}, penalty {overlong.penalty:g}"
            out.cannot("algorithm.overlong", said, "TRL's punishment is added, at most -1")


def _correction(config: RunConfig, out: Translation) -> None:
    correction = config.algorithm.engine_correction
    if correction.old_log_probs == "sampler":
        out.notes.append(
            "old_log_probs=sampler: TRL's ratio is to log-probabilities of the trainer itself, a rounding apart"
        )
    out.settings["vllm_importance_sampling_correction"] = correction.kind != "none"
    if correction.kind != "none":
        out.settings["use_vllm"] = True
    if correction.kind in tables.CORRECTIONS:
        out.settings |= {
            "vllm_importance_sampling_mode": tables.CORRECTIONS[correction.kind],
            "vllm_importance_sampling_clip_max": correction.cap,
            "vllm_importance_sampling_clip_min": correction.floor or None,
        }
    elif correction.kind == "none":
        out.notes.append("vllm_importance_sampling_correction is on by default in TRL, here it is off")
    else:
        reason = "TRL has no geometric mean of a response's weights"
        out.cannot("algorithm.engine_correction.kind", correction.kind, reason)

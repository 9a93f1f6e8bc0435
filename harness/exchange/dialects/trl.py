"""TRL's `GRPOConfig` (1.16). Batches are counted in responses per device, warm-up in optimiser steps; written for one device.

Fixed in TRL: group statistics with ddof 1 and epsilon 1e-4; the KL in the loss, k3 times the ratio (its default since 1.16) or plain k3;
no dynamic sampling; the CISPO cap is `epsilon_high` itself. Its `scale_rewards="batch"` divides by the standard deviation of the batch's
*rewards*.
"""

from __future__ import annotations

from typing import Any

from harness.configuration.algorithm import EntropyControl
from harness.configuration.schema import RunConfig
from harness.exchange.dialects import Translation, refuse_studies, say_run
from harness.exchange.dialects._trl_back import overrides
from harness.exchange.dialects._trl_names import CORRECTIONS, EPSILON, LOSS, NO_CLIP, SCALE, SMOOTH

__all__ = ["export", "overrides"]


def export(config: RunConfig) -> Translation:
    """See the family's contract."""
    out = Translation()
    for part in (_batches, _optimizer, _advantage, _loss, _kl, _rewards, _sampling, refuse_studies):
        part(config, out)
    say_run(
        config,
        out,
        "TRL",
        ends="GRPOTrainer has no setting of its own for them; its generation_kwargs go to the engine as they are",
    )
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
        if advantage.scale in SCALE:
            out.settings["scale_rewards"] = SCALE[advantage.scale]
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
        if advantage.epsilon != EPSILON:
            out.cannot("algorithm.advantage.epsilon", advantage.epsilon, f"TRL adds {EPSILON:g}")


def _loss(config: RunConfig, out: Translation) -> None:
    algorithm, surrogate = config.algorithm, config.algorithm.surrogate
    out.settings["importance_sampling_level"] = algorithm.importance_ratio
    if algorithm.top_entropy_fraction < 1:
        out.settings["top_entropy_quantile"] = algorithm.top_entropy_fraction
        out.notes.append("TRL ranks tokens by the current policy's entropy, here it is the sampling policy's")
    if algorithm.off_policy_mask_nats is not None:
        out.settings["off_policy_mask_threshold"] = algorithm.off_policy_mask_nats
    if surrogate.kind in SMOOTH:
        _smooth(config, out)
    elif surrogate.kind == "clipped_is":
        _bounded_weight(config, out)
    else:
        _aggregation(config, out)
        _clip(surrogate, out)


def _bounded_weight(config: RunConfig, out: Translation) -> None:
    surrogate, aggregation = config.algorithm.surrogate, config.algorithm.aggregation
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


def _aggregation(config: RunConfig, out: Translation) -> None:
    aggregation, cap = config.algorithm.aggregation, config.sampling.max_response_tokens
    if aggregation.kind not in LOSS:
        out.cannot(
            "algorithm.aggregation",
            aggregation.kind,
            "TRL has neither a token mean per prompt group nor a plain sum; nearest: loss_type=dapo",
        )
        return
    out.settings["loss_type"] = LOSS[aggregation.kind]
    if aggregation.kind == "constant_sum":
        constant = aggregation.constant_tokens
        if constant == 1 and config.algorithm.importance_ratio == "sequence":
            out.settings["loss_type"] = "luspo"
        elif constant != cap:
            out.cannot(
                "algorithm.aggregation.constant_tokens", constant, "TRL divides by max_completion_length"
            )
    if aggregation.kind == "microbatch_token_mean":
        out.cannot(
            "algorithm.aggregation.micro_batch_tokens", aggregation.micro_batch_tokens,
            "bnpo's micro-batch is per_device_train_batch_size responses",
        )  # fmt: skip


def _clip(surrogate: Any, out: Translation) -> None:
    if surrogate.kind == "ppo_clip":
        out.settings |= {
            "epsilon": surrogate.clip_low,
            "epsilon_high": surrogate.clip_high,
            "delta": surrogate.dual_clip,
        }
    elif surrogate.kind == "policy_gradient" and surrogate.importance_weighted:
        out.settings |= {"epsilon": 1.0, "epsilon_high": NO_CLIP, "delta": None}
        out.notes.append("no clip is written as bounds that no ratio reaches")
    else:
        out.cannot(
            "algorithm.surrogate",
            surrogate.kind,
            "GRPOTrainer has no such loss (one update per rollout makes plain REINFORCE)",
        )


def _smooth(config: RunConfig, out: Translation) -> None:
    """Losses whose aggregation TRL fixes."""
    surrogate, aggregation = config.algorithm.surrogate, config.algorithm.aggregation
    kind, needs, names = SMOOTH[surrogate.kind]
    out.settings |= {"loss_type": kind} | {theirs: getattr(surrogate, ours) for ours, theirs in names.items()}
    if aggregation.kind != needs:
        out.cannot("algorithm.aggregation", aggregation.kind, f"TRL's {kind} is {needs}")


def _kl(config: RunConfig, out: Translation) -> None:
    kl = config.algorithm.kl
    if kl.coefficient and kl.reset_every_steps:
        out.cannot(
            "algorithm.kl.reset_every_steps",
            kl.reset_every_steps,
            "TRL's sync_ref_model moves the reference and keeps the optimiser's moments",
        )
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
    _entropy(config, out)


def _entropy(config: RunConfig, out: Translation) -> None:
    algorithm = config.algorithm
    if algorithm.entropy_control != EntropyControl():
        out.cannot(
            "algorithm.entropy_control",
            algorithm.entropy_control,
            "TRL's use_adaptive_entropy moves the coefficient once an optimiser update by the current policy's entropy, here it is "
            "moved once a rollout step by the sampling policy's",
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
            "vllm_importance_sampling_mode": CORRECTIONS[correction.kind],
            "vllm_importance_sampling_clip_max": correction.cap,
            "vllm_importance_sampling_clip_min": correction.floor or None,
        }
    else:
        out.notes.append("vllm_importance_sampling_correction is on by default in TRL, here it is off")

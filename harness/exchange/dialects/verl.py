"""verl's Hydra keys, as its version 0.9.1 reads them. Batches are counted in prompts (multiplied by `rollout.n` inside).

Fixed in verl: ddof 1 and epsilon 1e-6 in the group estimator, whitening over tokens in REINFORCE++ and GDPO, a dual clip that cannot be
switched off (a constant that no ratio reaches stands for none). Clip bounds of `cispo` are offsets from 1. Its actor clips gradients at
`optim.clip_grad`; `actor.grad_clip` is read by nothing.
"""

from __future__ import annotations

from typing import Any

from harness.configuration.families import ADVANTAGE, AGGREGATION, KL, SURROGATE
from harness.configuration.schema import RunConfig
from harness.exchange.dialects import Translation, note_rewards, their_keys, their_name
from harness.exchange.dialects import _verl_tables as tables
from harness.exchange.dialects._verl_back import overrides
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
)

__all__ = ["ALSO", "export", "overrides"]

ALSO = ("data.val_files", f"{OPTIMIZER}.weight_decay", f"{OPTIMIZER}.betas")


def export(config: RunConfig) -> Translation:
    """See the family's contract."""
    out = Translation()
    out.write(config, tables.SAME)
    out.refuse_others(config, tables.ONLY)
    parts = (
        _batches,
        _warmup,
        _advantage,
        _aggregation,
        _surrogate,
        _sequence_ratio,
        _kl,
        _overlong,
        _dead_groups,
    )
    for part in (*parts, _correction, note_rewards):
        part(config, out)
    return out


def _batches(config: RunConfig, out: Translation) -> None:
    algorithm, optimizer = config.algorithm, config.optimizer
    out.settings |= {
        f"{ROLLOUT}.top_k": config.sampling.top_k or -1,
        f"{ACTOR}.ppo_mini_batch_size": algorithm.prompts_per_step // algorithm.updates_per_step,
        f"{OPTIMIZER}.betas": [optimizer.beta1, optimizer.beta2],
        f"{OPTIMIZER}.clip_grad": optimizer.max_gradient_norm,
    }
    out.notes.append("train_batch_size and ppo_mini_batch_size count prompts; verl multiplies by rollout.n")
    if algorithm.updates_per_step > 1:
        out.notes.append(
            "verl deals the responses of a step out to its GPUs by length, so its updates take no whole groups; ours do"
        )


def _warmup(config: RunConfig, out: Translation) -> None:
    optimizer = config.optimizer
    steps = optimizer.warmup_steps
    out.settings[tables.WARMUP] = steps
    if optimizer.decay == "cosine":
        out.settings |= {
            f"{OPTIMIZER}.lr_scheduler_type": "cosine",
            f"{OPTIMIZER}.min_lr_ratio": optimizer.final_share,
        }
    elif optimizer.decay != "none":
        out.cannot("optimizer.decay", optimizer.decay, "verl's learning rate stays or falls as a cosine")
    if steps:
        out.deviations["warmup_from_zero"] = (
            f"optimizer.warmup_steps={steps}: rollout step s has (s - 1)/{steps} of the learning rate in verl (the first changes "
            f"nothing), s/{steps} here"
        )


def _advantage(config: RunConfig, out: Translation) -> None:
    advantage = config.algorithm.advantage
    estimator = their_name(ME, ADVANTAGE, advantage)
    if estimator is None and advantage.kind != "group":
        out.cannot("algorithm.advantage.kind", advantage.kind, "verl has no such estimator")
        return
    if estimator is None or (estimator == "grpo" and advantage.scale not in ("group_std", "none")):
        together = f"{advantage.baseline}, {advantage.scale}"
        out.cannot("algorithm.advantage", together, "verl has no such baseline and scale together")
        estimator = "grpo"
    elif estimator == "grpo":
        out.settings["algorithm.norm_adv_by_std_in_grpo"] = advantage.scale == "group_std"
    out.settings["algorithm.adv_estimator"] = estimator
    if estimator != "grpo" or advantage.scale == "group_std":  # else nothing is divided
        out.refuse_others(config, tables.ESTIMATOR[estimator])
    if advantage.kind == "group" and config.algorithm.responses_per_prompt == 1:
        if advantage.baseline != "none":
            out.cannot("algorithm.responses_per_prompt", 1, "verl subtracts no baseline from a group of one")
    elif estimator == "gdpo":
        _decoupled(advantage, out)
    elif estimator == "gae":
        _gae(config, out)


def _decoupled(advantage: Any, out: Translation) -> None:
    out.settings |= {
        tables.GDPO_KEYS: list(tables.COMPONENTS),
        tables.GDPO_WEIGHTS: [getattr(advantage, f"{name}_weight") for name in tables.COMPONENTS],
    }
    out.notes += [
        "verl's gdpo whitens the sum over tokens, here it is divided over sequences",
        f"gdpo_reward_keys: compute_score must return these rewards ({', '.join(tables.COMPONENTS)}) beside the score",
    ]


def _gae(config: RunConfig, out: Translation) -> None:
    advantage = config.algorithm.advantage
    clip = advantage.critic.value_clip
    out.write(config, tables.GAE)
    out.settings["critic.cliprange_value"] = NO_CLIP if clip is None else clip
    out.notes.append("verl's critic begins with a random head, ours with zeros")
    if advantage.lambda_value != advantage.lambda_policy:
        out.cannot("algorithm.advantage.lambda_value", advantage.lambda_value, "verl has one lambda")


def _aggregation(config: RunConfig, out: Translation) -> None:
    aggregation = config.algorithm.aggregation
    mode = their_name(ME, AGGREGATION, aggregation)
    if mode is None:
        reason = "verl has no such scope (its legacy code had micro-batches)"
        out.cannot("algorithm.aggregation", aggregation.kind, reason)
        return
    out.settings[f"{ACTOR}.loss_agg_mode"] = mode
    if aggregation.kind == "constant_sum":
        constant = aggregation.constant_tokens
        out.settings[f"{ACTOR}.loss_scale_factor"] = int(constant) if constant == int(constant) else constant


def _surrogate(config: RunConfig, out: Translation) -> None:
    surrogate, ratio = config.algorithm.surrogate, config.algorithm.importance_ratio
    unclipped = surrogate.kind == "policy_gradient" and surrogate.importance_weighted
    mode = "vanilla" if unclipped else their_name(ME, SURROGATE, surrogate)
    if mode is None:
        out.cannot("algorithm.surrogate", surrogate.kind, "verl's actor has no such loss")
        return
    out.write(config, their_keys(ME, SURROGATE, surrogate.kind, f"{ACTOR}."))
    if ratio == "sequence" and mode == "vanilla":
        mode = "gspo"
    elif ratio == "sequence":
        out.cannot("algorithm.importance_ratio", ratio, f"verl's {mode} has no sequence ratio")
    out.settings[f"{ACTOR}.policy_loss.loss_mode"] = mode
    needs = tables.FIXED_AGGREGATION.get(mode)
    if needs and config.algorithm.aggregation.kind != needs:
        out.cannot("algorithm.aggregation", config.algorithm.aggregation.kind, f"verl's {mode} is {needs}")
    if unclipped:
        low, high, dual = (f"{ACTOR}.clip_ratio_{name}" for name in ("low", "high", "c"))
        out.settings |= {low: 1.0, high: NO_CLIP, dual: NO_CLIP}
    elif surrogate.kind == "ppo_clip":
        out.settings[f"{ACTOR}.clip_ratio"] = surrogate.clip_low
        out.settings[f"{ACTOR}.clip_ratio_c"] = surrogate.dual_clip or NO_CLIP
        if mode == "gspo" and surrogate.dual_clip is not None:
            out.cannot("algorithm.surrogate.dual_clip", surrogate.dual_clip, "verl's gspo has no dual clip")
    elif mode == "cispo":
        out.settings[f"{ACTOR}.clip_ratio_low"] = 1 - surrogate.cap_min
        out.settings[f"{ACTOR}.clip_ratio_high"] = surrogate.cap_max - 1
        out.notes.append(
            "cispo's bounds are offsets from 1: cap_min = 1 - clip_ratio_low, cap_max = 1 + clip_ratio_high"
        )
    elif mode in ("clip_cov", "kl_cov"):
        out.deviations["selection_per_micro_batch"] = (
            f"algorithm.surrogate={mode}: verl centres the covariance and counts its share of tokens in every micro-batch, at least one "
            "token in each; here over the optimiser update"
        )


def _sequence_ratio(config: RunConfig, out: Translation) -> None:
    """Refuse gspo where the tokens of a response have advantages of their own: a critic's, or less a penalty token by token."""
    algorithm = config.algorithm
    in_reward = algorithm.kl.coefficient > 0 and algorithm.kl.placement == "reward"
    varies = algorithm.advantage.kind == "gae" or (algorithm.advantage.kind == "return_to_go" and in_reward)
    if varies and out.settings.get(f"{ACTOR}.policy_loss.loss_mode") == "gspo":
        reason = "verl's gspo weighs each token's gradient by its own advantage, here all of a response's by their mean"
        out.cannot("algorithm.advantage.kind", algorithm.advantage.kind, reason)


def _kl(config: RunConfig, out: Translation) -> None:
    kl = config.algorithm.kl
    if kl.coefficient and kl.reset_every_steps:
        out.cannot("algorithm.kl.reset_every_steps", kl.reset_every_steps, "verl keeps its reference policy")
    for place, (switch, coefficient, estimator, _) in tables.KL_PLACES.items():
        used = kl.coefficient > 0 and kl.placement == place
        out.settings[switch] = used
        if used and (name := their_name(ME, KL, kl)):
            out.settings |= {coefficient: kl.coefficient, estimator: name}
            if name.startswith("low_var_kl"):
                out.notes.append(
                    "verl holds low_var_kl within 10: beyond 2.6 nats between reference and policy it has no gradient there"
                )
        elif used:
            reason = "verl weights no KL estimate by the ratio; nearest: low_var_kl (k3)"
            out.cannot("algorithm.kl", kl.kind, reason)


def _overlong(config: RunConfig, out: Translation) -> None:
    cap, overlong = config.sampling.max_response_tokens, config.algorithm.overlong
    if overlong.punishes:
        buffer = cap * overlong.buffer_fraction
        out.settings |= {
            "reward.reward_manager.name": "dapo",
            f"{OVERLONG}.enable": True,
            f"{OVERLONG}.len": round(buffer),
            f"{OVERLONG}.penalty_factor": overlong.penalty,
            f"{OVERLONG}.log": False,
            "reward.reward_kwargs.max_resp_len": cap,
        }
        if abs(buffer - round(buffer)) > 1e-6 or round(buffer) < 1:
            said = f"{buffer:g} tokens of {cap}"
            out.cannot("algorithm.overlong.buffer_fraction", overlong.buffer_fraction, said)
        if overlong.shape != "additive":
            out.cannot("algorithm.overlong.shape", overlong.shape, "verl's punishment is added")
    if overlong.masks:
        out.cannot("algorithm.overlong.policy", overlong.policy, "verl has no overlong filtering")
    if overlong.policy == "wrong":
        out.cannot(
            "algorithm.overlong.policy", "wrong", "verl's reward function is not told what was truncated"
        )


def _dead_groups(config: RunConfig, out: Translation) -> None:
    dead = config.algorithm.dead_groups
    out.settings[f"{FILTER}.enable"] = dead.policy == "refill"
    if dead.policy == "drop":
        out.cannot("algorithm.dead_groups.policy", "drop", "verl drops groups only with refill")
    if dead.policy != "refill":
        return
    out.settings[f"{FILTER}.metric"] = tables.METRIC[dead.metric]
    out.settings[f"{FILTER}.max_num_gen_batches"] = dead.max_rounds
    if dead.surplus == "carry":
        out.cannot("algorithm.dead_groups.surplus", "carry", "verl discards surplus groups")
    out.deviations["unbounded_refill"] = (
        f"algorithm.dead_groups.max_rounds={dead.max_rounds}: verl's own trainer ignores max_num_gen_batches and refills until the "
        "batch is full (its DAPO recipe raises there); here the step trains on what it has"
    )


def _correction(config: RunConfig, out: Translation) -> None:
    correction = config.algorithm.engine_correction
    # In bypass mode the sampler's log-probabilities are the old ones, as ours with old_log_probs=sampler.
    out.settings[f"{CORRECTION}.bypass_mode"] = correction.old_log_probs == "sampler"
    if correction.kind == "geometric_mask":
        reason = "verl's rollout_rs=seq_mean_k1 takes rejected responses out of the denominators, too"
        out.cannot("algorithm.engine_correction.kind", correction.kind, reason)
    elif correction.kind != "none":
        level, _, mask = correction.kind.partition("_")
        bounds = f"{correction.floor or NO_FLOOR:g}_{correction.cap:g}"  # two zero the weights outside
        out.settings |= {
            f"{CORRECTION}.rollout_is": level,
            f"{CORRECTION}.rollout_is_threshold": bounds if mask else correction.cap,  # one cuts those above
        }
        if correction.floor and not mask:
            reason = "verl cuts weights above the cap only"
            out.cannot("algorithm.engine_correction.floor", correction.floor, reason)

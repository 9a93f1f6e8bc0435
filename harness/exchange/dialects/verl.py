"""verl's Hydra keys, as its version 0.9.1 reads them. Batches are counted in prompts (multiplied by `rollout.n` inside).

Fixed in verl: ddof 1 and epsilon 1e-6 in the group estimator, whitening over tokens in REINFORCE++ and GDPO, a dual clip that cannot be
switched off (a constant that no ratio reaches stands for none). Clip bounds of `cispo` are offsets from 1. Its actor clips gradients at
`optim.clip_grad`; `actor.grad_clip` is read by nothing.
"""

from __future__ import annotations

from typing import Any

from harness.configuration.algorithm import EntropyControl
from harness.configuration.schema import RunConfig
from harness.exchange.dialects import Translation, refuse_studies, say_run
from harness.exchange.dialects._verl_back import overrides
from harness.exchange.dialects._verl_names import (
    ACTOR,
    AGGREGATION,
    COMPONENTS,
    CORRECTION,
    EPSILON,
    FILTER,
    GDPO_KEYS,
    GDPO_WEIGHTS,
    KL,
    LOSS_MODES,
    METRIC,
    NO_CLIP,
    NO_FLOOR,
    OPTIMIZER,
    OVERLONG,
    ROLLOUT,
    WHITEN_EPSILON,
)

__all__ = ["export", "overrides"]


def export(config: RunConfig) -> Translation:
    """See the family's contract."""
    out = Translation()
    parts = (
        _batches,
        _optimizer,
        _advantage,
        _loss,
        _masks,
        refuse_studies,
        _kl,
        _overlong,
        _dead_groups,
        _origin,
        _correction,
    )
    for part in parts:
        part(config, out)
    say_run(config, out, "verl", ends="verl's responses end at end tokens only")
    return out


def _batches(config: RunConfig, out: Translation) -> None:
    algorithm, sampling = config.algorithm, config.sampling
    out.settings |= {
        "data.train_batch_size": algorithm.prompts_per_step,
        "data.max_response_length": sampling.max_response_tokens,
        f"{ROLLOUT}.n": algorithm.responses_per_prompt,
        f"{ROLLOUT}.temperature": sampling.temperature,
        f"{ROLLOUT}.top_p": sampling.top_p,
        f"{ROLLOUT}.top_k": sampling.top_k or -1,
        f"{ACTOR}.ppo_mini_batch_size": algorithm.prompts_per_step // algorithm.updates_per_step,
        f"{ACTOR}.ppo_epochs": algorithm.epochs_per_step,
        "trainer.total_training_steps": config.training.steps,
    }
    out.notes.append("train_batch_size and ppo_mini_batch_size count prompts; verl multiplies by rollout.n")
    if sampling.lag_steps:
        out.cannot(
            "sampling.lag_steps",
            sampling.lag_steps,
            "verl's synchronous trainer samples from the newest policy",
        )
    if algorithm.updates_per_step > 1:
        out.notes.append(
            "verl deals the responses of a step out to its GPUs by length, so its updates take no whole groups; ours do"
        )


def _optimizer(config: RunConfig, out: Translation) -> None:
    optimizer = config.optimizer
    out.settings |= {
        f"{OPTIMIZER}.lr": optimizer.learning_rate,
        f"{OPTIMIZER}.betas": [optimizer.beta1, optimizer.beta2],
        f"{OPTIMIZER}.weight_decay": optimizer.weight_decay,
        f"{OPTIMIZER}.override_optimizer_config.eps": optimizer.epsilon,
        f"{OPTIMIZER}.lr_warmup_steps": optimizer.warmup_steps,
        f"{OPTIMIZER}.clip_grad": optimizer.max_gradient_norm,
    }
    if optimizer.warmup_steps:
        out.deviations["warmup_from_zero"] = (
            f"optimizer.warmup_steps={optimizer.warmup_steps}: rollout step s has (s - 1)/{optimizer.warmup_steps} of the learning "
            f"rate in verl (the first changes nothing), s/{optimizer.warmup_steps} here"
        )


def _advantage(config: RunConfig, out: Translation) -> None:
    advantage = config.algorithm.advantage
    if advantage.kind == "gae":
        _gae(advantage, out)
        return
    if advantage.kind == "return_to_go":
        name = "reinforce_plus_plus"
        if advantage.baseline != "none":
            out.cannot("algorithm.advantage.baseline", advantage.baseline, "reinforce_plus_plus has none")
        _whitening(advantage, out)
    elif advantage.kind == "decoupled":
        name = "gdpo"
        _decoupled(advantage, out)
    elif advantage.kind == "group":
        name = _group_estimator(advantage, out)
        if config.algorithm.responses_per_prompt == 1 and advantage.baseline != "none":
            out.cannot("algorithm.responses_per_prompt", 1, "verl subtracts no baseline from a group of one")
    else:
        out.cannot("algorithm.advantage.kind", advantage.kind, "verl has no such estimator")
        return
    out.settings["algorithm.adv_estimator"] = name


def _group_estimator(advantage: Any, out: Translation) -> str:
    pair = (advantage.baseline, advantage.scale)
    if pair in (("group_mean", "group_std"), ("group_mean", "none")):
        out.settings["algorithm.norm_adv_by_std_in_grpo"] = advantage.scale == "group_std"
        if advantage.scale == "group_std" and (advantage.ddof, advantage.epsilon) != (1, EPSILON):
            out.cannot(
                "algorithm.advantage",
                f"ddof {advantage.ddof}, epsilon {advantage.epsilon:g}",
                "verl has ddof 1 and 1e-6",
            )
        return "grpo"
    if pair == ("leave_one_out", "none"):
        return "rloo"
    if pair == ("group_mean", "batch_whiten"):
        _whitening(advantage, out)
        return "reinforce_plus_plus_baseline"
    out.cannot("algorithm.advantage", f"{pair[0]}, {pair[1]}", "verl has no such baseline and scale together")
    return "grpo"


def _decoupled(advantage: Any, out: Translation) -> None:
    out.settings |= {
        GDPO_KEYS: list(COMPONENTS),
        GDPO_WEIGHTS: [getattr(advantage, f"{name}_weight") for name in COMPONENTS],
    }
    out.notes += [
        "verl's gdpo whitens the sum over tokens, here it is divided over sequences",
        f"gdpo_reward_keys: compute_score must return these rewards ({', '.join(COMPONENTS)}) beside the score",
    ]
    if not advantage.batch_normalise:
        out.cannot("algorithm.advantage.batch_normalise", False, "verl's gdpo always whitens the sum")
    if advantage.ddof != 1:
        out.cannot("algorithm.advantage.ddof", advantage.ddof, "verl has ddof 1")
    if advantage.epsilon != EPSILON:
        out.cannot(
            "algorithm.advantage.epsilon",
            f"{advantage.epsilon:g}",
            f"verl adds {EPSILON:g} in a group and {WHITEN_EPSILON:g} in the whitening",
        )


def _whitening(advantage: Any, out: Translation) -> None:
    if advantage.whiten_over != "tokens":
        out.cannot(
            "algorithm.advantage.whiten_over",
            advantage.whiten_over,
            "verl whitens over tokens, which moves dead groups",
        )
    if (advantage.ddof, advantage.epsilon) != (1, WHITEN_EPSILON):
        out.cannot(
            "algorithm.advantage",
            f"ddof {advantage.ddof}, epsilon {advantage.epsilon:g}",
            "verl whitens with ddof 1 and 1e-8",
        )


def _gae(advantage: Any, out: Translation) -> None:
    critic = advantage.critic
    out.settings |= {
        "algorithm.adv_estimator": "gae",
        "algorithm.gamma": advantage.discount,
        "algorithm.lam": advantage.lambda_policy,
        "critic.optim.lr": critic.learning_rate,
        "critic.optim.clip_grad": critic.max_gradient_norm,
        "critic.cliprange_value": critic.value_clip if critic.value_clip is not None else 1e9,
        "trainer.critic_warmup": critic.warmup_steps,
    }
    out.notes.append("verl's critic begins with a random head, ours with zeros")
    if advantage.lambda_value != advantage.lambda_policy:
        out.cannot("algorithm.advantage.lambda_value", advantage.lambda_value, "verl has one lambda")
    if advantage.length_adaptive_alpha is not None:
        out.cannot(
            "algorithm.advantage.length_adaptive_alpha",
            advantage.length_adaptive_alpha,
            "verl's lambda is fixed",
        )
    _whitening(advantage, out)


def _loss(config: RunConfig, out: Translation) -> None:
    algorithm, aggregation = config.algorithm, config.algorithm.aggregation
    if aggregation.kind in AGGREGATION:
        out.settings[f"{ACTOR}.loss_agg_mode"] = AGGREGATION[aggregation.kind]
    else:
        out.cannot(
            "algorithm.aggregation",
            aggregation.kind,
            "verl has no such scope (its legacy code had micro-batches)",
        )
    if aggregation.kind == "constant_sum":
        constant = aggregation.constant_tokens
        out.settings[f"{ACTOR}.loss_scale_factor"] = int(constant) if constant == int(constant) else constant
    _surrogate(config, out)
    out.settings[f"{ACTOR}.entropy_coeff"] = algorithm.entropy_coefficient
    if algorithm.positive_nll_coefficient:
        out.cannot(
            "algorithm.positive_nll_coefficient",
            algorithm.positive_nll_coefficient,
            "verl has no likelihood term",
        )


def _surrogate(config: RunConfig, out: Translation) -> None:
    surrogate, ratio = config.algorithm.surrogate, config.algorithm.importance_ratio
    if surrogate.kind == "ppo_clip":
        mode = "gspo" if ratio == "sequence" else "vanilla"
        out.settings |= {
            f"{ACTOR}.clip_ratio": surrogate.clip_low,
            f"{ACTOR}.clip_ratio_low": surrogate.clip_low,
            f"{ACTOR}.clip_ratio_high": surrogate.clip_high,
            f"{ACTOR}.clip_ratio_c": surrogate.dual_clip or NO_CLIP,
        }
        if mode == "gspo" and surrogate.dual_clip is not None:
            out.cannot("algorithm.surrogate.dual_clip", surrogate.dual_clip, "verl's gspo has no dual clip")
    elif surrogate.kind == "clipped_is":
        mode = "cispo"
        out.settings |= {
            f"{ACTOR}.clip_ratio_low": 1 - surrogate.cap_min,
            f"{ACTOR}.clip_ratio_high": surrogate.cap_max - 1,
        }
        out.notes.append(
            "cispo's bounds are offsets from 1: cap_min = 1 - clip_ratio_low, cap_max = 1 + clip_ratio_high"
        )
    elif surrogate.kind in LOSS_MODES:
        mode = _other_loss(config, out)
    elif surrogate.kind == "policy_gradient" and surrogate.importance_weighted:
        mode = "gspo" if ratio == "sequence" else "vanilla"
        out.settings |= {
            f"{ACTOR}.clip_ratio_low": 1.0,
            f"{ACTOR}.clip_ratio_high": NO_CLIP,
            f"{ACTOR}.clip_ratio_c": NO_CLIP,
        }
    elif surrogate.kind == "policy_gradient":
        mode = "gpg"
    else:
        out.cannot("algorithm.surrogate", surrogate.kind, "verl's actor has no such loss")
        return
    if ratio == "sequence" and mode not in ("vanilla", "gspo"):
        out.cannot("algorithm.importance_ratio", ratio, f"verl's {mode} has no sequence ratio")
    out.settings[f"{ACTOR}.policy_loss.loss_mode"] = mode


def _other_loss(config: RunConfig, out: Translation) -> str:
    """The mode of a surrogate with keys of its own; some fix the aggregation."""
    surrogate, aggregation = config.algorithm.surrogate, config.algorithm.aggregation
    modes, needs, names = LOSS_MODES[surrogate.kind]
    mode = modes[getattr(surrogate, "divergence", "")]
    out.settings |= {f"{ACTOR}.{theirs}": getattr(surrogate, ours) for ours, theirs in names.items()}
    if needs and aggregation.kind != needs:
        out.cannot("algorithm.aggregation", aggregation.kind, f"verl's {mode} is {needs}")
    if mode in ("clip_cov", "kl_cov"):
        out.deviations["selection_per_micro_batch"] = (
            f"algorithm.surrogate={mode}: verl centres the covariance and counts its share of tokens in every micro-batch, at least one "
            "token in each; here over the optimiser update"
        )
    return mode


def _masks(config: RunConfig, out: Translation) -> None:
    algorithm = config.algorithm
    if algorithm.top_entropy_fraction < 1:
        reason = "verl masks no tokens by entropy"
        out.cannot("algorithm.top_entropy_fraction", algorithm.top_entropy_fraction, reason)
    if algorithm.entropy_control != EntropyControl():
        out.cannot(
            "algorithm.entropy_control", algorithm.entropy_control, "verl's entropy coefficient is constant"
        )
    if algorithm.off_policy_mask_nats is not None:
        out.cannot(
            "algorithm.off_policy_mask_nats",
            algorithm.off_policy_mask_nats,
            "verl's rejection knows no sign of the advantage",
        )


def _kl(config: RunConfig, out: Translation) -> None:
    kl = config.algorithm.kl
    if kl.coefficient and kl.reset_every_steps:
        out.cannot("algorithm.kl.reset_every_steps", kl.reset_every_steps, "verl keeps its reference policy")
    in_loss, in_reward = (kl.coefficient > 0 and kl.placement == place for place in ("loss", "reward"))
    out.settings |= {f"{ACTOR}.use_kl_loss": in_loss, "algorithm.use_kl_in_reward": in_reward}
    if in_loss and kl.kind not in KL:
        out.cannot(
            "algorithm.kl", kl.kind, "verl weights no KL estimate by the ratio; nearest: low_var_kl (k3)"
        )
    elif in_loss:
        out.settings |= {f"{ACTOR}.kl_loss_coef": kl.coefficient, f"{ACTOR}.kl_loss_type": KL[kl.kind]}
    if in_reward:
        out.settings |= {"algorithm.kl_ctrl.kl_coef": kl.coefficient, "algorithm.kl_penalty": KL[kl.kind]}


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
            out.cannot(
                "algorithm.overlong.buffer_fraction", overlong.buffer_fraction, f"{buffer:g} tokens of {cap}"
            )
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
    out.settings |= {
        f"{FILTER}.metric": METRIC[dead.metric],
        f"{FILTER}.max_num_gen_batches": dead.max_rounds,
    }
    if dead.surplus == "carry":
        out.cannot("algorithm.dead_groups.surplus", "carry", "verl discards surplus groups")
    out.deviations["unbounded_refill"] = (
        f"algorithm.dead_groups.max_rounds={dead.max_rounds}: verl's own trainer ignores max_num_gen_batches and refills until the "
        "batch is full (its DAPO recipe raises there); here the step trains on what it has"
    )


def _origin(config: RunConfig, out: Translation) -> None:
    algorithm = config.algorithm
    for key, value, usual in (
        ("curriculum", algorithm.curriculum.kind, "uniform"),
        ("source", algorithm.source.kind, "policy"),
    ):
        if value != usual:
            out.cannot(f"algorithm.{key}", value, f"verl has {usual} only")


def _correction(config: RunConfig, out: Translation) -> None:
    correction = config.algorithm.engine_correction
    # In bypass mode the sampler's log-probabilities are the old ones, as ours with old_log_probs=sampler.
    out.settings[f"{CORRECTION}.bypass_mode"] = correction.old_log_probs == "sampler"
    level, _, mask = correction.kind.partition("_")
    if correction.kind == "geometric_mask":
        out.cannot(
            "algorithm.engine_correction.kind",
            correction.kind,
            "verl's rollout_rs=seq_mean_k1 takes rejected responses out of the denominators, too",
        )
    elif correction.kind != "none":
        out.settings |= {
            f"{CORRECTION}.rollout_is": level,
            # Two bounds zero the weights outside, one cuts those above.
            f"{CORRECTION}.rollout_is_threshold": f"{correction.floor or NO_FLOOR:g}_{correction.cap:g}"
            if mask
            else correction.cap,
        }
        if correction.floor and not mask:
            out.cannot(
                "algorithm.engine_correction.floor", correction.floor, "verl cuts weights above the cap only"
            )

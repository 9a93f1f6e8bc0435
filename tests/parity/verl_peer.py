"""Runs in verl's own environment: its estimators, losses and KL penalties for cases read as JSON from standard input (no GPU)."""

from __future__ import annotations

import json
import sys
import types

import numpy as np
import torch
from verl.trainer.ppo import core_algos
from verl.workers.config import ActorConfig

ACTOR = "actor_rollout_ref.actor."
PLAIN = {
    "grpo": core_algos.compute_grpo_outcome_advantage,
    "rloo": core_algos.compute_rloo_outcome_advantage,
    "reinforce_plus_plus_baseline": core_algos.compute_reinforce_plus_plus_baseline_outcome_advantage,
}


class Actor(ActorConfig):
    """verl's configuration class with just what its losses read, past its own checks of batch sizes."""

    def __init__(self, settings):
        for key in ("clip_ratio", "clip_ratio_low", "clip_ratio_high", "clip_ratio_c"):
            object.__setattr__(self, key, settings.get(ACTOR + key, 0.2))
        batch = {"loss_scale_factor": settings.get(ACTOR + "loss_scale_factor")}
        object.__setattr__(self, "global_batch_info", batch)

    def get(self, key, default=None):
        return getattr(self, key, default)


def advantages(settings, tensors):
    name, mask = settings["algorithm.adv_estimator"], tensors["mask"]
    lengths = mask.sum(1).long()
    rewards = torch.zeros_like(mask)
    rewards[torch.arange(len(mask)), lengths - 1] = tensors["rewards"]
    if settings["algorithm.use_kl_in_reward"]:
        rewards = rewards - tensors["penalty"] * mask
    index = np.repeat(np.arange(len(mask) // 4), 4)
    if name in PLAIN:
        more = {}
        if name == "grpo":
            more["norm_adv_by_std_in_grpo"] = settings["algorithm.norm_adv_by_std_in_grpo"]
        return PLAIN[name](rewards.clone(), mask, index, **more)[0]
    if name == "reinforce_plus_plus":
        config = types.SimpleNamespace(gamma=1.0)
        return core_algos.compute_reinforce_plus_plus_outcome_advantage(rewards, mask, config=config)[0]
    return core_algos.compute_gae_advantage_return(
        rewards, tensors["values"] * mask, mask, settings["algorithm.gamma"], settings["algorithm.lam"]
    )[0]


def solve(case):
    settings = case["settings"]
    tensors = {key: torch.tensor(value, dtype=torch.float64) for key, value in case["tensors"].items()}
    mask, log_probs = tensors["mask"], tensors["log_probs"].requires_grad_()
    advantage, actor, mode = advantages(settings, tensors), Actor(settings), settings[ACTOR + "loss_agg_mode"]
    loss_of = core_algos.get_policy_loss_fn(settings[ACTOR + "policy_loss.loss_mode"])
    loss, _ = loss_of(tensors["old"], log_probs, advantage, mask, mode, actor)
    if settings[ACTOR + "use_kl_loss"]:
        kl = core_algos.kl_penalty(log_probs, tensors["reference"], settings[ACTOR + "kl_loss_type"])
        loss = loss + settings[ACTOR + "kl_loss_coef"] * core_algos.agg_loss(
            kl, mask, mode, **actor.global_batch_info
        )
    (slope,) = torch.autograd.grad(loss, log_probs)
    return {"loss": loss.item(), "gradient": slope.tolist()}


json.dump([solve(case) for case in json.load(sys.stdin)], sys.stdout)

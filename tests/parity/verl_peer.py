"""Runs in verl's own environment: its estimators, losses and KL penalties for cases read as JSON from standard input (no GPU).

Its configuration classes are filled with what was exported; everything else is their default. `policy_loss.rollout_correction` and the
batch information are put together as its trainer does.
"""

from __future__ import annotations

import dataclasses
import json
import sys

import numpy as np
import torch
from omegaconf import OmegaConf
from verl.trainer.config import AlgoConfig
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_weights
from verl.utils.import_utils import load_extern_type
from verl.workers.config import ActorConfig, PolicyLossConfig

ACTOR, ROLLOUT_N = "actor_rollout_ref.actor.", "actor_rollout_ref.rollout.n"
CORRECTION, SAMPLER = "algorithm.rollout_correction.", "trainer.v1.sampler."
PLAIN = {
    "grpo": core_algos.compute_grpo_outcome_advantage,
    "rloo": core_algos.compute_rloo_outcome_advantage,
    "opo": core_algos.compute_opo_outcome_advantage,
    "gpg": core_algos.compute_gpg_outcome_advantage,
    "reinforce_plus_plus_baseline": core_algos.compute_reinforce_plus_plus_baseline_outcome_advantage,
}


def section(settings, prefix, kind):
    """The exported keys of one section that its class knows."""
    names = {field.name for field in dataclasses.fields(kind)}
    given = {key.removeprefix(prefix): value for key, value in settings.items() if key.startswith(prefix)}
    return {key: value for key, value in given.items() if key in names}


def actor_config(settings, mask):
    """The actor's configuration, and the batch information that its trainer adds."""
    loss = PolicyLossConfig(**section(settings, ACTOR + "policy_loss.", PolicyLossConfig))
    given = section(settings, ACTOR, ActorConfig)
    surroundings = {"strategy": "fsdp", "ppo_micro_batch_size_per_gpu": 1, "rollout_n": settings[ROLLOUT_N]}
    actor = ActorConfig(policy_loss=loss, **given, **surroundings)
    actor.global_batch_info.update(
        dp_size=1, batch_num_tokens=mask.sum(), global_batch_size=len(mask), loss_scale_factor=actor.loss_scale_factor
    )
    return actor


def load_plugin(settings, index):
    """Our plugin as verl's trainer makes it, all groups counted: its estimator is in verl's registry after."""
    core_algos.ADV_ESTIMATOR_REGISTRY.pop(settings["algorithm.adv_estimator"], None)
    given = OmegaConf.create({})
    for key, value in settings.items():
        if key.startswith(SAMPLER):
            OmegaConf.update(given, key.removeprefix(SAMPLER), value)
    sampler = load_extern_type(given.custom_sampler.path, given.custom_sampler.name)(
        trainer_mode="sync", trainer_config={}, max_off_policy_threshold=None, max_off_policy_strategy="drop",
        sampler_kwargs=given.sampler_kwargs,
    )  # fmt: skip
    sampler._counted_uids = set(index)


def advantages(settings, tensors):
    config, mask = (
        AlgoConfig(**section(settings, "algorithm.", AlgoConfig) | {"rollout_correction": None}),
        tensors["loss_mask"],
    )
    lengths = tensors["mask"].sum(1).long()
    rewards = torch.zeros_like(mask)
    rewards[torch.arange(len(mask)), lengths - 1] = tensors["rewards"]
    if config.use_kl_in_reward:
        penalty = core_algos.kl_penalty(tensors["old"], tensors["reference"], config.kl_penalty)
        rewards = rewards - settings["algorithm.kl_ctrl.kl_coef"] * penalty * mask
    size = settings[ROLLOUT_N]
    index = np.repeat(np.arange(len(mask) // size), size)
    name = config.adv_estimator
    if SAMPLER + "custom_sampler.path" in settings:
        load_plugin(settings, index)
        return core_algos.get_adv_estimator_fn(name)(rewards, mask, index=index, config=config)[0]
    if name in PLAIN:
        more = {"norm_adv_by_std_in_grpo": config.norm_adv_by_std_in_grpo} if name == "grpo" else {}
        return PLAIN[name](rewards.clone(), mask, index, **more)[0]
    if name == "reinforce_plus_plus":
        return core_algos.compute_reinforce_plus_plus_outcome_advantage(rewards, mask, config=config)[0]
    return core_algos.compute_gae_advantage_return(rewards, tensors["values"] * mask, mask, config.gamma, config.lam)[0]


def solve(case):
    settings = case["settings"]
    tensors = {key: torch.tensor(value, dtype=torch.float64) for key, value in case["tensors"].items()}
    mask, log_probs = tensors["loss_mask"], tensors["log_probs"].requires_grad_()
    advantage, actor = advantages(settings, tensors), actor_config(settings, mask)
    weights = None
    if settings.get(CORRECTION + "rollout_is"):
        weights, _ = compute_rollout_correction_weights(
            tensors["old"] - tensors["sampler"],
            mask,
            settings[CORRECTION + "rollout_is"],
            settings[CORRECTION + "rollout_is_threshold"],
        )
    loss_of = core_algos.get_policy_loss_fn(actor.policy_loss.loss_mode)
    loss, _ = loss_of(tensors["old"], log_probs, advantage, mask.bool(), actor.loss_agg_mode, actor, weights)
    if actor.entropy_coeff:
        of_entropy = core_algos.agg_loss(tensors["entropy"], mask, actor.loss_agg_mode, **actor.global_batch_info)
        loss = loss - actor.entropy_coeff * of_entropy
    if actor.use_kl_loss:
        kl = core_algos.kl_penalty(log_probs, tensors["reference"], actor.kl_loss_type)
        loss = loss + actor.kl_loss_coef * core_algos.agg_loss(kl, mask, actor.loss_agg_mode, **actor.global_batch_info)
    (slope,) = torch.autograd.grad(loss, log_probs)
    return {"loss": loss.item(), "gradient": slope.tolist()}


json.dump([solve(case) for case in json.load(sys.stdin)], sys.stdout)

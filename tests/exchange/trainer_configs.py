"""Configurations as TRL 1.16 and verl 0.9.1 resolve them, with every part that has a counterpart here switched on."""

from __future__ import annotations

import functools
from typing import Any

from harness.configuration.compose import compose_run
from harness.configuration.schema import RunConfig
from harness.exchange import trl, verl

DIALECTS = {"trl": trl, "verl": verl}
ACTOR, ROLLOUT, CORRECTION = ("actor_rollout_ref.actor", "actor_rollout_ref.rollout", "algorithm.rollout_correction")
OVERLONG = "reward.reward_kwargs.overlong_buffer_cfg"

TRL: dict[str, Any] = {
    "num_generations": 8, "num_iterations": 1, "per_device_train_batch_size": 16, "gradient_accumulation_steps": 2,
    "generation_batch_size": 256, "steps_per_generation": 8, "max_steps": 400, "num_train_epochs": 3.0,
    "learning_rate": 1e-6, "adam_beta1": 0.9, "adam_beta2": 0.999, "adam_epsilon": 1e-8, "weight_decay": 0.1, "max_grad_norm": 1.0,
    "lr_scheduler_type": "cosine_with_min_lr", "lr_scheduler_kwargs.min_lr_rate": 0.1, "warmup_steps": 16,
    "max_completion_length": 1024, "temperature": 0.9, "top_p": 1.0, "top_k": 0, "min_p": None, "repetition_penalty": 1.0,
    "multi_objective_aggregation": "sum_then_normalize", "scale_rewards": "group", "reward_weights": [1.0],
    "mask_truncated_completions": True, "loss_type": "dapo", "importance_sampling_level": "token", "epsilon": 0.2,
    "epsilon_high": 0.28, "delta": 4.0, "top_entropy_quantile": 1.0, "entropy_coef": 0.001, "use_adaptive_entropy": False,
    "off_policy_mask_threshold": None, "beta": 0.04, "use_bias_correction_kl": False, "sync_ref_model": False, "use_vllm": True,
    "vllm_importance_sampling_correction": True, "vllm_importance_sampling_mode": "token_mask",
    "vllm_importance_sampling_clip_max": 3.0, "vllm_importance_sampling_clip_min": 0.5, "seed": 42, "bf16": True, "output_dir": "out",
    "save_steps": 500, "model_name_or_path": "Qwen/Qwen2.5-0.5B", "model_revision": "a" * 40, "dataset_name": "open-r1/x",
    "reward_funcs": ["accuracy"], "use_peft": True, "lora_r": 16, "lora_alpha": 32, "lora_target_modules": ["q_proj"],
}  # fmt: skip
VERL: dict[str, Any] = {
    "data.train_batch_size": 32, f"{ROLLOUT}.n": 8, f"{ACTOR}.ppo_mini_batch_size": 8, f"{ACTOR}.ppo_epochs": 1,
    "trainer.total_training_steps": 100, "trainer.total_epochs": 30, f"{ACTOR}.optim.lr": 1e-6, f"{ACTOR}.optim.betas": [0.9, 0.999],
    f"{ACTOR}.optim.weight_decay": 0.01, f"{ACTOR}.optim.override_optimizer_config.eps": 1e-8, f"{ACTOR}.optim.clip_grad": 1.0,
    f"{ACTOR}.grad_clip": 1.0, f"{ACTOR}.optim.lr_scheduler_type": "cosine", f"{ACTOR}.optim.min_lr_ratio": 0.1,
    f"{ACTOR}.optim.lr_warmup_steps": -1, f"{ACTOR}.optim.lr_warmup_steps_ratio": 0.1, "data.max_response_length": 1024,
    f"{ROLLOUT}.temperature": 1.0, f"{ROLLOUT}.top_p": 1.0, f"{ROLLOUT}.top_k": -1, f"{ROLLOUT}.multi_turn.enable": False,
    "data.max_prompt_length": 512, "algorithm.adv_estimator": "grpo", "algorithm.norm_adv_by_std_in_grpo": True,
    f"{ACTOR}.loss_agg_mode": "token-mean", f"{ACTOR}.policy_loss.loss_mode": "vanilla", f"{ACTOR}.clip_ratio": 0.2,
    f"{ACTOR}.clip_ratio_low": 0.2, f"{ACTOR}.clip_ratio_high": 0.28, f"{ACTOR}.clip_ratio_c": 10.0, f"{ACTOR}.entropy_coeff": 0.001,
    f"{ACTOR}.loss_scale_factor": 64, f"{ACTOR}.use_kl_loss": True, f"{ACTOR}.kl_loss_coef": 0.001, f"{ACTOR}.kl_loss_type": "low_var_kl",
    "algorithm.use_kl_in_reward": False, "algorithm.kl_ctrl.kl_coef": 0.01, "algorithm.kl_penalty": "kl",
    "algorithm.kl_ctrl.type": "fixed", "reward.reward_manager.name": "dapo", f"{OVERLONG}.enable": True, f"{OVERLONG}.len": 256,
    f"{OVERLONG}.penalty_factor": 1.0, "algorithm.filter_groups.enable": True, "algorithm.filter_groups.metric": "acc",
    "algorithm.filter_groups.max_num_gen_batches": 10, f"{CORRECTION}.bypass_mode": False, f"{CORRECTION}.loss_type": "ppo_clip",
    f"{CORRECTION}.rollout_is": "token", f"{CORRECTION}.rollout_is_threshold": 2.0, f"{CORRECTION}.rollout_rs": None,
    f"{CORRECTION}.rollout_is_batch_normalize": False,
    "trainer.v1.trainer_mode": "sync", "trainer.project_name": "x", "actor_rollout_ref.model.path": "Qwen/Qwen2.5-0.5B",
    "actor_rollout_ref.model.lora_rank": 8, "actor_rollout_ref.model.lora_alpha": 16,
    "actor_rollout_ref.model.target_modules": "all-linear", "data.train_files": "gsm8k/train.parquet",
    "algorithm.gdpo_reward_keys": ["outcome", "format"],
    "algorithm.gdpo_reward_weights": [1.0, 0.5], "algorithm.gamma": 1.0, "algorithm.lam": 0.95, "critic.optim.lr": 1e-5,
    "critic.optim.clip_grad": 1.0, "trainer.critic_warmup": 0, "critic.cliprange_value": 0.5,
}  # fmt: skip
RESOLVED = {"trl": TRL, "verl": VERL}


@functools.cache
def compose_once(*overrides: str) -> RunConfig:
    """Return a composed configuration, the same object for the same overrides: leave it as it is."""
    return compose_run([*overrides])


def read(dialect: str, values: dict[str, Any], devices: int | None = None) -> RunConfig:
    """Return the configuration that a trainer's settings become."""
    return compose_once(*DIALECTS[dialect].translate(values, devices).overrides())


def lines(dialect: str, values: dict[str, Any], devices: int | None = None) -> list[str]:
    """Return what is listed of a trainer's settings: what differs, and the notes."""
    found = DIALECTS[dialect].translate(values, devices)
    return [*found.inexpressible, *found.notes]

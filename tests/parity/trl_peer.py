"""Runs in a process of its own: losses and gradients of `GRPOTrainer` for cases read as JSON from standard input.

The trainer's own code computes everything: `_compute_loss` on a stand-in object, and the advantage block of
`_generate_and_score_completions`, cut out of its source, on the same object.
"""

from __future__ import annotations

import collections
import inspect
import json
import math
import sys
import textwrap
import types

import torch
from trl import GRPOConfig, GRPOTrainer
from trl.trainer import grpo_trainer


def advantages(config, rewards_per_func):
    """The advantage block of the trainer's source, executed on these rewards."""
    source = inspect.getsource(GRPOTrainer._generate_and_score_completions)
    start = source.index('        if self.multi_objective_aggregation == "sum_then_normalize":')
    end = source.index("        # Unscorable completions (every reward func returned None)", start)
    functions = rewards_per_func.shape[1]
    trainer = types.SimpleNamespace(
        multi_objective_aggregation=config.multi_objective_aggregation,
        scale_rewards=config.scale_rewards,
        reward_weights=torch.tensor(config.reward_weights or [1.0] * functions, dtype=torch.float64),
        reward_funcs=[None] * functions,
    )
    scope = {
        "self": trainer,
        "rewards_per_func": rewards_per_func,
        "num_generations": config.num_generations,
        "unscorable_mask": torch.isnan(rewards_per_func).all(dim=1),
        "device": "cpu",
        "torch": torch,
        "nanstd": grpo_trainer.nanstd,
    }
    exec(textwrap.dedent(source[start:end]), scope)
    return scope["advantages"]


def engine_ratio(config, mask, old, sampler):
    """The correction block of the trainer's source, executed on these log-probabilities."""
    source = inspect.getsource(GRPOTrainer._generate_and_score_completions)
    start = source.index("                mask = completion_mask if tool_mask is None")
    end = source.index("            # Compute the per-token log probabilities for the reference model", start)
    scope = {
        "self": config,
        "completion_mask": mask,
        "tool_mask": None,
        "old_per_token_logps": old,
        "sampling_per_token_logps": sampler,
        "torch": torch,
        "math": math,
    }
    exec(textwrap.dedent(source[start:end]), scope)
    return scope["vllm_importance_sampling_ratio"]


def stand_in(config, log_probs, entropies):
    """What `_compute_loss` reads of a trainer: its configuration's own values, under the names that `__init__` gives them."""
    accelerator = types.SimpleNamespace(
        num_processes=1,
        gather=lambda x: x,
        reduce=lambda x, reduction: x,
        gather_for_metrics=lambda x: x,
        pad_across_processes=lambda x, **k: x,
        sync_gradients=False,
    )
    trainer = types.SimpleNamespace(**{name: getattr(config, name) for name in GRPOConfig.__dataclass_fields__})
    trainer.args, trainer.accelerator = config, accelerator
    trainer.model = types.SimpleNamespace(training=True)
    trainer._metrics = {"train": collections.defaultdict(list)}
    trainer.epsilon_low = config.epsilon
    trainer.epsilon_high = config.epsilon if config.epsilon_high is None else config.epsilon_high
    trainer._entropy_bonus_enabled = config.entropy_coef != 0.0 or config.use_adaptive_entropy
    trainer.current_gradient_accumulation_steps = config.gradient_accumulation_steps
    trainer.aux_loss_enabled = False  # a dense model
    trainer._get_per_token_logps_and_entropies = lambda *a, **k: (log_probs, entropies, None)
    for name in ("get_off_policy_mask", "get_gamma_weights"):
        setattr(trainer, name, getattr(GRPOTrainer, name))
    trainer.get_high_entropy_mask = types.MethodType(GRPOTrainer.get_high_entropy_mask, trainer)
    return trainer


def solve(case):
    tensors = {key: torch.tensor(value, dtype=torch.float64) for key, value in case["tensors"].items()}
    mask = tensors["mask"]
    log_probs = tensors["log_probs"].requires_grad_()
    config = GRPOConfig(**case["settings"], **case["quiet"])  # TRL's defaults for all that is not exported
    advantage = advantages(config, tensors["rewards"])
    rows, width = mask.shape
    inputs = {
        "prompt_ids": torch.zeros(rows, 1, dtype=torch.long),
        "prompt_mask": torch.ones(rows, 1),
        "completion_ids": torch.zeros(rows, width, dtype=torch.long),
        "completion_mask": mask,
        "advantages": advantage,
        "old_per_token_logps": tensors["old"],
        "ref_per_token_logps": tensors["reference"],
        "num_items_in_batch": mask.sum(),
    }
    if config.use_vllm and config.vllm_importance_sampling_correction:
        inputs["importance_sampling_ratio"] = engine_ratio(config, mask, tensors["old"], tensors["sampler"])
        inputs["sampling_per_token_logps"] = tensors["sampler"]
    trainer = stand_in(config, log_probs, tensors["entropy"])
    loss = GRPOTrainer._compute_loss(trainer, trainer.model, inputs)
    (slope,) = torch.autograd.grad(loss, log_probs)
    return {"loss": loss.item(), "gradient": slope.tolist(), "advantages": advantage.tolist()}


json.dump([solve(case) for case in json.load(sys.stdin)], sys.stdout)

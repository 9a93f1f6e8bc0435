"""Runs in TRL's own environment: losses and gradients of `GRPOTrainer` for cases read as JSON from standard input.

The trainer's own code computes everything: `_compute_loss` on a stand-in object, and the advantage block of
`_generate_and_score_completions`, cut out of its source, on the same object.
"""

from __future__ import annotations

import collections
import inspect
import json
import sys
import textwrap
import types

import torch
from trl import GRPOConfig, GRPOTrainer
from trl.trainer import grpo_trainer


def advantages(settings, rewards_per_func):
    """The advantage block of the trainer's source, executed on these rewards."""
    source = inspect.getsource(GRPOTrainer._generate_and_score_completions)
    start = source.index('        if self.multi_objective_aggregation == "sum_then_normalize":')
    end = source.index("        # Unscorable completions (every reward func returned None)", start)
    trainer = types.SimpleNamespace(
        multi_objective_aggregation=settings.get("multi_objective_aggregation", "sum_then_normalize"),
        scale_rewards=settings.get("scale_rewards", "group"),
        reward_weights=torch.tensor(settings.get("reward_weights", [1.0]), dtype=torch.float64),
        reward_funcs=[None] * rewards_per_func.shape[1],
    )
    scope = {
        "self": trainer,
        "rewards_per_func": rewards_per_func,
        "num_generations": settings["num_generations"],
        "unscorable_mask": torch.isnan(rewards_per_func).all(dim=1),
        "device": "cpu",
        "torch": torch,
        "nanstd": grpo_trainer.nanstd,
    }
    exec(textwrap.dedent(source[start:end]), scope)
    return scope["advantages"]


def stand_in(settings, config, log_probs):
    """What `_compute_loss` reads of a trainer."""
    accelerator = types.SimpleNamespace(
        num_processes=1, gather=lambda x: x, reduce=lambda x, reduction: x, gather_for_metrics=lambda x: x
    )
    return types.SimpleNamespace(
        _get_per_token_logps_and_entropies=lambda *a, **k: (log_probs, torch.zeros_like(log_probs), None),
        _metrics={"train": collections.defaultdict(list)},
        _entropy_bonus_enabled=False,
        accelerator=accelerator,
        args=config,
        aux_loss_enabled=False,
        beta=settings.get("beta", 0.0),
        current_gradient_accumulation_steps=1,
        epsilon_low=settings.get("epsilon", 0.2),
        epsilon_high=settings.get("epsilon_high", 0.2),
        importance_sampling_level=settings["importance_sampling_level"],
        loss_type=settings["loss_type"],
        max_completion_length=settings["max_completion_length"],
        model=types.SimpleNamespace(training=True),
        off_policy_mask_threshold=None,
        top_entropy_quantile=1.0,
        use_vllm=False,
    )


def solve(case):
    settings = case["settings"]
    tensors = {key: torch.tensor(value, dtype=torch.float64) for key, value in case["tensors"].items()}
    mask = tensors["mask"]
    log_probs = tensors["log_probs"].requires_grad_()
    advantage = advantages(settings, tensors["rewards"])
    config = types.SimpleNamespace(
        delta=settings.get("delta"), use_bias_correction_kl=False, steps_per_generation=1
    )
    GRPOConfig(**{k: v for k, v in settings.items() if k in GRPOConfig.__dataclass_fields__}, **case["quiet"])
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
    trainer = stand_in(settings, config, log_probs)
    loss = GRPOTrainer._compute_loss(trainer, trainer.model, inputs)
    (slope,) = torch.autograd.grad(loss, log_probs)
    return {"loss": loss.item(), "gradient": slope.tolist(), "advantages": advantage.tolist()}


json.dump([solve(case) for case in json.load(sys.stdin)], sys.stdout)

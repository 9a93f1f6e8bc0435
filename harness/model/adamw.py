"""The optimiser with a run's settings."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from harness.configuration.sections import OptimizerConfig


def configured(
    parameters: Sequence[torch.nn.Parameter], config: OptimizerConfig, rate: float
) -> torch.optim.AdamW:
    """AdamW (arXiv:1711.05101) over these parameters, with a run's settings and a learning rate of its own."""
    betas = (config.beta1, config.beta2)
    return torch.optim.AdamW(
        parameters, lr=rate, betas=betas, eps=config.epsilon, weight_decay=config.weight_decay, fused=True
    )

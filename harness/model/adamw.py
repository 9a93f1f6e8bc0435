"""torch's AdamW without torch's compiler."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

import torch

from harness.configuration.sections import OptimizerConfig


class AdamW(torch.optim.AdamW):
    """`torch.optim.AdamW` (arXiv:1711.05101), the same bits, in a process that has not loaded torch's compiler.

    torch forbids its compiler to compile an optimiser's methods, and loads the compiler to say so: as long as `import torch` again, before
    the first update of every process. Nothing here is compiled, so these are torch's own methods below that mark.
    """

    step = torch.no_grad()(inspect.unwrap(torch.optim.AdamW.step))
    zero_grad = inspect.unwrap(torch.optim.AdamW.zero_grad)
    add_param_group: Any = inspect.unwrap(torch.optim.AdamW.add_param_group)
    state_dict: Any = inspect.unwrap(torch.optim.AdamW.state_dict)
    load_state_dict: Any = inspect.unwrap(torch.optim.AdamW.load_state_dict)


def configured(parameters: Sequence[torch.nn.Parameter], config: OptimizerConfig, rate: float) -> AdamW:
    """The optimiser of these parameters with a run's settings, and a learning rate of its own."""
    betas = (config.beta1, config.beta2)
    return AdamW(
        parameters, lr=rate, betas=betas, eps=config.epsilon, weight_decay=config.weight_decay, fused=True
    )

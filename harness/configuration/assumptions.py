"""The machine that is assumed where runs start on another one. None of it changes a run."""

from __future__ import annotations

from dataclasses import dataclass

from harness.configuration.gpus import GPU_MEMORY_GIB
from harness.configuration.limits import Checked, choice, ranged


@dataclass
class Assumptions(Checked, key="runtime.assumed"):
    """What `harness plan` assumes of machines and lengths where it counts memory and prices.

    Attributes:
        gpu: the kind of GPU (`harness.configuration.gpus`).
        prompt_tokens: mean tokens of a prompt.
        usable_memory: share of a GPU's memory that tensors can fill (the rest: context, communication buffers, fragments).
        price_per_gpu_hour: what an hour of one GPU costs, in any currency; null: `harness plan` tells GPU-hours alone.
    """

    gpu: str = choice("h100", of=tuple(GPU_MEMORY_GIB))
    prompt_tokens: int = ranged(256, low=1)
    usable_memory: float = ranged(0.92, low=1e-3, high=1.0)
    price_per_gpu_hour: float | None = ranged(None, low=0.0)

"""Assumptions of an estimate. None of it changes a run."""

from __future__ import annotations

from dataclasses import dataclass

from harness.configuration.gpus import GPUS
from harness.configuration.limits import Checked, choice, ranged


@dataclass
class Assumptions(Checked, key="runtime.assumed"):
    """The hardware and the rates behind estimates of memory and time.

    Attributes:
        gpu: the kind of GPU (`harness.configuration.gpus`).
        prompt_tokens: mean tokens of a prompt.
        response_tokens: mean tokens of a response over the whole run; null: a quarter of the cap.
        groups_per_trained_group: groups generated for each one that is trained on where dynamic sampling refills. verl's DAPO recipe
            generates three times its batch at once; the testbed's ladder generated 2.7 times the tokens.
        update_utilisation: share of the GPU's peak that an update reaches, recomputed products counted.
        sampling_utilisation: the same for the products of prefill and of large decoding batches.
        sampling_bandwidth: share of the memory bandwidth that decoding reaches.
        decode_overhead_ms: time of a decoding step beyond reading weights and cache (launches, sampling, scheduling).
        usable_memory: share of a GPU's memory that tensors can fill (the rest: context, communication buffers, fragments).
        price_per_gpu_hour: what an hour of one GPU costs, in any currency; null: `harness plan` tells GPU-hours alone.
    """

    gpu: str = choice("h100", of=tuple(GPUS))
    prompt_tokens: int = ranged(256, low=1)
    response_tokens: int | None = ranged(None, low=1)
    groups_per_trained_group: float = ranged(3.0, low=1.0)
    update_utilisation: float = ranged(0.35, low=1e-3, high=1.0)
    sampling_utilisation: float = ranged(0.4, low=1e-3, high=1.0)
    sampling_bandwidth: float = ranged(0.5, low=1e-3, high=1.0)
    decode_overhead_ms: float = ranged(5.0, low=0.0)
    usable_memory: float = ranged(0.92, low=1e-3, high=1.0)
    price_per_gpu_hour: float | None = ranged(None, low=0.0)

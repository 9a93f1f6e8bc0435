"""Assumptions of an estimate. None of it changes a run."""

from __future__ import annotations

from dataclasses import dataclass

from harness.configuration.error import require, require_range
from harness.configuration.gpus import GPUS


@dataclass
class Assumptions:
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
    """

    gpu: str = "h100"
    prompt_tokens: int = 256
    response_tokens: int | None = None
    groups_per_trained_group: float = 3.0
    update_utilisation: float = 0.35
    sampling_utilisation: float = 0.4
    sampling_bandwidth: float = 0.5
    decode_overhead_ms: float = 5.0
    usable_memory: float = 0.92

    def __post_init__(self) -> None:
        require("runtime.assumed.gpu", self.gpu, tuple(GPUS))
        require_range("runtime.assumed.prompt_tokens", self.prompt_tokens, 1)
        if self.response_tokens is not None:
            require_range("runtime.assumed.response_tokens", self.response_tokens, 1)
        require_range("runtime.assumed.groups_per_trained_group", self.groups_per_trained_group, 1.0)
        require_range("runtime.assumed.decode_overhead_ms", self.decode_overhead_ms, 0.0)
        for key in ("update_utilisation", "sampling_utilisation", "sampling_bandwidth", "usable_memory"):
            require_range(f"runtime.assumed.{key}", getattr(self, key), 1e-3, 1.0)

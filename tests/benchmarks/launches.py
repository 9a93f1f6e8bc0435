"""How many operators one token and one update of the testbed's policy take: on a GPU each is a kernel launch, at least.

    python tests/benchmarks/launches.py

Counts every operator that computes (views are free) of one decode step of 256 rows, and of one
update of 16 responses, which is launched operator by operator. Beside them stand the floating-point operations, so that a reader with a
GPU's launch time and speed in hand sees which of the two a run would wait for.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from harness.model.policy import NativePolicy
from harness.rollout.engine.native.sampler import NativeEngine
from harness.rollout.types import SamplingParams
from harness.testbed.shipped import base_set

_FREE = {"detach", "alias", "empty", "empty_strided", "empty_like", "lift_fresh", "_unsafe_view"}


class Count(TorchDispatchMode):
    """Counts dispatched operators that are no views."""

    def __init__(self) -> None:
        super().__init__()
        self.operators = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        views = any(
            result.alias_info is not None and not result.alias_info.is_write
            for result in func._schema.returns
        )
        if not views and func.overloadpacket.__name__ not in _FREE:
            self.operators += 1
        return func(*args, **(kwargs or {}))


def main() -> None:
    """Print the counts."""
    bases = base_set("arithmetic-1")
    with tempfile.TemporaryDirectory() as folder:
        policy = NativePolicy.load(bases.checkpoint(0, Path(folder)), "torch")
    parameters = list(policy.parameters())
    weights = sum(parameter.numel() for parameter in parameters) - policy.decoder.embed.numel()

    engine = NativeEngine(policy.decoder)
    seeds = np.arange(256, dtype=np.uint64).reshape(32, 8)
    counts = []
    for tokens in (32, 33):
        params = SamplingParams(max_response_tokens=tokens)
        engine.generate([[5, 6, 7, 8]] * 32, seeds, params)
        with Count() as request:
            engine.generate([[5, 6, 7, 8]] * 32, seeds, params)
        counts.append(request.operators)
    print(f"decode step of 256 rows: {counts[1] - counts[0]} operators, {2e-9 * weights * 256:.3f} GFLOP")

    optimizer = torch.optim.AdamW(parameters, lr=1e-4, fused=True)
    tokens, lengths = torch.randint(3, 15, (16 * 20,)), torch.full((16,), 20)
    prompts = [[5, 6, 7, 8, 9, 10, 11, 12]] * 8 + [[6, 6, 7, 8, 9, 10, 11, 12]] * 8
    for parameter in parameters:
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    with Count() as update:
        log_probs, _ = policy.token_log_probs(prompts, tokens, lengths)
        log_probs.sum().backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
    print(
        f"update of 16 responses of 20 tokens: {update.operators} operators, {6e-9 * weights * 16 * 20:.3f} GFLOP"
    )


if __name__ == "__main__":
    main()

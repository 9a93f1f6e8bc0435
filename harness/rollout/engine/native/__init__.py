"""The built-in sampler: shares the policy's own weights, for CPU and for small models on a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

    import torch

    from harness.configuration.sections import RuntimeConfig
    from harness.model.policy import Policy
    from harness.rollout.engine.native.sampler import NativeEngine


@dataclass
class Config:
    """No settings: how many rows are decoded together (`runtime.rollout_rows`) does not change the responses."""

    kind: str = "native"


def build(config: Config, policy: Policy, runtime: RuntimeConfig) -> NativeEngine:
    """See the family's contract. A native policy is sampled from in place, any other through a copy in the native decoder."""
    from harness.model.policy import NativePolicy
    from harness.rollout.engine.native.sampler import NativeEngine, rows_with_room

    if isinstance(policy, NativePolicy):
        return NativeEngine(policy.decoder, max(runtime.rollout_rows, rows_with_room(policy.decoder.shape)))
    return open_folder(config, policy.folder, runtime, str(policy.device), policy.compute_dtype, "torch")


def open_folder(
    config: Config, folder: Path, runtime: RuntimeConfig, device: str, dtype: torch.dtype, linear_kernel: str
) -> NativeEngine:
    """See the family's contract. Raises UnsupportedArchitectureError for what is not Llama, Qwen2 or Qwen3."""
    from harness.model.checkpoint import load_decoder
    from harness.rollout.engine.native.sampler import NativeEngine

    decoder = load_decoder(folder, linear_kernel, dtype).to(device).requires_grad_(False)
    return NativeEngine(decoder, runtime.rollout_rows, shares_weights=False)

"""Sampling with the model's own `transformers` forward: any architecture, several times slower than the native engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.configuration.error import Checked, ranged

if TYPE_CHECKING:
    from pathlib import Path

    import torch

    from harness.configuration.sections import RuntimeConfig
    from harness.model.policy import Policy
    from harness.rollout.engine.transformers.batches import TransformersEngine


@dataclass
class Config(Checked, key="engine"):
    """`rows`: responses decoded together at most (memory); the kind of cache bounds it, not the results."""

    kind: str = "transformers"
    rows: int = ranged(64, low=1)

    def identity(self) -> dict[str, Any]:
        """Return what a run's id holds: how many rows fit into memory is the machine's business."""
        return {"kind": self.kind}


def build(config: Config, policy: Policy, runtime: RuntimeConfig) -> TransformersEngine:
    return open_folder(config, policy.folder, runtime, str(policy.device), policy.compute_dtype, "torch")


def open_folder(
    config: Config, folder: Path, runtime: RuntimeConfig, device: str, dtype: torch.dtype, linear_kernel: str
) -> TransformersEngine:
    from harness.rollout.engine.transformers.batches import TransformersEngine

    return TransformersEngine.load(folder, config.rows, device, dtype)

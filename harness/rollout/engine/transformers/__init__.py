"""Sampling with the model's own `transformers` forward: any architecture, several times slower than the native engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.configuration.error import Checked, ranged


@dataclass
class Config(Checked, key="engine"):
    """`rows`: responses decoded together at most (memory); the kind of cache bounds it, not the results."""

    kind: str = "transformers"
    rows: int = ranged(64, low=1)

    def identity(self) -> dict[str, Any]:
        """Return what a run's id holds: how many rows fit into memory is the machine's business."""
        return {"kind": self.kind}


def build(config: Config, policy: Any, runtime: Any) -> Any:
    return open_folder(config, policy.folder, runtime, str(policy.device), policy.compute_dtype, "torch")


def open_folder(config: Config, folder: Any, runtime: Any, device: str, dtype: Any, linear_kernel: str) -> Any:
    from harness.rollout.engine.transformers.batches import TransformersEngine

    return TransformersEngine.load(folder, config.rows, device, dtype)

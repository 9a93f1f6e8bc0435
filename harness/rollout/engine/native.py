"""The built-in sampler: shares the policy's own weights, for CPU and for small models on a GPU."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass
class Config:
    """No settings: how many rows are decoded together (`runtime.rollout_rows`) does not change the responses."""

    kind: str = "native"


def build(config: Config, policy: Any, runtime: Any) -> Any:
    """See the family's contract."""
    from harness.rollout.native import NativeEngine

    return NativeEngine(policy.decoder, runtime.rollout_rows)

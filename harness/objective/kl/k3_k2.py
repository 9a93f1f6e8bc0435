"""k3's value with k2's gradient: low variance to read, and the gradient of the KL divergence (verl's "low_var_kl+")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.objective.kl._config import KlConfig

if TYPE_CHECKING:
    import torch


@dataclass
class Config(KlConfig):
    """See `KlConfig`."""

    kind: str = "k3_k2"


def estimate(log_probs_N: torch.Tensor, reference_log_probs_N: torch.Tensor) -> torch.Tensor:
    """See the family's contract."""
    log_ratio = log_probs_N - reference_log_probs_N
    k2 = log_ratio.square() / 2
    k3 = (-log_ratio).expm1() + log_ratio
    return k2 + (k3 - k2).detach()

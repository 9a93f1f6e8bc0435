"""k3's value with k2's gradient: low variance to read, and the gradient of the KL divergence (verl's "low_var_kl+")."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.config_error import require, require_range

if TYPE_CHECKING:
    import torch


@dataclass
class Config:
    """`coefficient` β ≥ 0 (0: no reference policy is kept); `placement`: in the loss, or subtracted from the reward."""

    kind: str = "k3_k2"
    coefficient: float = 0.0
    placement: str = "loss"

    def __post_init__(self) -> None:
        require_range("algorithm.kl.coefficient", self.coefficient, 0.0)
        require("algorithm.kl.placement", self.placement, ("loss", "reward"))


def estimate(log_probs_N: torch.Tensor, reference_log_probs_N: torch.Tensor) -> torch.Tensor:
    """See the family's contract."""
    log_ratio = log_probs_N - reference_log_probs_N
    k2 = log_ratio.square() / 2
    k3 = (-log_ratio).expm1() + log_ratio
    return k2 + (k3 - k2).detach()

"""k2: half the squared log-ratio; its gradient as a loss is that of the KL divergence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.config_error import require, require_range

if TYPE_CHECKING:
    import torch


@dataclass
class Config:
    """`coefficient` β ≥ 0 (0: no reference policy is kept); `placement`: in the loss, or subtracted from the reward."""

    kind: str = "k2"
    coefficient: float = 0.0
    placement: str = "loss"

    def __post_init__(self) -> None:
        require_range("algorithm.kl.coefficient", self.coefficient, 0.0)
        require("algorithm.kl.placement", self.placement, ("loss", "reward"))


def estimate(log_probs_N: torch.Tensor, reference_log_probs_N: torch.Tensor) -> torch.Tensor:
    """See the family's contract."""
    return 0.5 * (log_probs_N - reference_log_probs_N) ** 2

"""k3: exp(-x) - 1 + x with x = log π - log π_ref; unbiased, never negative (GRPO, arXiv:2402.03300 Eq. 4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.objective.kl._config import KlConfig

if TYPE_CHECKING:
    import torch


@dataclass
class Config(KlConfig):
    """See `KlConfig`."""

    kind: str = "k3"


def estimate(log_probs_N: torch.Tensor, reference_log_probs_N: torch.Tensor) -> torch.Tensor:
    """See the family's contract."""
    return (reference_log_probs_N - log_probs_N).expm1() + (log_probs_N - reference_log_probs_N)

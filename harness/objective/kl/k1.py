"""k1: the log-ratio itself; unbiased, high variance, can be negative."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.objective.kl._config import KlConfig

if TYPE_CHECKING:
    import torch


@dataclass
class Config(KlConfig):
    """See `KlConfig`."""

    kind: str = "k1"


def estimate(log_probs_N: torch.Tensor, reference_log_probs_N: torch.Tensor) -> torch.Tensor:
    """See the family's contract."""
    return log_probs_N - reference_log_probs_N

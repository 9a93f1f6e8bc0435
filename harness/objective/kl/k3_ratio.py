"""ρ · k3: k3 weighted by the importance ratio, unbiased for the current policy's KL also off-policy (DeepSeek-V3.2, arXiv:2512.02556 §3.1).

Checked against TRL's code (its default since 1.16, `use_bias_correction_kl`), not against the paper's text.

Tokens come from π_old, so k3 averages to the divergence only while π_θ = π_old; ρ = π_θ/π_old repairs that. The gradient flows through
ρ, too, and its expectation is that of the divergence itself: Σ π_old ∇[ρ(e^{-x} - 1 + x)] = ∇ KL(π_θ ‖ π_ref). The ratio
is the objective's own, at the level that `algorithm.importance_ratio` names, as in TRL.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.configuration.error import ConfigError
from harness.objective.kl._config import KlConfig
from harness.objective.kl.k3 import estimate as k3

if TYPE_CHECKING:
    import torch

RATIO_WEIGHTED = True


@dataclass
class Config(KlConfig):
    """See `KlConfig`; in the loss only."""

    kind: str = "k3_ratio"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.placement != "loss":
            raise ConfigError(
                "algorithm.kl=k3_ratio with algorithm.kl.placement=reward: the reward is computed at the old policy, where the ratio "
                "is 1; use algorithm.kl=k3"
            )


def estimate(log_probs_N: torch.Tensor, reference_log_probs_N: torch.Tensor) -> torch.Tensor:
    """k3; the objective multiplies it by its ratio. See the family's contract."""
    return k3(log_probs_N, reference_log_probs_N)

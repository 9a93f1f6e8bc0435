"""No clip: -ρA (the importance-weighted policy gradient), or -A log π when `importance_weighted` is off (REINFORCE)."""

from __future__ import annotations

from dataclasses import dataclass

from harness.objective.types import Tensor, TokenBatch

TOKENS = "kept"
NAMES = {"verl": {"gpg": {"importance_weighted": False}}}


@dataclass
class Config:
    """`importance_weighted`: multiply by the ratio (unbiased off-policy) or ignore it (REINFORCE, SFT, RFT)."""

    kind: str = "policy_gradient"
    importance_weighted: bool = True


def token_loss(log_probs_N: Tensor, log_ratio_N: Tensor, batch: TokenBatch, config: Config) -> Tensor:
    """See the family's contract."""
    return -batch.advantages_N * (log_ratio_N.exp() if config.importance_weighted else log_probs_N)

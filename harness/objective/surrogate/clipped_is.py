"""CISPO: -sg(clip(ρ, cap_min, cap_max)) · A · log π (MiniMax-M1, arXiv:2506.13585 Eq. 4-5).

The weight is bounded, not the gradient: no token is dropped. The caps are absolute values of the ratio, since peers disagree on what
their epsilon means (verl: 1 ± ε; TRL: ε_high itself). MiniMax left the lower cap off (0).
"""

from dataclasses import dataclass

from harness.configuration.error import ConfigError
from harness.objective.surrogate import Surrogate
from harness.objective.types import Tensor, TokenBatch


@dataclass
class Config(Surrogate):
    """`cap_min`: smallest importance weight, ≤ 1; `cap_max`: largest, ≥ 1."""

    kind: str = "clipped_is"
    cap_min: float = 0.0
    cap_max: float = 1.28
    far_tokens = "kept"
    ratio_keys = ("cap_min", "cap_max")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.cap_min <= 1 <= self.cap_max:
            raise ConfigError(f"algorithm.surrogate needs 0 <= cap_min <= 1 <= cap_max: {self.cap_min}, {self.cap_max}")

    def token_loss(self, logprobs_N: Tensor, log_ratio_N: Tensor, batch: TokenBatch) -> Tensor:
        weight = log_ratio_N.detach().exp().clamp(self.cap_min, self.cap_max)
        return -weight * batch.advantages_N * logprobs_N

    def clipped(self, logprobs_N: Tensor, ratio_N: Tensor, batch: TokenBatch) -> tuple[Tensor, Tensor]:
        has_advantage_N = batch.advantages_N != 0
        return (ratio_N < self.cap_min) & has_advantage_N, (ratio_N > self.cap_max) & has_advantage_N

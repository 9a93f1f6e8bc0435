"""GMPO: -A times the geometric mean of the response's clipped token ratios (arXiv:2507.20673; verl `geo_mean`).

Each token's log-ratio is clipped on the side that its advantage's sign allows, *before* the mean; GSPO clips after it. The response's one
loss stands on each of its tokens, so that under `response_mean` an update's loss is the mean over responses.
"""

from dataclasses import dataclass

from harness.configuration.error import ranged
from harness.objective.surrogate import Surrogate
from harness.objective.types import Tensor, TokenBatch


@dataclass
class Config(Surrogate):
    """`clip_low`, `clip_high`: bounds of the log-ratio in nats: ratios between exp(-clip_low) and exp(clip_high)."""

    kind: str = "geometric_mean"
    clip_low: float = ranged(0.4, low=0.0)
    clip_high: float = ranged(0.4, low=0.0)
    ratio_keys = ("clip_low", "clip_high")
    one_loss = True

    def token_loss(self, logprobs_N: Tensor, log_ratio_N: Tensor, batch: TokenBatch) -> Tensor:
        import torch

        sign = batch.advantages_N.sign()
        clip_N = log_ratio_N.clamp(-self.clip_low, self.clip_high)
        pessimistic_N = sign * torch.minimum(sign * log_ratio_N, sign * clip_N)
        return -batch.advantages_N * (batch.sums_R(pessimistic_N) / batch.lengths_R).exp()[batch.response_N]

    def clipped(self, logprobs_N: Tensor, ratio_N: Tensor, batch: TokenBatch) -> tuple[Tensor, Tensor]:
        log_ratio = ratio_N.log()
        low = (log_ratio < -self.clip_low) & (batch.advantages_N < 0)
        return low, (log_ratio > self.clip_high) & (batch.advantages_N > 0)

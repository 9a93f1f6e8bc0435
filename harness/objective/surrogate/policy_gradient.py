"""No clip: -ρA (the importance-weighted policy gradient), or -A log π when `importance_weighted` is off (REINFORCE)."""

from dataclasses import dataclass

from harness.objective.surrogate import Surrogate
from harness.objective.types import Tensor, TokenBatch


@dataclass
class Config(Surrogate):
    """`importance_weighted`: multiply by the ratio (unbiased off-policy) or ignore it (REINFORCE, SFT, RFT)."""

    kind: str = "policy_gradient"
    importance_weighted: bool = True
    far_tokens = "kept"

    def token_loss(self, logprobs_N: Tensor, log_ratio_N: Tensor, batch: TokenBatch) -> Tensor:
        return -batch.advantages_N * (log_ratio_N.exp() if self.importance_weighted else logprobs_N)

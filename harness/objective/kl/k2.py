"""k2 = x²/2; its gradient as a loss is that of the KL divergence."""

from dataclasses import dataclass

from harness.objective.kl import KlPenalty
from harness.objective.types import Tensor


@dataclass
class Config(KlPenalty):
    """See `KlPenalty`."""

    kind: str = "k2"

    def estimate(self, logprobs_N: Tensor, ref_logprobs_N: Tensor) -> Tensor:
        return 0.5 * (logprobs_N - ref_logprobs_N) ** 2

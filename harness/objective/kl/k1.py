"""k1 = x: unbiased, of high variance, can be negative."""

from dataclasses import dataclass

from harness.objective.kl import KlPenalty
from harness.objective.types import Tensor


@dataclass
class Config(KlPenalty):
    """See `KlPenalty`."""

    kind: str = "k1"

    def estimate(self, logprobs_N: Tensor, ref_logprobs_N: Tensor) -> Tensor:
        return logprobs_N - ref_logprobs_N

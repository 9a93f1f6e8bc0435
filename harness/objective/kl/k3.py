"""k3 = exp(-x) - 1 + x: unbiased, never negative (GRPO, arXiv:2402.03300 Eq. 4)."""

from dataclasses import dataclass

from harness.objective.kl import KlPenalty
from harness.objective.types import Tensor, bound_log_ratio


@dataclass
class Config(KlPenalty):
    """See `KlPenalty`."""

    kind: str = "k3"

    def estimate(self, logprobs_N: Tensor, ref_logprobs_N: Tensor) -> Tensor:
        minus_x_N = bound_log_ratio(ref_logprobs_N - logprobs_N)
        return minus_x_N.expm1() - minus_x_N

"""k3's value with k2's gradient: low variance to read, and the gradient of the KL divergence (verl's "low_var_kl+")."""

from dataclasses import dataclass

from harness.objective.kl import KlPenalty
from harness.objective.types import Tensor, bound_log_ratio


@dataclass
class Config(KlPenalty):
    """See `KlPenalty`."""

    kind: str = "k3_k2"

    def estimate(self, logprobs_N: Tensor, ref_logprobs_N: Tensor) -> Tensor:
        x_N = bound_log_ratio(logprobs_N - ref_logprobs_N)
        half_square_N = x_N.square() / 2
        return half_square_N + ((-x_N).expm1() + x_N - half_square_N).detach()

"""VESPO: -sg(φ(W)) A log π with W the response's whole importance ratio and φ(W) = W^k exp(λ(1 - W)) (arXiv:2602.10693; TRL `vespo`).

φ is 1 at W = 1 and falls off on both sides, so a response far from the policy has little weight; (k, λ) depend on the advantage's sign.
W is the product over the response's tokens, computed in logs with TRL's bounds, and with the sampler's weights inside (π over π_sampler),
where the engine correction weighs tokens. Checked against TRL's code, not against the paper's text.
"""

import math
from dataclasses import dataclass

from harness.configuration.error import ranged
from harness.objective.surrogate import Surrogate
from harness.objective.types import Tensor, TokenBatch, bound_log_ratio

_LOG_RANGE = (math.log(1e-8), 20.0)


@dataclass
class Config(Surrogate):
    """`power_positive`, `decay_positive`: k and λ for advantages ≥ 0; `power_negative`, `decay_negative`: for negative ones."""

    kind: str = "gamma_weight"
    power_positive: float = ranged(2.0, low=1e-4)
    decay_positive: float = ranged(3.0, low=1e-4)
    power_negative: float = ranged(3.0, low=1e-4)
    decay_negative: float = ranged(2.0, low=1e-4)
    folds_correction = True
    ratio_keys = ("power_positive", "decay_positive", "power_negative", "decay_negative")

    def token_loss(self, logprobs_N: Tensor, log_ratio_N: Tensor, batch: TokenBatch) -> Tensor:
        """See `Surrogate`; W is of tokens' ratios, whatever level the objective's ratio has."""
        token_log_ratio_N = bound_log_ratio((logprobs_N - batch.old_logprobs_N).detach())
        if batch.policy_weights_N is not None:
            token_log_ratio_N = token_log_ratio_N + batch.policy_weights_N.log().clamp(*_LOG_RANGE)
        log_weight_N = batch.sums_R(token_log_ratio_N).clamp(*_LOG_RANGE)[batch.response_N]
        positive = (batch.advantages_N >= 0).to(token_log_ratio_N.dtype)
        power = positive * self.power_positive + (1 - positive) * self.power_negative
        decay = positive * self.decay_positive + (1 - positive) * self.decay_negative
        weight = (decay + power * log_weight_N - decay * log_weight_N.exp()).exp()
        return -weight * batch.advantages_N * logprobs_N

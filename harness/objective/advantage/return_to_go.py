"""Token-level returns to go without a critic, whitened over the global batch (REINFORCE++, arXiv:2501.03262 Eq. 6-8).

A_t = r - Σ_{s ≥ t} KL penalty_s, optionally minus the group's mean outcome, then (A - mean) / std over the whole batch. Over *tokens*
(verl's and SkyRL's `masked_whiten`) a long response counts more; over *sequences* every response counts the same. With the KL in the
loss or absent the return to go is constant over a response.
"""

from dataclasses import dataclass

from harness.configuration.error import choice, ranged
from harness.objective.advantage import Advantage
from harness.objective.advantage.group import centre, weighted_moments, without_spread
from harness.objective.types import RolloutBatch, Tensor


@dataclass
class Config(Advantage):
    """Whitened returns to go.

    Attributes:
        baseline: none (REINFORCE++), or group_mean (subtracted from the outcome before whitening).
        whiten_over: tokens or sequences.
        ddof: of the batch standard deviation.
        epsilon: added to it.
    """

    kind: str = "return_to_go"
    baseline: str = choice("none", of=("none", "group_mean"))
    whiten_over: str = choice("tokens", of=("tokens", "sequences"))
    ddof: int = choice(1, of=(0, 1))
    epsilon: float = ranged(1e-8, low=0.0)
    dead_groups_vanish = False  # the baseline is the batch's mean, so an all-right group is pushed up

    def advantages(self, batch: RolloutBatch) -> Tensor:
        outcome_PG = centre(batch.rewards_PG.double(), batch.counted_PG.double(), self.baseline)
        returns_N = batch.per_token(outcome_PG)
        if batch.kl_penalty_N is not None:
            returns_N = returns_N - penalty_to_go(batch)
        return whiten(returns_N, batch, self.whiten_over, self.ddof, self.epsilon)


def penalty_to_go(batch: RolloutBatch) -> Tensor:
    """Σ_{s ≥ t} of the response's KL penalties, float64 [N]."""
    assert batch.kl_penalty_N is not None
    penalty_N = batch.kl_penalty_N.double()
    sums_before_N = penalty_N.cumsum(0) - penalty_N
    ends = batch.lengths_PG.reshape(-1).cumsum(0) - 1
    sums_to_end_R = penalty_N.cumsum(0)[ends]
    return sums_to_end_R[batch.response_N] - sums_before_N


def whiten(values_N: Tensor, batch: RolloutBatch, whiten_over: str, ddof: int, epsilon: float) -> Tensor:
    """(values - mean) / (std + ε) over counted tokens, or with each counted response weighing 1 (`whiten_over` = sequences).

    A batch without spread has zero advantages.
    """
    counted_N = batch.per_token(batch.counted_PG.double())
    weight_N = counted_N
    if whiten_over == "sequences":
        weight_N = counted_N / batch.per_token(batch.lengths_PG.double().clamp(min=1))
    mean, std = weighted_moments(values_N, weight_N, ddof)
    if without_spread(values_N, std):
        return values_N * 0
    return (values_N - mean) / (std + epsilon) * counted_N

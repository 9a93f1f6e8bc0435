"""One pair a group: +1 for its best response, -1 for its worst, 0 for the others (the pairs of online DPO).

Ties go to the first response in the group, so the estimator is equivariant to permutations up to which of equal responses is taken.
A group whose returns are all equal has no pair and is skipped.
"""

from dataclasses import dataclass

from harness.objective.advantage import Advantage
from harness.objective.advantage.group import equal_returns
from harness.objective.types import RolloutBatch, Tensor


@dataclass
class Config(Advantage):
    """No settings."""

    kind: str = "best_worst"

    def advantages(self, batch: RolloutBatch) -> Tensor:
        import torch

        returns, excluded_PG = batch.returns_PG, ~batch.counted_PG.bool()
        best = returns.masked_fill(excluded_PG, float("-inf")).argmax(1, keepdim=True)
        worst = returns.masked_fill(excluded_PG, float("inf")).argmin(1, keepdim=True)
        signs = torch.zeros_like(returns).scatter(1, best, 1.0).scatter(1, worst, -1.0)
        dead = equal_returns(returns, batch.counted_PG.double())
        return batch.per_token(signs.masked_fill(dead[:, None], 0.0))

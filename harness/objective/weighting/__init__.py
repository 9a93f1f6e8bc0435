"""Weights of responses: which of a step's responses train, and how much (data policies after DataFlex-RL, arXiv:2609.06107).

A member is a file with one dataclass `Config` that inherits `Weighting`. Selection is a weight of 0. Denominators stay those of all
responses, as in the authors' code (haolpku/DataFlex-RL, f4d305b): the weight multiplies a token's policy loss before the aggregation.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from harness.configuration.error import Checked
from harness.objective.types import RolloutBatch, Tensor


class Weighting(Checked, ABC, key="algorithm.weighting"):
    """Base of all weightings."""

    kind: str

    @abstractmethod
    def weights(self, advantages_PG: Tensor, batch: RolloutBatch) -> Tensor:
        """Return a factor of each response's policy loss, float64 [P, G], none below 0.

        Args:
            advantages_PG: mean advantage of each response's tokens, float64.
            batch: the step's groups.
        """


Member = Weighting


def largest(scores_PG: Tensor, number: int) -> Tensor:
    """Return 1 for so many responses of the highest score and 0 for the others, float64 [P, G]; of equal ones the earlier are taken."""
    scores_R = scores_PG.reshape(-1)
    weights_R = scores_R.new_zeros(len(scores_R)).double()
    weights_R[scores_R.argsort(descending=True, stable=True)[:number]] = 1.0
    return weights_R.view_as(scores_PG)

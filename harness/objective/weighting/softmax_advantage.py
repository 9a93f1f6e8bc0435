"""Responses weigh by a softmax of their |advantage|, 1 on average (DataFlex-RL's `softmax` of that score, arXiv:2609.06107)."""

from dataclasses import dataclass

from harness.configuration.error import ranged
from harness.objective.types import RolloutBatch, Tensor
from harness.objective.weighting import Weighting


@dataclass
class Config(Weighting):
    """`temperature`: divides |advantage| in the softmax over the step's responses."""

    kind: str = "softmax_advantage"
    temperature: float = ranged(1.0, low=1e-3)

    def weights(self, advantages_PG: Tensor, batch: RolloutBatch) -> Tensor:
        logits_R = advantages_PG.abs().reshape(-1) / self.temperature
        return (logits_R.softmax(0) * len(logits_R)).view_as(advantages_PG)

"""Only the share of a step's responses with the largest |advantage|, or with the largest reward variance of their group.

DataFlex-RL's `topk_fraction` over the absolute advantage, arXiv:2609.06107; the variance is our other reading of a large learning signal.
"""

from dataclasses import dataclass

from harness.configuration.error import choice, ranged
from harness.objective.types import RolloutBatch, Tensor
from harness.objective.weighting import Weighting


@dataclass
class Config(Weighting):
    """What is ranked, and how much of it trains.

    Attributes:
        by: advantage (its size) or reward_variance (of the response's group).
        fraction: share of the step's responses that train; of equal ones the earlier are taken.
    """

    kind: str = "top_fraction"
    by: str = choice("advantage", of=("advantage", "reward_variance"))
    fraction: float = ranged(0.5, low=1e-6, high=1.0)

    @property
    def judges_groups(self) -> bool:
        return self.by == "reward_variance"

    def weights(self, advantages_PG: Tensor, batch: RolloutBatch) -> Tensor:
        scores_PG = advantages_PG.abs()
        if self.by == "reward_variance":
            scores_PG = batch.returns_PG.var(1, correction=0, keepdim=True).expand_as(advantages_PG)
        scores_R = scores_PG.reshape(-1)
        weights_R = scores_R.new_zeros(len(scores_R)).double()
        number = max(1, round(self.fraction * len(scores_R)))
        weights_R[scores_R.argsort(descending=True, stable=True)[:number]] = 1.0  # of equal ones the earlier
        return weights_R.view_as(scores_PG)

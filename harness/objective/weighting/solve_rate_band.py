"""Only groups whose solve rate lies within a band (online difficulty filtering, arXiv:2504.03380; DataFlex-RL's `threshold_band`)."""

from dataclasses import dataclass

from harness.configuration.error import ranged, require_range
from harness.objective.types import RolloutBatch, Tensor
from harness.objective.weighting import Weighting


@dataclass
class Config(Weighting):
    """`low`, `high`: a group trains where its share of right responses lies strictly between them."""

    kind: str = "solve_rate_band"
    low: float = ranged(0.2, low=0.0, high=1.0)
    high: float = ranged(0.8, low=0.0, high=1.0)

    def __post_init__(self) -> None:
        super().__post_init__()
        require_range("algorithm.weighting.low", self.low, 0.0, self.high)

    @property
    def judges_groups(self) -> bool:
        return True

    def weights(self, advantages_PG: Tensor, batch: RolloutBatch) -> Tensor:
        rate_P1 = batch.correct_PG.double().mean(1, keepdim=True)
        return ((rate_P1 > self.low) & (rate_P1 < self.high)).double().expand_as(advantages_PG)

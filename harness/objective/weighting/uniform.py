"""Every response counts alike."""

from __future__ import annotations

from dataclasses import dataclass

from harness.objective.types import RolloutBatch, Tensor
from harness.objective.weighting import Weighting


@dataclass
class Config(Weighting):
    """No settings."""

    kind: str = "uniform"

    def weights(self, advantages_PG: Tensor, batch: RolloutBatch) -> Tensor:
        return advantages_PG.new_ones(advantages_PG.shape)

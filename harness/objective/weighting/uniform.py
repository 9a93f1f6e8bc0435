"""Every response counts alike."""

from collections.abc import Iterator
from dataclasses import dataclass

from harness.configuration.schema import RunConfig
from harness.objective.types import RolloutBatch, Tensor
from harness.objective.weighting import Weighting


@dataclass
class Config(Weighting):
    """No settings."""

    kind: str = "uniform"

    def refusals(self, run: RunConfig) -> Iterator[str]:
        yield from ()

    def weights(self, advantages_PG: Tensor, batch: RolloutBatch) -> Tensor:
        return advantages_PG.new_ones(advantages_PG.shape)

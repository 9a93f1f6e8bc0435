"""Weights of responses: which of a step's responses train, and how much (data policies after DataFlex-RL, arXiv:2609.06107).

A member is a file with one dataclass `Config` that inherits `Weighting`. Selection is a weight of 0. Denominators stay those of all
responses, as in the authors' code (haolpku/DataFlex-RL, f4d305b): the weight multiplies a token's policy loss before the aggregation.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator

from harness.configuration.error import Checked
from harness.configuration.schema import RunConfig
from harness.objective.types import RolloutBatch, Tensor


class Weighting(Checked, ABC, key="algorithm.weighting"):
    """Base of all weightings.

    Attributes:
        judges_groups: it judges a group by all its responses.
    """

    kind: str

    @property
    def judges_groups(self) -> bool:
        return False

    def refusals(self, run: RunConfig) -> Iterator[str]:
        """Yield what it cannot be combined with, each with its key and the fix."""
        algorithm, surrogate = run.algorithm, run.algorithm.surrogate
        if surrogate.pairs or surrogate.trains_without_advantage or algorithm.positive_nll_coefficient:
            yield f"algorithm.weighting={self.kind}: {surrogate.kind} or nll trains without advantage; set it to uniform"
        if surrogate.selects:
            yield f"algorithm.surrogate={surrogate.kind} chooses by advantages; set algorithm.weighting=uniform"
        if self.judges_groups and algorithm.overlong.masks and algorithm.overlong.statistics == "exclude":
            yield f"algorithm.weighting={self.kind} judges a group by all its responses; set overlong.statistics=keep"

    @abstractmethod
    def weights(self, advantages_PG: Tensor, batch: RolloutBatch) -> Tensor:
        """Return a factor of each response's policy loss, float64 [P, G], none below 0.

        Args:
            advantages_PG: mean advantage of each response's tokens, float64.
            batch: the step's groups.
        """


Member = Weighting

"""Loss aggregation: one word ("token-level"), five losses. A member is a file with one dataclass `Config` that inherits `Aggregation`."""

from abc import ABC, abstractmethod
from typing import ClassVar

from harness.configuration.error import Checked
from harness.objective.types import Tensor, TokenCounts


class Aggregation(Checked, ABC, key="algorithm.aggregation"):
    """Base of all aggregations.

    Attributes:
        weighs_as: the aggregation whose weights within an update it has up to a factor; empty: itself. None where they depend on
            settings, so that nothing is compared with it. Every step records the change against each that is its own
            (`weight_change_<kind>`).
    """

    kind: str
    weighs_as: ClassVar[str | None] = ""

    @abstractmethod
    def response_weights(self, lengths_R: Tensor, group_R: Tensor, counts: TokenCounts) -> Tensor:
        """Return the weight w of every loss token of each response, float64 [R]: the update's loss is Σ_i w_i Σ_t loss_it.

        Args:
            lengths_R: loss tokens of each response of one update; 0 for a masked one.
            group_R: the number of its group.
            counts: totals over all micro-batches and ranks, counted before backward; so the gradient depends on neither, nor on padding.
        """


Member = Aggregation

"""Plain sum over all tokens of an update: Σ_i S_i, no divisor (DAPO as one text writes it; verl's `token-sum`).

The loss grows with the number of responses, so the gradient's norm is set by gradient clipping.
"""

from dataclasses import dataclass

from harness.objective.aggregation import Aggregation
from harness.objective.types import Tensor, TokenCounts


@dataclass
class Config(Aggregation):
    """No settings."""

    kind: str = "token_sum"
    weighs_as = "batch_token_mean"

    def response_weights(self, lengths_R: Tensor, group_R: Tensor, counts: TokenCounts) -> Tensor:
        return lengths_R.double() * 0 + 1.0

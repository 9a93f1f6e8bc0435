"""Sum over a response's tokens divided by a constant, then mean over responses: mean_i (S_i / C). Dr.GRPO, arXiv:2503.20783.

The paper's equation has no divisor at all (C = 1); its code divides by the generation budget. Under Adam the constant matters only
through gradient clipping, Adam's epsilon and the weight of KL and entropy terms.
"""

from dataclasses import dataclass

from harness.configuration.error import ranged
from harness.objective.aggregation import Aggregation
from harness.objective.types import Tensor, TokenCounts


@dataclass
class Config(Aggregation):
    """`constant_tokens`: the divisor C; the configurations set it to the response cap, as the authors' code does."""

    kind: str = "constant_sum"
    constant_tokens: float = ranged(32.0, low=1e-9)
    weighs_as = "batch_token_mean"

    def response_weights(self, lengths_R: Tensor, group_R: Tensor, counts: TokenCounts) -> Tensor:
        return lengths_R.double() * 0 + 1.0 / (self.constant_tokens * counts.responses)

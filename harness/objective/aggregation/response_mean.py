"""Mean over a response's tokens, then mean over responses: mean_i (S_i / len_i). GRPO, arXiv:2402.03300 Eq. 3."""

from dataclasses import dataclass

from harness.objective.aggregation import Aggregation
from harness.objective.types import Tensor, TokenCounts


@dataclass
class Config(Aggregation):
    """No settings. Masked responses stay in the number of responses, as in TRL, SkyRL and oat."""

    kind: str = "response_mean"

    def response_weights(self, lengths_R: Tensor, group_R: Tensor, counts: TokenCounts) -> Tensor:
        return 1.0 / (lengths_R.double().clamp(min=1) * counts.responses)

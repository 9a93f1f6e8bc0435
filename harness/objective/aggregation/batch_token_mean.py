"""Token mean over the whole optimiser update: Σ S_i / Σ len_i. verl's and TRL's "token-mean" / "dapo" today, Olmo 3's text."""

from dataclasses import dataclass

from harness.objective.aggregation import Aggregation
from harness.objective.types import Tensor, TokenCounts


@dataclass
class Config(Aggregation):
    """No settings. Masked tokens are not in the denominator, so the remaining tokens weigh more (as in TRL and SkyRL)."""

    kind: str = "batch_token_mean"

    def response_weights(self, lengths_R: Tensor, group_R: Tensor, counts: TokenCounts) -> Tensor:
        return lengths_R.double() * 0 + 1.0 / max(counts.tokens, 1)

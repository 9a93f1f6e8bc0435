"""Token mean of each prompt group, then mean over groups: mean_g (Σ_{i∈g} S_i / Σ_{i∈g} len_i).

DAPO as written (arXiv:2503.14476 Eq. 8 and 12), Olmo 3 Eq. 1, ScaleRL's "prompt average".
"""

from dataclasses import dataclass

from harness.objective.aggregation import Aggregation
from harness.objective.types import Tensor, TokenCounts


@dataclass
class Config(Aggregation):
    """No settings. Groups are never split over updates, so a group's tokens are known where it is trained."""

    kind: str = "group_token_mean"

    def response_weights(self, lengths_R: Tensor, group_R: Tensor, counts: TokenCounts) -> Tensor:
        _, index_R = group_R.unique(return_inverse=True)
        lengths = lengths_R.double()
        tokens_P = lengths.new_zeros(int(index_R.max()) + 1 if len(index_R) else 0).index_add_(0, index_R, lengths)
        return 1.0 / (tokens_P.clamp(min=1)[index_R] * counts.groups)

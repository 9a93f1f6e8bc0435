"""Mean over micro-batches of the token mean of each: what the DAPO paper's run and its 50/52 % reproduction really computed.

verl before its fix (verl PR #623), TRL's "bnpo", SkyRL's "token_mean_legacy". There the micro-batch is an accident of memory layout;
here it is declared: responses in their order, cut so that no micro-batch exceeds `micro_batch_tokens` loss tokens, or by number.
"""

from dataclasses import dataclass

from harness.configuration.error import ranged
from harness.objective.aggregation import Aggregation
from harness.objective.types import Tensor, TokenCounts


@dataclass
class Config(Aggregation):
    """A micro-batch, by tokens or by responses.

    Attributes:
        micro_batch_tokens: loss tokens at most in one declared micro-batch (a longer response has one of its own).
        micro_batch_responses: instead of that, so many responses in each (TRL's per_device_train_batch_size); null: by tokens.
    """

    kind: str = "microbatch_token_mean"
    micro_batch_tokens: int = ranged(128, low=1)
    micro_batch_responses: int | None = ranged(None, low=1, neutral=True)
    weighs_as = None  # its micro-batches are no common reference

    def response_weights(self, lengths_R: Tensor, group_R: Tensor, counts: TokenCounts) -> Tensor:
        index_R = self._assign(lengths_R)
        micro_batches = int(index_R[-1]) + 1 if len(index_R) else 0
        lengths = lengths_R.double()
        tokens = lengths.new_zeros(micro_batches).index_add_(0, index_R, lengths)
        return 1.0 / (tokens.clamp(min=1)[index_R] * micro_batches)

    def _assign(self, lengths_R: Tensor) -> Tensor:
        """The micro-batch number of each response, cut in the given order; by tokens greedily."""
        if self.micro_batch_responses:
            return lengths_R.new_ones(len(lengths_R)).cumsum(0).sub(1) // self.micro_batch_responses
        numbers, number, tokens, limit = [], 0, 0, self.micro_batch_tokens
        for length in lengths_R.tolist():
            if length and tokens and tokens + length > limit:  # a masked response opens none
                number, tokens = number + 1, 0
            tokens += length
            numbers.append(number)
        return lengths_R.new_tensor(numbers)

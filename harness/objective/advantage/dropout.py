"""GRPODropout: a group's likeliest good responses are left out, the rest centred by probability (arXiv:2610.11854 Eq. 2, 4, 7, 9).

With s the surprisal a token of a response under the old policy, h = A (s - mean s) is what its update adds to the entropy, to first order.
The most negative h are taken out until the rest sums to no less than 0; responses with A ≤ 0 come back; and what is left loses its mean
advantage weighted by e^-s. A is the group member's, whose settings these are. The authors' code asks for a sum above 0 and keeps at least
a quarter of a group, takes responses out of the batch (here they stay in the denominators), and is read from their repository.
"""

from dataclasses import dataclass

from harness.objective.advantage import Advantage, group
from harness.objective.advantage.group import equal_returns
from harness.objective.types import RolloutBatch, Tensor

_ROUNDING = 1e-12


@dataclass
class Config(group.Config):
    """The settings of `group`: how the advantages are made of which some are dropped."""

    kind: str = "dropout"

    def centring_fix(self) -> str:
        return Advantage.centring_fix(self)

    def advantages(self, batch: RolloutBatch) -> Tensor:
        assert batch.old_logprobs_N is not None
        counted_PG, lengths_PG = batch.counted_PG.double(), batch.lengths_PG
        native_PG = self.of_responses(batch)
        logprobs_PG = batch.sums_PG(batch.old_logprobs_N.double()) / lengths_PG.clamp(min=1)
        mean = (logprobs_PG * counted_PG).sum(1, keepdim=True) / counted_PG.sum(1, keepdim=True).clamp(min=1)
        entropy_PG = native_PG * (mean - logprobs_PG) * counted_PG
        sorted_PG, order_PG = entropy_PG.sort(1)
        rest = sorted_PG.flip(1).cumsum(1).flip(1)  # what is left once all before are out
        dropped_PG = (rest < -_ROUNDING).gather(1, order_PG.argsort(1)) & (native_PG > 0)
        weights = (logprobs_PG - mean).exp() * counted_PG * ~dropped_PG
        advantages_PG = native_PG - (weights * native_PG).sum(1, keepdim=True) / weights.sum(1, keepdim=True).clamp(
            min=1e-300
        )
        dead = equal_returns(batch.returns_PG, counted_PG)[:, None]
        return batch.per_token((advantages_PG * counted_PG).masked_fill(dropped_PG | dead, 0.0))

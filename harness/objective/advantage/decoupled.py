"""Decoupled rewards: each reward component is normalised within its group before they are summed (GDPO, arXiv:2601.05242).

A_i = Σ_c w_c · z_c,i with z_c the group z-score of component c (0 where it has no spread in the group), then divided by the batch's
standard deviation. The components are the addends of the shaped reward: outcome, format credit, length penalty. Normalising the *sum*
instead (GRPO) lets different combinations of rewards collapse onto the same advantage. With one component this is the z-score divided
by a batch constant. TRL's `normalize_then_sum` normalises per sequence as here, verl whitens per token.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from harness.configuration.error import choice, ranged
from harness.configuration.schema import RunConfig
from harness.objective.advantage import Advantage, refuse_kl_in_reward
from harness.objective.advantage.group import centre, divide, group_std, weighted_moments
from harness.objective.types import RolloutBatch, Tensor


@dataclass
class Config(Advantage):
    """Weights of the normalised components, and the normalisations.

    Attributes:
        outcome_weight: of right or wrong.
        format_weight: of the format credit (`reward.format_credit` must not be 0 for it to count).
        length_weight: of the soft overlong penalty (`overlong.policy` must punish for it to count).
        ddof: of both standard deviations.
        epsilon: added to both.
        batch_normalise: divide the sum by the batch's standard deviation over sequences.
    """

    kind: str = "decoupled"
    outcome_weight: float = 1.0
    format_weight: float = 1.0
    length_weight: float = 1.0
    ddof: int = choice(1, of=(0, 1))
    epsilon: float = ranged(1e-4, low=0.0)
    batch_normalise: bool = True
    uses_components = True

    def refusals(self, run: RunConfig) -> Iterator[str]:
        reads = "algorithm.advantage=decoupled normalises the addends of the reward"
        if run.algorithm.overlong.multiplies:
            yield f"{reads}; use algorithm.overlong.shape=additive"
        if run.algorithm.reward.function:
            yield f"{reads}, and algorithm.reward.function gives a sum; choose another advantage"
        yield from refuse_kl_in_reward(run)

    def advantages(self, batch: RolloutBatch) -> Tensor:
        import torch

        assert batch.components_PGC is not None
        counted_PG = batch.counted_PG.double()
        weights = (self.outcome_weight, self.format_weight, self.length_weight)
        total = torch.zeros_like(counted_PG)
        for component, weight in zip(batch.components_PGC.double().unbind(-1), weights, strict=True):
            std = group_std(component, counted_PG, self.ddof)
            total = total + weight * divide(centre(component, counted_PG, "group_mean"), std, self.epsilon)
        if self.batch_normalise:
            # Every group's sum has mean zero, so there is nothing to subtract.
            _, std = weighted_moments(total, counted_PG, self.ddof)
            total = divide(total, std, self.epsilon)
        return batch.per_token(total * counted_PG)

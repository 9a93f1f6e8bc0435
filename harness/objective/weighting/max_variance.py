"""Only those responses of each group that have the largest reward variance together (PODS, arXiv:2504.13818; DataFlex-RL's `max_variance`).

The best n are the a lowest and the n - a highest rewards for some a, so all a are tried. Advantages stay those of the whole group, as in
DataFlex-RL; PODS computes them anew among the responses that are left.
"""

from dataclasses import dataclass

from harness.configuration.error import ranged
from harness.objective.types import RolloutBatch, Tensor
from harness.objective.weighting import Weighting


@dataclass
class Config(Weighting):
    """`fraction`: share of each group's responses that train."""

    kind: str = "max_variance"
    fraction: float = ranged(0.5, low=1e-6, high=1.0)

    @property
    def judges_groups(self) -> bool:
        return True

    def weights(self, advantages_PG: Tensor, batch: RolloutBatch) -> Tensor:
        import torch

        size = advantages_PG.shape[1]
        number = max(1, round(self.fraction * size))
        order_PG = batch.returns_PG.argsort(dim=1, stable=True)
        rewards_PG = batch.returns_PG.gather(1, order_PG)
        subsets = [torch.cat([torch.arange(low), torch.arange(size - number + low, size)]) for low in range(number + 1)]
        variance_PA = torch.stack([rewards_PG[:, subset].var(1, correction=0) for subset in subsets], 1)
        best_PN = order_PG.gather(1, torch.stack(subsets)[variance_PA.argmax(1)])
        return torch.zeros_like(batch.returns_PG).scatter_(1, best_PN, 1.0)

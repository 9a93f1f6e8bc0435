"""Likelihood training as an advantage: 1 on every response (SFT), or 1 on right ones and 0 on wrong ones (RFT, online RFT).

The gradient coefficients of the unified paradigm, DeepSeekMath arXiv:2402.03300 Table 10. Rewards do not enter.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from harness.configuration.error import choice
from harness.configuration.schema import RunConfig
from harness.objective.advantage import Advantage, refuse_kl_in_reward
from harness.objective.types import RolloutBatch, Tensor


@dataclass
class Config(Advantage):
    """`imitate`: all responses, or right ones."""

    kind: str = "imitation"
    imitate: str = choice("right", of=("all", "right"))
    dead_groups_vanish = False  # an all-right group is the best there is to imitate

    def refusals(self, run: RunConfig) -> Iterator[str]:
        yield from refuse_kl_in_reward(run)

    def advantages(self, batch: RolloutBatch) -> Tensor:
        counted_PG = batch.counted_PG.double()
        return batch.per_token(counted_PG * batch.correct_PG.double() if self.imitate == "right" else counted_PG)

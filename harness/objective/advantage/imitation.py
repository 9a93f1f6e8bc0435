"""Likelihood training as an advantage: 1 on every response (SFT), or 1 on right ones and 0 on wrong ones (RFT, online RFT).

The gradient coefficients of the unified paradigm, DeepSeekMath arXiv:2402.03300 Table 10. Rewards do not enter.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.configuration.limits import Checked, choice
from harness.objective.types import RolloutBatch, Tensor

DEAD_GROUPS_VANISH = False  # an all-right group is the best there is to imitate


@dataclass
class Config(Checked, key="algorithm.advantage"):
    """`imitate`: all responses, or right ones."""

    kind: str = "imitation"
    imitate: str = choice("right", of=("all", "right"))


def advantages(batch: RolloutBatch, config: Config) -> Tensor:
    """See the family's contract."""
    counted = batch.counted_PG.double()
    return batch.per_token(counted * batch.correct_PG.double() if config.imitate == "right" else counted)

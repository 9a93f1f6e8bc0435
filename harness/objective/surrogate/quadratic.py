"""DRO: -(A log π - β/2 (log π - log π_old)²): REINFORCE with a quadratic pull to the old policy and no ratio (verl and Tinker: `dro`).

The name is that of arXiv:2405.19107, whose own loss also fits a value; these trainers keep the penalty and take any advantage. It pulls at
tokens without advantage, too. Checked against verl's code and Tinker's page, not against a paper's text.
"""

from dataclasses import dataclass

from harness.configuration.error import ranged
from harness.objective.surrogate import Surrogate
from harness.objective.types import Tensor, TokenBatch


@dataclass
class Config(Surrogate):
    """`coefficient`: β > 0, of half the squared log-ratio (Tinker's example: 0.05; verl has no default)."""

    kind: str = "quadratic"
    coefficient: float = ranged(0.05, low=1e-9)
    trains_without_advantage = True
    ratio_keys = ("coefficient",)

    def token_loss(self, logprobs_N: Tensor, log_ratio_N: Tensor, batch: TokenBatch) -> Tensor:
        return 0.5 * self.coefficient * log_ratio_N.square() - batch.advantages_N * logprobs_N

"""KL-Cov: -ρA, plus β·|log ρ| on the tokens of highest covariance (arXiv:2505.22617; verl `kl_cov`).

The `fraction` of the update's tokens with the largest (log π - mean)(A - mean) is held near the sampling policy; nothing is clipped.
The penalty is |log ρ| as in verl's port of the authors' code (the paper's text was not read). There means and share are of a
micro-batch, here of the whole optimiser update. Tokens without advantage may be among the chosen, so none can be skipped.
"""

from dataclasses import dataclass

from harness.configuration.error import ranged
from harness.objective.surrogate import Surrogate
from harness.objective.types import Tensor, TokenBatch


@dataclass
class Config(Surrogate):
    """`fraction`: share of the update's tokens; `coefficient`: β of the penalty, nats to loss."""

    kind: str = "kl_cov"
    fraction: float = ranged(2e-3, low=1e-9, high=1.0)
    coefficient: float = ranged(1.0, low=0.0)
    selects = True
    trains_without_advantage = True
    ratio_keys = ("fraction", "coefficient")  # at ratio 1 the penalty has neither value nor gradient

    def select(self, logprobs_N: Tensor, old_logprobs_N: Tensor, advantages_N: Tensor, draws_N: Tensor) -> Tensor:
        """The tokens that are penalised; of equal covariances the earlier token."""
        from harness.objective.correction import first_tokens, token_covariance

        order = token_covariance(logprobs_N, advantages_N).argsort(descending=True, stable=True)
        return first_tokens(order, self.fraction, len(logprobs_N))

    def token_loss(self, logprobs_N: Tensor, log_ratio_N: Tensor, batch: TokenBatch) -> Tensor:
        assert batch.selected_N is not None
        penalty = self.coefficient * log_ratio_N.abs() * batch.selected_N
        return penalty - log_ratio_N.exp() * batch.advantages_N

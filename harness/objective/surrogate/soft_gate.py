"""SAPO: -(4/τ) σ(τ(ρ - 1)) A with τ by the advantage's sign: a smooth gate instead of a clip (arXiv:2511.20347).

The slope in ρ is 4σ(1 - σ), at most 1 and that at ρ = 1, so off-policy tokens fade out on both sides. The larger τ for negative advantages
lets them fade faster. Checked against verl's and TRL's code, not against the paper's text.
"""

from dataclasses import dataclass

from harness.configuration.error import ranged
from harness.objective.surrogate import Surrogate
from harness.objective.types import Tensor, TokenBatch


@dataclass
class Config(Surrogate):
    """`temperature_positive`: τ for positive advantages, larger is narrower; `temperature_negative`: for others."""

    kind: str = "soft_gate"
    temperature_positive: float = ranged(1.0, low=1e-9)
    temperature_negative: float = ranged(1.05, low=1e-9)
    ratio_keys = ("temperature_positive", "temperature_negative")

    def token_loss(self, logprobs_N: Tensor, log_ratio_N: Tensor, batch: TokenBatch) -> Tensor:
        positive = (batch.advantages_N > 0).to(log_ratio_N.dtype)
        temperature = positive * self.temperature_positive + (1 - positive) * self.temperature_negative
        gate = (temperature * (log_ratio_N.exp() - 1)).sigmoid() * 4 / temperature
        return -gate * batch.advantages_N

"""PPO's clipped surrogate with separate bounds: -min(ρA, clip(ρ, 1-ε_low, 1+ε_high) A).

Clip-higher is ε_high > ε_low (DAPO, arXiv:2503.14476 Eq. 10). The optional dual clip bounds the loss for negative advantages by -cA
(arXiv:1912.09729); verl always has it on, the papers' formulas do not.
"""

from dataclasses import dataclass

from harness.configuration.error import ConfigError, ranged
from harness.engagement.measure import CLIPPED_HIGH, CLIPPED_LOW, RELEASED, KeyedMeasures
from harness.objective.surrogate import Surrogate
from harness.objective.types import Tensor, TokenBatch


@dataclass
class Config(Surrogate):
    """The ratio is clipped to 1 - `clip_low` and 1 + `clip_high`; `dual_clip`: the constant c > 1, null: none."""

    kind: str = "ppo_clip"
    clip_low: float = ranged(0.2, low=0.0, high=1.0)
    clip_high: float = ranged(0.2, low=0.0)
    dual_clip: float | None = None
    far_tokens = "clipped"
    ratio_keys = ("clip_low", "clip_high", "dual_clip")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.dual_clip is not None and not self.dual_clip > 1:
            raise ConfigError(f"algorithm.surrogate.dual_clip={self.dual_clip} must be greater than 1, or null")

    def token_loss(self, logprobs_N: Tensor, log_ratio_N: Tensor, batch: TokenBatch) -> Tensor:
        import torch

        ratio, advantages = log_ratio_N.exp(), batch.advantages_N
        gain = torch.minimum(ratio * advantages, ratio.clamp(1 - self.clip_low, 1 + self.clip_high) * advantages)
        if self.dual_clip is not None:
            gain = torch.where(advantages < 0, torch.maximum(gain, self.dual_clip * advantages), gain)
        return -gain

    def clipped(self, logprobs_N: Tensor, ratio_N: Tensor, batch: TokenBatch) -> tuple[Tensor, Tensor]:
        return clipped_tokens(ratio_N, batch.advantages_N, self.clip_low, self.clip_high)

    def released(self, ratio_N: Tensor, advantages_N: Tensor) -> Tensor:
        """Tokens (A > 0) with 1 + clip_low < ratio ≤ 1 + clip_high: the symmetric bound would remove their gradient, this one keeps it."""
        between_bounds = (ratio_N > 1 + self.clip_low) & (ratio_N <= 1 + self.clip_high)
        return between_bounds & (advantages_N > 0)

    def off_ratio(self) -> bool:  # a symmetric clip is what all have
        return self.clip_high != self.clip_low or self.dual_clip is not None

    def engagement(self, old: Surrogate) -> KeyedMeasures:
        assert isinstance(old, Config)
        if old.clip_high != self.clip_high:
            narrow, wide = sorted((old, self), key=lambda config: config.clip_high)
            # A run knows its own bounds only: what a bound releases beyond the symmetric one it counts itself.
            symmetric = narrow.clip_high == wide.clip_low
            yield "clip_high", RELEASED if symmetric else CLIPPED_HIGH, (wide if symmetric else narrow) is self
        if old.clip_low != self.clip_low:
            yield "clip_low", CLIPPED_LOW, self.clip_low < old.clip_low


def clipped_tokens(ratio_N: Tensor, advantages_N: Tensor, low: float, high: float) -> tuple[Tensor, Tensor]:
    """Tokens below 1 - low with A < 0, and tokens above 1 + high with A > 0."""
    return (ratio_N < 1 - low) & (advantages_N < 0), (ratio_N > 1 + high) & (advantages_N > 0)

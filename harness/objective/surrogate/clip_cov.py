"""Clip-Cov: PPO's clipped surrogate without gradient on a few random tokens of high covariance (arXiv:2505.22617; verl `clip_cov`).

Of the update's tokens that the ratio bounds leave alone and whose covariance (log π - mean)(A - mean) lies between `low` and `high`, a
share `fraction` of all tokens is drawn at random and loses its loss. Checked against verl's code, not against the paper's text. There
means, share and draw are of a micro-batch; here of the whole optimiser update, and the draw is a function of seed, step and token.
"""

from dataclasses import dataclass

from harness.configuration.error import ConfigError, ranged
from harness.objective.surrogate import Surrogate, ppo_clip
from harness.objective.types import Tensor, TokenBatch


@dataclass
class Config(Surrogate):
    """`clip_low`, `clip_high`: as in ppo_clip; `fraction`: share of the update's tokens; `low`, `high`: bounds of the covariance."""

    kind: str = "clip_cov"
    clip_low: float = ranged(1.0, low=0.0, high=1.0)
    clip_high: float = ranged(1.0, low=0.0)
    fraction: float = ranged(2e-4, low=1e-9, high=1.0)
    low: float = 1.0
    high: float = 5.0
    selects = True
    ratio_keys = ("clip_low", "clip_high")

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.low < self.high:  # one that is no number, too
            raise ConfigError(f"algorithm.surrogate.low={self.low} must be less than its high={self.high}")

    def select(self, logprobs_N: Tensor, old_logprobs_N: Tensor, advantages_N: Tensor, draws_N: Tensor) -> Tensor:
        """The tokens that lose their gradient: among those in the band, the ones with the smallest draws."""
        from harness.objective.correction import first_tokens, token_covariance

        ratio_N = (logprobs_N - old_logprobs_N).exp()
        low_N, high_N = ppo_clip.clipped_tokens(ratio_N, advantages_N, self.clip_low, self.clip_high)
        covariance_N = token_covariance(logprobs_N, advantages_N)
        in_band_N = (covariance_N > self.low) & (covariance_N < self.high) & ~(low_N | high_N)
        candidates = in_band_N.nonzero()[:, 0]
        order = draws_N[candidates].argsort()
        return first_tokens(candidates[order], self.fraction, len(logprobs_N))

    def token_loss(self, logprobs_N: Tensor, log_ratio_N: Tensor, batch: TokenBatch) -> Tensor:
        assert batch.selected_N is not None
        bounds = ppo_clip.Config(clip_low=self.clip_low, clip_high=self.clip_high)
        return bounds.token_loss(logprobs_N, log_ratio_N, batch) * ~batch.selected_N

    def clipped(self, logprobs_N: Tensor, ratio_N: Tensor, batch: TokenBatch) -> tuple[Tensor, Tensor]:
        """Tokens whose gradient the ratio's bounds removed; those of the covariance are counted in `selected_fraction`."""
        return ppo_clip.clipped_tokens(ratio_N, batch.advantages_N, self.clip_low, self.clip_high)

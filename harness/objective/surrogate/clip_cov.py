"""Clip-Cov: PPO's clipped surrogate without gradient on a few random tokens of high covariance (arXiv:2505.22617; verl `clip_cov`).

Of the update's tokens that the ratio bounds leave alone and whose covariance (log π - mean)(A - mean) lies between `low` and `high`, a
share `fraction` of all tokens is drawn at random and loses its loss. Checked against verl's code, not against the paper's text. There
means, share and draw are of a micro-batch; here of the whole optimiser update, and the draw is a function of seed, step and token.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.configuration.error import ConfigError
from harness.configuration.limits import Checked, ranged
from harness.objective.surrogate import ppo_clip
from harness.objective.types import Tensor, TokenBatch

RATIO_KEYS = ("clip_low", "clip_high")
NAMES = {"verl": "clip_cov"}
KEYS = {
    "verl": {
        "clip_ratio_low": "clip_low",
        "clip_ratio_high": "clip_high",
        "policy_loss.clip_cov_ratio": "fraction",
        "policy_loss.clip_cov_lb": "low",
        "policy_loss.clip_cov_ub": "high",
    }
}


@dataclass
class Config(Checked, key="algorithm.surrogate"):
    """`clip_low`, `clip_high`: as in ppo_clip; `fraction`: of the update's tokens; `low` < `high`: bounds of the covariance."""

    kind: str = "clip_cov"
    clip_low: float = ranged(1.0, low=0.0, high=1.0)
    clip_high: float = ranged(1.0, low=0.0)
    fraction: float = ranged(2e-4, low=1e-9, high=1.0)
    low: float = 1.0
    high: float = 5.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.low >= self.high:
            raise ConfigError(
                f"algorithm.surrogate.low={self.low} must be less than algorithm.surrogate.high={self.high}"
            )


def select(
    log_probs_N: Tensor, old_log_probs_N: Tensor, advantages_N: Tensor, draws_N: Tensor, config: Config
) -> Tensor:
    """The tokens that lose their gradient: among those in the band, the ones with the smallest draws."""
    from harness.objective.covariance import count, marked, token_covariance

    low_N, high_N = clipped((log_probs_N - old_log_probs_N).exp(), advantages_N, config)
    covariance_N = token_covariance(log_probs_N, advantages_N)
    inside = (covariance_N > config.low) & (covariance_N < config.high) & ~(low_N | high_N)
    candidates = inside.nonzero()[:, 0]
    order = draws_N[candidates].argsort()
    return marked(candidates[order[: count(config.fraction, len(log_probs_N))]], log_probs_N)


def token_loss(log_probs_N: Tensor, log_ratio_N: Tensor, batch: TokenBatch, config: Config) -> Tensor:
    """See the family's contract. Raises ValueError without `TokenBatch.selected_N`."""
    if batch.selected_N is None:
        raise ValueError("clip_cov needs TokenBatch.selected_N")
    bounds = ppo_clip.Config(clip_low=config.clip_low, clip_high=config.clip_high)
    return ppo_clip.token_loss(log_probs_N, log_ratio_N, batch, bounds) * ~batch.selected_N


def clipped(ratio_N: Tensor, advantages_N: Tensor, config: Config) -> tuple[Tensor, Tensor]:
    """Tokens whose gradient the ratio's bounds removed; those of the covariance are counted in `selected_fraction`."""
    bounds = ppo_clip.Config(clip_low=config.clip_low, clip_high=config.clip_high)
    return ppo_clip.clipped(ratio_N, advantages_N, bounds)

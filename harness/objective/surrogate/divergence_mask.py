"""DPPO (arXiv:2602.04879): a trust region in probabilities, not ratios: -sg(min(ρ, cap)) A log π where the divergence allows it.

With p = π_θ and q = π_old of the sampled token, the divergence is p - q (total variation of token against not-token, with its sign)
or KL(q ‖ p) of the two-point distributions. A token that moved along its advantage beyond the threshold has no gradient: a rare
token may multiply its probability, a frequent one may not lose a fifth of all mass. Checked against verl's `dppo_tv` and `dppo_kl`
and SkyRL's `dppo`, not against the paper's text. Undirected it is prime-rl's IPO (its default loss since PR #3418): |p - q| above the
threshold has no gradient, whichever way the advantage points.
"""

from dataclasses import dataclass

from harness.configuration.error import choice, ranged
from harness.configuration.registry import neutral
from harness.objective.surrogate import Surrogate
from harness.objective.types import Tensor, TokenBatch

_TINY = 1e-8  # keeps log(1 - p) finite at p = 1, as in verl


@dataclass
class Config(Surrogate):
    """Divergence and its thresholds.

    Attributes:
        divergence: tv or kl.
        threshold_low: for negative advantages (0.2 for tv, 0.05 for kl in SkyRL).
        threshold_high: for positive ones.
        cap: the largest importance weight.
        directed: only a move along the advantage is stopped; off: one against it, too.
    """

    kind: str = "divergence_mask"
    divergence: str = choice("tv", of=("tv", "kl"))
    threshold_low: float = ranged(0.2, low=0.0)
    threshold_high: float = ranged(0.2, low=0.0)
    cap: float = ranged(20.0, low=1.0)
    directed: bool = neutral(True)
    far_tokens = "stopped"
    ratio_keys = ("divergence", "threshold_low", "threshold_high", "cap", "directed")

    def token_loss(self, logprobs_N: Tensor, log_ratio_N: Tensor, batch: TokenBatch) -> Tensor:
        mask_N = self.gradient_mask(logprobs_N.detach(), batch.old_logprobs_N, batch.advantages_N)
        weight = log_ratio_N.detach().exp().clamp(max=self.cap) * mask_N
        return -weight * batch.advantages_N * logprobs_N

    def gradient_mask(self, logprobs_N: Tensor, old_logprobs_N: Tensor, advantages_N: Tensor) -> Tensor:
        """Find the tokens that keep their gradient, bool [N]."""
        import torch

        new, old = logprobs_N.exp(), old_logprobs_N.exp()
        if self.divergence == "tv":
            below_high, above_low = (new - old) <= self.threshold_high, (new - old) >= -self.threshold_low
        else:
            kl = old * (old_logprobs_N - logprobs_N) + (1 - old) * ((1 - old + _TINY) / (1 - new + _TINY)).log()
            below_high, above_low = (
                (kl <= self.threshold_high) | (new <= old),
                (kl <= self.threshold_low) | (new >= old),
            )
        return torch.where(advantages_N > 0, below_high, above_low) if self.directed else below_high & above_low

    def clipped(self, logprobs_N: Tensor, ratio_N: Tensor, batch: TokenBatch) -> tuple[Tensor, Tensor]:
        """Tokens outside the trust region, those of negative and those of positive advantage."""
        stopped_N = ~self.gradient_mask(logprobs_N, batch.old_logprobs_N, batch.advantages_N)
        return stopped_N & (batch.advantages_N < 0), stopped_N & (batch.advantages_N > 0)

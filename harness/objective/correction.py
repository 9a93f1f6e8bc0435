"""Factors of single tokens: importance weights between the sampler and the trainer, and the choice of tokens by entropy or covariance.

The engine that samples and the model that trains compute the same policy π with other kernels and precisions, so responses come from
π_sampler, slightly off the π_trainer that the objective assumes. Weights w = π_trainer / π_sampler correct for it (truncated importance
sampling: Espeholt et al., arXiv:1802.01561; for RLVR: Yao et al. 2025 and Olmo 3, arXiv:2512.13961 §4.4.1).
"""

from dataclasses import dataclass
from typing import Self

import numpy as np
import torch

from harness.objective.types import Tensor, response_index


def engine_weights(
    trainer_N: Tensor, sampler_N: Tensor, lengths_R: Tensor, kind: str, cap: float, floor: float = 0.0
) -> Tensor:
    """A factor for each token's loss, [N], without gradient, from log-probabilities (nats) before the first update.

    token: w_t cut to [floor, cap]. token_mask: w_t, and 0 outside (two-sided: IcePop, arXiv:2510.18855). sequence, sequence_mask: the same
    with the product of the response's w_t for each of its tokens. geometric_mask: 1, and 0 for a response whose geometric mean of w_t is
    outside.
    """
    log_weight_N = trainer_N - sampler_N
    if not kind.startswith("token"):
        response_N = response_index(lengths_R)
        sums_R = torch.zeros(len(lengths_R), dtype=torch.float64).index_add_(0, response_N, log_weight_N.double())
        if kind == "geometric_mask":
            sums_R = sums_R / lengths_R.clamp(min=1)
        log_weight_N = sums_R.to(log_weight_N.dtype)[response_N]
    weight_N = log_weight_N.exp()
    if not kind.endswith("_mask"):
        return weight_N.clamp(floor, cap)
    kept_N = (weight_N >= floor) & (weight_N <= cap)
    if kind == "geometric_mask":
        return kept_N.to(weight_N.dtype)
    return torch.where(kept_N, weight_N, 0.0)


@dataclass(frozen=True)
class Mismatch:
    """The distance of the sampler's log-probabilities from the trainer's, over the tokens of a step."""

    gap_mean: float  # mean |log π_trainer − log π_sampler|, nats
    gap_max: float
    kl: float  # mean of r − 1 − log r with r = π_trainer / π_sampler: unbiased for KL(sampler ‖ trainer), nats a token

    @classmethod
    def between(cls, trainer_N: Tensor, sampler_N: Tensor) -> Self:
        if not len(trainer_N):
            return cls(float("nan"), float("nan"), float("nan"))
        log_ratio = (trainer_N - sampler_N).double()
        gap = log_ratio.abs()
        return cls(float(gap.mean()), float(gap.max()), float((log_ratio.expm1() - log_ratio).mean()))


def high_entropy_tokens(entropy_N: Tensor, loss_N: Tensor, fraction: float) -> Tensor:
    """The tokens whose entropy is at or above the (1 - fraction) quantile of the loss tokens', ties included, bool [N].

    "80/20" (Wang et al., arXiv:2506.01939; TRL `top_entropy_quantile`). Checked against TRL's code, not against the paper's text.
    `entropy_N`: of the policy that sampled, in nats. `loss_N`: which tokens carry loss at all.
    """
    if not bool(loss_N.any()):
        return loss_N.clone()
    # As torch.quantile, without its limit on the number of tokens.
    threshold = float(np.quantile(entropy_N[loss_N].double().numpy(force=True), 1 - fraction))
    return loss_N & (entropy_N.double() >= threshold)


def token_covariance(logprobs_N: Tensor, advantages_N: Tensor) -> Tensor:
    """(log π - mean log π) · (A - mean A) for each of the given tokens, float64 [N]; means are over these tokens.

    To first order a step that raises the logits in proportion to A changes a softmax policy's entropy by minus the covariance of log π
    and A (arXiv:2505.22617). Checked against verl's port of the authors' code, not against the paper's text.
    """
    logprobs_N, advantages_N = logprobs_N.double(), advantages_N.double()
    return (logprobs_N - logprobs_N.mean()) * (advantages_N - advantages_N.mean())


def first_tokens(places: Tensor, fraction: float, tokens: int) -> Tensor:
    """The first of these places, as many as the share of all tokens rounded down, at least one; bool [N]."""
    mask_N = torch.zeros(tokens, dtype=torch.bool)
    mask_N[places[: max(1, int(fraction * tokens))]] = True
    return mask_N

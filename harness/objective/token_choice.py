"""Choosing some tokens of an update: those of high entropy, and those of high covariance with the advantage."""

from __future__ import annotations

import torch

from harness.objective.types import Tensor


def high_entropy_tokens(entropy_N: Tensor, loss_N: Tensor, fraction: float) -> Tensor:
    """The tokens whose entropy is at or above the (1 - fraction) quantile of the loss tokens', bool [N].

    "80/20" (Wang et al., arXiv:2506.01939; TRL `top_entropy_quantile`). Checked against TRL's code, not against the paper's text.

    Args:
        entropy_N: of the policy that sampled, in nats.
        loss_N: which tokens carry loss at all; others are never chosen.
        fraction: share of tokens to keep, in (0, 1]. Ties at the quantile are kept.
    """
    if not bool(loss_N.any()):
        return loss_N.clone()
    ordered = entropy_N[loss_N].double().sort().values
    # linear interpolation between order statistics, as torch.quantile has it without a limit on the number of tokens
    place = (1 - fraction) * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    threshold = ordered[low] + (ordered[high] - ordered[low]) * (place - low)
    return loss_N & (entropy_N.double() >= threshold)


def token_covariance(logprobs_N: Tensor, advantages_N: Tensor) -> Tensor:
    """(log π - mean log π) · (A - mean A) for each of the given tokens, float64 [N]; means are over these tokens.

    To first order a step that raises the logits in proportion to A changes a softmax policy's entropy by minus the covariance of log π
    and A (arXiv:2505.22617). Checked against verl's port of the authors' code, not against the paper's text.
    """
    logprobs_N, advantages_N = logprobs_N.double(), advantages_N.double()
    return (logprobs_N - logprobs_N.mean()) * (advantages_N - advantages_N.mean())


def count(fraction: float, tokens: int) -> int:
    """Count the tokens of a share: rounded down, at least one."""
    return max(1, int(fraction * tokens))


def marked(places: Tensor, like_N: Tensor) -> Tensor:
    """True at these places, bool [N]."""
    chosen_N = torch.zeros(len(like_N), dtype=torch.bool)
    chosen_N[places] = True
    return chosen_N

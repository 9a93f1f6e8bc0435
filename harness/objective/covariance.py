"""The entropy that a token's update takes away: the covariance of its log-probability with its advantage (arXiv:2505.22617).

To first order a step that raises the logits in proportion to A changes a softmax policy's entropy by minus the covariance of log π and
A. Checked against verl's port of the authors' code, not against the paper's text.
"""

from __future__ import annotations

import torch

from harness.objective.types import Tensor


def token_covariance(log_probs_N: Tensor, advantages_N: Tensor) -> Tensor:
    """(log π - mean log π) · (A - mean A) for each of the given tokens, float64 [N]; means are over these tokens."""
    log_probs_N, advantages_N = log_probs_N.double(), advantages_N.double()
    return (log_probs_N - log_probs_N.mean()) * (advantages_N - advantages_N.mean())


def count(fraction: float, tokens: int) -> int:
    """Count the tokens of a share: rounded down, at least one."""
    return max(1, int(fraction * tokens))


def marked(places: Tensor, like_N: Tensor) -> Tensor:
    """True at these places, bool [N]."""
    chosen_N = torch.zeros(len(like_N), dtype=torch.bool)
    chosen_N[places] = True
    return chosen_N

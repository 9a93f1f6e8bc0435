"""Training on the most uncertain tokens alone: "80/20" (Wang et al., arXiv:2506.01939; TRL `top_entropy_quantile`).

Checked against TRL's code, not against the paper's text.
"""

from __future__ import annotations

from harness.objective.types import Tensor


def high_entropy_tokens(entropy_N: Tensor, loss_N: Tensor, fraction: float) -> Tensor:
    """The tokens whose entropy is at or above the (1 - fraction) quantile of the loss tokens', bool [N].

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

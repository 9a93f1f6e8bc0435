"""Choosing one token a row from logits and one uniform number a row."""

from __future__ import annotations

import torch

from harness.rollout.native import filtered
from harness.rollout.types import SamplingParams


def choose(
    logits_RV: torch.Tensor, uniform_R: torch.Tensor, params: SamplingParams
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Sample by the inverse distribution function: the same uniform number gives the same token, as in the native engine.

    Args:
        logits_RV: raw logits.
        uniform_R: numbers in (0, 1], float64; unused at temperature 0.
        params: temperature, top-k and top-p are applied in this order.

    Returns:
        Token ids [R], their log-probabilities and the entropy (nats) of the distribution that was sampled from.
    """
    logits = logits_RV.float()
    if params.temperature not in (0.0, 1.0):
        logits = logits / params.temperature
    cut = bool(params.top_k) or params.top_p < 1
    if cut:
        logits = filtered(logits, params.top_k, params.top_p)
    log_probs = logits.log_softmax(-1)
    probs = log_probs.exp()
    if params.temperature == 0:
        chosen = log_probs.argmax(-1)
    else:
        cumulative = probs.double().cumsum(-1) if logits.shape[-1] > 4096 else probs.cumsum(-1)
        draw = uniform_R.to(cumulative.dtype) * cumulative[:, -1]
        chosen = torch.searchsorted(cumulative, draw[:, None])[:, 0]
    entropy = -(probs * (log_probs.masked_fill(probs == 0, 0.0) if cut else log_probs)).sum(-1)
    return chosen, log_probs.gather(-1, chosen[:, None])[:, 0], entropy

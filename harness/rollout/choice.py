"""Choosing one token a row from logits and one uniform number a row."""

from __future__ import annotations

import torch

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
        # The draw is scaled by the last cumulative value, so that rounding can never pick a token of probability zero.
        cumulative = probs.double().cumsum(-1) if logits.shape[-1] > 4096 else probs.cumsum(-1)
        draw = uniform_R.to(cumulative.dtype) * cumulative[:, -1]
        chosen = torch.searchsorted(cumulative, draw[:, None])[:, 0]
    entropy = -(probs * (log_probs.masked_fill(probs == 0, 0.0) if cut else log_probs)).sum(-1)
    return chosen, log_probs.gather(-1, chosen[:, None])[:, 0], entropy


def filtered(logits_RV: torch.Tensor, top_k: int, top_p: float) -> torch.Tensor:
    """Logits with tokens outside the top-k and outside the smallest set of mass ≥ top_p set to -inf.

    The most likely token always stays. Order: top-k first, then top-p on what is left (as vLLM and transformers do).
    """
    if top_k:
        threshold = logits_RV.topk(min(top_k, logits_RV.shape[-1]), -1).values[:, -1:]
        logits_RV = logits_RV.masked_fill(logits_RV < threshold, float("-inf"))
    if top_p < 1:
        ordered, index = logits_RV.sort(dim=-1, descending=True, stable=True)
        mass_before = ordered.softmax(-1).cumsum(-1) - ordered.softmax(-1)
        drop = mass_before >= top_p
        drop[:, 0] = False
        logits_RV = logits_RV.masked_fill(torch.zeros_like(drop).scatter(-1, index, drop), float("-inf"))
    return logits_RV

"""Choosing one token a row from logits and one uniform number a row.

A GPU adds floats in an order that may change from call to call, integers in any order to the same sum. So there probabilities are added up
as whole multiples of 2⁻⁴⁰: the same logits and number give the same token, always. What is lost is less than 2⁻⁴⁰ a token, and a token
below that (27.7 nats) is never chosen.
"""

from __future__ import annotations

import torch

from harness.rollout.types import SamplingParams

CHUNK_ELEMENTS = 2**20  # logits that a CPU looks at together: the copies of a large vocabulary stay small
_UNIT = 2.0**40  # scaling a float by a power of two is exact


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
    rows = max(1, CHUNK_ELEMENTS // logits_RV.shape[-1])
    if logits_RV.is_cuda or len(logits_RV) <= rows:
        return _choose(logits_RV, uniform_R, params)
    parts = zip(logits_RV.split(rows), uniform_R.split(rows), strict=True)
    chosen, log_probs, entropy = zip(*(_choose(*part, params) for part in parts), strict=True)
    return torch.cat(chosen), torch.cat(log_probs), torch.cat(entropy)


def _choose(
    logits_RV: torch.Tensor, uniform_R: torch.Tensor, params: SamplingParams
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
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
        chosen = draw_by_integers(probs, uniform_R) if logits.is_cuda else draw(probs, uniform_R)
    entropy = -(probs * (log_probs.masked_fill(probs == 0, 0.0) if cut else log_probs)).sum(-1)
    return chosen, log_probs.gather(-1, chosen[:, None])[:, 0], entropy


def draw(probs_RV: torch.Tensor, uniform_R: torch.Tensor) -> torch.Tensor:
    """The first token at which the summed probability reaches the uniform number, [R]."""
    cumulative = probs_RV.double().cumsum(-1) if probs_RV.shape[-1] > 4096 else probs_RV.cumsum(-1)
    # The draw is scaled by the last cumulative value, so that rounding can never pick a token of probability zero.
    drawn = uniform_R.to(cumulative.dtype) * cumulative[:, -1]
    return torch.searchsorted(cumulative, drawn[:, None])[:, 0]


def draw_by_integers(probs_RV: torch.Tensor, uniform_R: torch.Tensor) -> torch.Tensor:
    """`draw` with sums that no order of addition changes; see the module."""
    cumulative = _units(probs_RV).cumsum(-1)
    # At least 1: a token without a unit is never reached.
    drawn = (uniform_R.double() * cumulative[:, -1]).ceil().long().clamp(min=1)
    return torch.searchsorted(cumulative, drawn[:, None])[:, 0]


def _units(probs: torch.Tensor) -> torch.Tensor:
    return (probs * _UNIT).long()


def filtered(logits_RV: torch.Tensor, top_k: int, top_p: float) -> torch.Tensor:
    """Logits with tokens outside the top-k and outside the smallest set of mass ≥ top_p set to -inf.

    The most likely token always stays. Order: top-k first, then top-p on what is left (as vLLM and transformers do).
    """
    if top_k:
        threshold = logits_RV.topk(min(top_k, logits_RV.shape[-1]), -1).values[:, -1:]
        logits_RV = logits_RV.masked_fill(logits_RV < threshold, float("-inf"))
    if top_p < 1:
        ordered, index = logits_RV.sort(dim=-1, descending=True, stable=True)
        mass, enough = ordered.softmax(-1), top_p
        if mass.is_cuda:
            mass, enough = _units(mass), top_p * _UNIT
        drop = mass.cumsum(-1) - mass >= enough
        drop[:, 0] = False
        logits_RV = logits_RV.masked_fill(torch.zeros_like(drop).scatter(-1, index, drop), float("-inf"))
    return logits_RV

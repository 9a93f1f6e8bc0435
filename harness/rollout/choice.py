"""Choosing one token a row from logits and one uniform number a row, and the buffers of a batch of responses.

A GPU may add floats in another order from call to call; integers give the same sum in any order. So there probabilities are added up
as whole multiples of 2⁻⁴⁰: the same logits and number always give the same token. The loss is below 2⁻⁴⁰ a token, and a token
below that (27.7 nats) is never chosen.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

import numpy as np
import torch

from harness.rollout.types import Completions, SamplingParams

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


class ResponseBuffers:
    """The tokens of a batch of responses while they are decoded, one column a response.

    Args:
        seeds_R: one seed a response.
        params: of the request.
        device: where the logits are.
    """

    def __init__(self, seeds_R: np.ndarray, params: SamplingParams, device: torch.device) -> None:
        count, cap = len(seeds_R), params.max_response_tokens
        self.params = params
        self.uniform_TR = torch.from_numpy(uniforms(seeds_R, cap).T.copy()).to(device)
        self.tokens_TR = torch.zeros(cap, count, dtype=torch.long, device=device)
        self.log_probs_TR = torch.zeros(cap, count, device=device)
        self.entropy_TR = torch.zeros(cap, count, device=device)
        self.lengths_R = torch.full((count,), cap, device=device)
        self.finished_R = torch.zeros(count, dtype=torch.bool, device=device)
        self.stops = torch.tensor(params.stop_token_ids, dtype=torch.long, device=device)

    def choose(
        self, logits_MV: torch.Tensor, position: int, columns_M: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Sample the token at `position` of the responses in `columns_M`; the tokens [M], and which of them are stop tokens [M]."""
        uniform_M = self.uniform_TR[position, columns_M]
        chosen, log_probs, entropy = choose(logits_MV, uniform_M, self.params)
        self.tokens_TR[position, columns_M] = chosen
        self.log_probs_TR[position, columns_M] = log_probs
        self.entropy_TR[position, columns_M] = entropy
        return chosen, torch.isin(chosen, self.stops)

    def end(self, columns: torch.Tensor, position: int) -> None:
        self.lengths_R[columns] = position + 1
        self.finished_R[columns] = True

    def completions(self, count: int) -> Completions:
        """The first `count` responses, cut at their lengths; on the CPU."""
        lengths_R = self.lengths_R[:count]
        inside_RT = torch.arange(len(self.tokens_TR), device=lengths_R.device)[None] < lengths_R[:, None]
        tokens_N, log_probs_N, entropy_N = (
            buffer[:, :count].t()[inside_RT].cpu()
            for buffer in (self.tokens_TR, self.log_probs_TR, self.entropy_TR)
        )
        return Completions(tokens_N, log_probs_N, entropy_N, lengths_R.cpu(), self.finished_R[:count].cpu())


_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


def mix(state: np.ndarray) -> np.ndarray:
    """SplitMix64's bijective finaliser on uint64 arrays (wraps silently)."""
    z = state.astype(np.uint64, copy=True)
    z ^= z >> np.uint64(30)
    z *= _MIX_1
    z ^= z >> np.uint64(27)
    z *= _MIX_2
    z ^= z >> np.uint64(31)
    return z


def key(*parts: int | str) -> np.uint64:
    """A 64-bit key of a tuple of integers and strings, stable across processes and versions."""
    digest = hashlib.blake2b("\x1f".join(str(part) for part in parts).encode(), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little"))


def sample_seeds(stream: np.uint64, prompt_keys: Sequence[int] | np.ndarray, samples: int) -> np.ndarray:
    """Seeds [P, G]: one for each (prompt key, sample index) within a stream such as (run seed, step, round)."""
    prompts_P = mix(np.asarray(prompt_keys, dtype=np.uint64) * _GOLDEN + stream)
    index_G = (np.arange(samples, dtype=np.uint64) + np.uint64(1)) * _GOLDEN
    return mix(prompts_P[:, None] + index_G[None, :])


def uniforms(seeds_R: np.ndarray, positions: int) -> np.ndarray:
    """Uniform numbers in (0, 1], float64 [R, positions]: entry (r, t) depends on `seeds_R[r]` and t alone."""
    counter_T = (np.arange(positions, dtype=np.uint64) + np.uint64(1)) * _GOLDEN
    bits = mix(seeds_R.astype(np.uint64)[:, None] + counter_T[None, :])
    return ((bits >> np.uint64(11)).astype(np.float64) + 1.0) * 2.0**-53

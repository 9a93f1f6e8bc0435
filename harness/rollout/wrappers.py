"""How an engine is kept at the policy's weights, and how a token is chosen.

A token is chosen from logits and one uniform number a row. A GPU may add floats in another order from call to call; integers give the
same sum in any order. So probabilities are added up as whole multiples of 2⁻⁴⁰: the same logits and number always give the same token.
The loss is below 2⁻⁴⁰ a token, and a token below that (27.7 nats) is never chosen.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch

from harness.model.policy import Policy
from harness.model.ranks import ALONE, Ranks
from harness.rollout.noise import key, sample_seeds, uniforms
from harness.rollout.types import Completions, RolloutEngine, SamplingParams

CHECK_PROMPTS, CHECK_SAMPLES, CHECK_TOKENS = 2, 2, 16
# Mean absolute difference in nats. Rounding gives 2e-6 in float32 and about 0.02 in bfloat16. In float32 the weights of a step earlier are
# caught at once; in bfloat16 one small step is within the rounding, and an engine that stays behind is caught when steps have added up.
TOLERANCE = {torch.float32: 2e-3, torch.bfloat16: 0.1, torch.float16: 0.05}


class EngineMismatch(RuntimeError):
    """The engine does not sample from the weights that it was given."""


class WeightSync:
    """Loads a policy's weights into an engine and checks that they arrived, by the first few of `prompts`.

    The check samples at the temperature of `params` without filters. Each rank has an engine of its own.
    """

    def __init__(
        self,
        engine: RolloutEngine,
        policy: Policy,
        prompts: Sequence[Sequence[int]],
        params: SamplingParams,
        ranks: Ranks = ALONE,
    ) -> None:
        self.engine, self.policy, self.ranks = engine, policy, ranks
        self.prompts = list(prompts[:CHECK_PROMPTS])
        keys = np.arange(len(self.prompts), dtype=np.uint64)
        self.seeds = sample_seeds(key("weight check", 0), keys, CHECK_SAMPLES)
        tokens = min(CHECK_TOKENS, params.max_response_tokens)
        # Without stops, so that the mean is always over as many tokens.
        self.params = SamplingParams(tokens, params.temperature)

    def load(self, check: bool = True) -> float:
        """Bring the engine to the policy's weights; the mean gap in nats (0 where they are shared, NaN without `check`).

        Raises:
            EngineMismatch: the gap is beyond rounding, also after loading once more.
        """
        if self.engine.shares_weights:
            return 0.0
        # Logits are divided by the temperature, and so is their rounding multiplied.
        tolerance = TOLERANCE[self.policy.compute_dtype] / min(1.0, self.params.temperature)
        for _ in range(2):
            self.engine.load_weights(self.policy.engine_weights())
            if not check:
                return math.nan
            # Taking weights is collective: all ranks load again, or none. The largest, and NaN if one is.
            gap = float(np.max(self.ranks.gather(self.gap())))
            if gap <= tolerance:
                return gap
        text = f"{gap:.3g} nats a token on average (rounding: {tolerance:g})"
        raise EngineMismatch(f"engine and trainer have log-probabilities that differ by {text}; try engine=native")

    @torch.no_grad()
    def gap(self) -> float:
        """Mean |log π_engine − log π_trainer| in nats over the fixed requests."""
        completions: Completions = self.engine.generate(self.prompts, self.seeds, self.params)
        rows = [prompt for prompt in self.prompts for _ in range(CHECK_SAMPLES)]
        trainer_N, _ = self.policy.token_log_probs(
            rows, completions.tokens_N, completions.lengths_R, self.params.temperature
        )
        return float((trainer_N - completions.log_probs_N).abs().mean())


CHUNK_ELEMENTS = 2**20  # logits that a CPU looks at together: the copies of a large vocabulary stay small
_UNIT = 2.0**40  # scaling a float by a power of two is exact


def choose(logits_RV: torch.Tensor, uniform_R: torch.Tensor, params: SamplingParams) -> tuple[torch.Tensor, ...]:
    """Sample by the inverse distribution function: the same uniform number gives the same token, as in the native engine.

    Args:
        logits_RV: raw logits.
        uniform_R: numbers in (0, 1], float64; unused at temperature 0.
        params: temperature, top-k and top-p are applied in this order.

    Returns:
        Token ids [R], their log-probabilities and the entropy (nats) of the distribution that was sampled from; with `head`
        also the log-probabilities of the likeliest tokens, and these tokens (int32), [R, K] each.
    """
    rows = max(1, CHUNK_ELEMENTS // logits_RV.shape[-1])
    if logits_RV.is_cuda or len(logits_RV) <= rows:
        return _choose_rows(logits_RV, uniform_R, params)
    parts = zip(logits_RV.split(rows), uniform_R.split(rows), strict=True)
    return tuple(map(torch.cat, zip(*(_choose_rows(*part, params) for part in parts), strict=True)))


def _choose_rows(logits_RV: torch.Tensor, uniform_R: torch.Tensor, params: SamplingParams) -> tuple[torch.Tensor, ...]:
    logits = logits_RV.float()
    if params.temperature not in (0.0, 1.0):
        logits = logits / params.temperature
    is_filtered = bool(params.top_k) or params.top_p < 1
    if is_filtered:
        logits = filter_logits(logits, params.top_k, params.top_p)
    log_probs = logits.log_softmax(-1)
    probs = log_probs.exp()
    if params.temperature == 0:
        tokens_R = log_probs.argmax(-1)
    else:
        tokens_R = draw_by_integers(probs, uniform_R) if logits.is_cuda else draw(probs, uniform_R)
    entropy = -(probs * (log_probs.masked_fill(probs == 0, 0.0) if is_filtered else log_probs)).sum(-1)
    draws = tokens_R, log_probs.gather(-1, tokens_R[:, None])[:, 0], entropy
    if not params.head:
        return draws
    head = log_probs.topk(min(params.head, log_probs.shape[-1]), -1)
    return *draws, head.values, head.indices.int()


def draw(probs_RV: torch.Tensor, uniform_R: torch.Tensor) -> torch.Tensor:
    """The first token at which the summed probability reaches the uniform number, [R]."""
    cumulative = probs_RV.double().cumsum(-1) if probs_RV.shape[-1] > 4096 else probs_RV.cumsum(-1)
    # The draw is scaled by the last cumulative value, so that rounding can never pick a token of probability zero.
    target = uniform_R.to(cumulative.dtype) * cumulative[:, -1]
    return torch.searchsorted(cumulative, target[:, None])[:, 0]


def draw_by_integers(probs_RV: torch.Tensor, uniform_R: torch.Tensor) -> torch.Tensor:
    """`draw` with sums that no order of addition changes; see the module."""
    cumulative = _units(probs_RV).cumsum(-1)
    # At least 1: a token without a unit is never reached.
    target = (uniform_R.double() * cumulative[:, -1]).ceil().long().clamp(min=1)
    return torch.searchsorted(cumulative, target[:, None])[:, 0]


def _units(probs: torch.Tensor) -> torch.Tensor:
    return (probs * _UNIT).long()


def filter_logits(logits_RV: torch.Tensor, top_k: int, top_p: float) -> torch.Tensor:
    """Logits with tokens outside the top-k and outside the smallest set of mass ≥ top_p set to -inf.

    The most likely token always stays. Order: top-k first, then top-p on what is left (as vLLM and transformers do).
    """
    if top_k:
        threshold = logits_RV.topk(min(top_k, logits_RV.shape[-1]), -1).values[:, -1:]
        logits_RV = logits_RV.masked_fill(logits_RV < threshold, float("-inf"))
    if top_p < 1:
        sorted_logits, index = logits_RV.sort(dim=-1, descending=True, stable=True)
        mass, enough = sorted_logits.softmax(-1), top_p
        if mass.is_cuda:
            mass, enough = _units(mass), top_p * _UNIT
        excluded = mass.cumsum(-1) - mass >= enough
        excluded[:, 0] = False
        logits_RV = logits_RV.masked_fill(torch.zeros_like(excluded).scatter(-1, index, excluded), float("-inf"))
    return logits_RV


class ResponseBuffers:
    """The tokens of a batch of responses while they are decoded, one column a response, each with a seed."""

    def __init__(self, seeds_R: np.ndarray, params: SamplingParams, device: torch.device) -> None:
        count, cap = len(seeds_R), params.max_response_tokens
        self.params = params
        self.uniform_TR = torch.from_numpy(uniforms(seeds_R, cap).T.copy()).to(device)
        self.buffers: list[torch.Tensor] = []  # [T, R] or [T, R, K] of everything that `choose` makes
        self.lengths_R = torch.full((count,), cap, device=device)
        self.finished_R = torch.zeros(count, dtype=torch.bool, device=device)
        self.stops = torch.tensor(params.stop_token_ids, dtype=torch.long, device=device)

    def choose(
        self, logits_MV: torch.Tensor, position: int, columns_M: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Sample the token at `position` of the responses in `columns_M`; the tokens [M], and which of them are stop tokens [M]."""
        if self.params.watch is not None:
            self.params.watch("token", position, len(self.uniform_TR))
        uniform_M = self.uniform_TR[position, columns_M]
        draws = choose(logits_MV, uniform_M, self.params)
        self.buffers = self.buffers or [values.new_zeros(*self.uniform_TR.shape, *values.shape[1:]) for values in draws]
        for buffer, values in zip(self.buffers, draws, strict=True):
            buffer[position, columns_M] = values
        return draws[0], torch.isin(draws[0], self.stops)

    def end(self, columns: torch.Tensor, position: int) -> None:
        self.lengths_R[columns] = position + 1
        self.finished_R[columns] = True

    def completions(self, start: int = 0, end: int | None = None) -> Completions:
        """Responses that have ended, cut at their lengths; on the CPU."""
        lengths_R = self.lengths_R[start:end]
        mask_RT = torch.arange(len(self.uniform_TR), device=lengths_R.device)[None] < lengths_R[:, None]
        tokens_N, log_probs_N, entropy_N, *wide = (
            buffer[:, start:end].transpose(0, 1)[mask_RT].cpu() for buffer in self.buffers
        )
        finished_R = self.finished_R[start:end].cpu()
        return Completions(tokens_N, log_probs_N, entropy_N, lengths_R.cpu(), finished_R, *wide)

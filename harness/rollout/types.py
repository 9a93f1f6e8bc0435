"""The contract of every rollout engine. Letters: P prompts, G samples a prompt, R = P·G responses, N response tokens."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch

from harness.rollout.errors import EngineDied


@dataclass(frozen=True)
class SamplingParams:
    """Settings of one sampling request: `top_p = 1` and `top_k = 0` switch those filters off; `temperature = 0` is greedy.

    `stop_strings` end a response, too, where the engine is wrapped in `harness.rollout.stop_strings.StopStringEngine`.
    """

    max_response_tokens: int
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    stop_token_ids: tuple[int, ...] = ()
    stop_strings: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.max_response_tokens < 1:
            raise ValueError(f"max_response_tokens must be at least 1, not {self.max_response_tokens}")
        if self.temperature < 0:
            raise ValueError(f"temperature must not be negative, got {self.temperature}")
        if not 0 < self.top_p <= 1:
            raise ValueError(f"top_p must lie in (0, 1], got {self.top_p}")


@dataclass
class Completions:
    """R responses, prompt-major (all samples of prompt 0 first), their tokens laid end to end.

    `finished_R` is False where the token cap ended the response (finish reason *length*). `log_probs_N` and `entropy_N` (nats)
    are of the distribution that was sampled from: temperature, top-k and top-p applied. An engine that sees only the sampled token's
    probability gives an estimate of the entropy (see `harness.rollout.response.lay_out`).
    """

    tokens_N: torch.Tensor
    log_probs_N: torch.Tensor
    entropy_N: torch.Tensor
    lengths_R: torch.Tensor
    finished_R: torch.Tensor

    @property
    def offsets(self) -> torch.Tensor:
        """Start of each response in the flat arrays, [R + 1]."""
        return torch.cat([torch.zeros(1, dtype=torch.long), self.lengths_R.cumsum(0)])

    def token_lists(self) -> list[list[int]]:
        """The responses as lists of token ids, stop token included."""
        flat, ends = self.tokens_N.tolist(), self.offsets.tolist()
        return [flat[a:b] for a, b in itertools.pairwise(ends)]

    def prefix(self, cap: int) -> Completions:
        """The responses the same request gives under a smaller cap.

        Exact, since sampling is causal and the noise belongs to (prompt, sample, position): a smaller cap only cuts.
        """
        keep_N = position_in_response(self.lengths_R) < cap
        return self.of_tokens(
            keep_N, self.lengths_R.clamp(max=cap), self.finished_R & (self.lengths_R <= cap)
        )

    def select(self, rows: torch.Tensor) -> Completions:
        """The responses at `rows` (long indices [M]), in that order."""
        index_N = ragged_index(self.offsets[:-1][rows], self.lengths_R[rows])
        return self.of_tokens(index_N, self.lengths_R[rows], self.finished_R[rows])

    def of_tokens(self, kept: torch.Tensor, lengths_R: torch.Tensor, finished_R: torch.Tensor) -> Completions:
        """The responses that the kept tokens (a mask [N] or indices) make."""
        return Completions(
            self.tokens_N[kept], self.log_probs_N[kept], self.entropy_N[kept], lengths_R, finished_R
        )

    @staticmethod
    def of_buffers(
        tokens_TR: torch.Tensor,
        log_probs_TR: torch.Tensor,
        entropy_TR: torch.Tensor,
        lengths_R: torch.Tensor,
        finished_R: torch.Tensor,
    ) -> Completions:
        """The responses of buffers with one column each, cut at their lengths; on the CPU."""
        inside_RT = torch.arange(len(tokens_TR), device=lengths_R.device)[None] < lengths_R[:, None]
        tokens_N, log_probs_N, entropy_N = (
            buffer.t()[inside_RT].cpu() for buffer in (tokens_TR, log_probs_TR, entropy_TR)
        )
        return Completions(tokens_N, log_probs_N, entropy_N, lengths_R.cpu(), finished_R.cpu())

    @staticmethod
    def concatenate(parts: Sequence[Completions]) -> Completions:
        """Lay several results end to end."""
        columns = zip(*(vars(part).values() for part in parts), strict=True)
        return Completions(*map(torch.cat, columns))


class RolloutEngine:
    """The one contract of every engine (native, transformers, vllm, openai, replay), with the defaults of one that has nothing to free.

    `seeds_PG` holds one 64-bit seed a response: the same seed, prompt, weights and parameters give the same response whatever
    else is in the batch (engines that cannot promise it say so in their module docstring).

    Attributes:
        shares_weights: samples from the policy's own tensors: nothing to load after an update.
        dead: why the engine must not be asked again; empty while it lives.
    """

    shares_weights: bool = False
    dead: str = ""

    @property
    def positions(self) -> int | None:
        """Longest prompt and response together, in tokens; None where the engine has no bound of its own."""
        return None

    def generate(
        self, prompts: Sequence[Sequence[int]], seeds_PG: np.ndarray, params: SamplingParams
    ) -> Completions:
        """Sample `seeds_PG.shape[1]` responses to each prompt (token ids in, token ids out)."""
        raise EngineDied(self.dead)

    def load_weights(self, weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        """Take the policy's tensors, under `transformers` names, for all later requests.

        Raises:
            KeyError: a name that the model does not have, or one of its tensors is missing. The engine is dead then (EngineDied).
        """
        raise EngineDied(self.dead)

    def sleep(self) -> None:
        """Give device memory back for the update; weights are loaded again before the next request."""

    def wake(self) -> None:
        """Take the memory again."""

    def close(self) -> None:
        """End for good; safe to call twice."""

    def require_alive(self) -> None:
        """Raise EngineDied if it is dead."""
        if self.dead:
            raise EngineDied(f"this engine cannot be asked any more: {self.dead}")

    @contextmanager
    def updating(self) -> Iterator[None]:
        """Around the replacement of weights: if that breaks off, the engine is dead, since it holds some old and some new tensors."""
        self.require_alive()
        self.dead = "a weight update broke off"
        yield
        self.dead = ""


def passes(
    prompts: Sequence[Sequence[int]], seeds_PG: np.ndarray, rows: int
) -> Iterator[tuple[Sequence[Sequence[int]], np.ndarray]]:
    """Parts of a request of at most `rows` responses: whole prompts while they fit, one with more samples split."""
    per_pass = max(1, rows // seeds_PG.shape[1])
    for start in range(0, len(prompts), per_pass):
        chunk, seeds = prompts[start : start + per_pass], seeds_PG[start : start + per_pass]
        for first in range(0, seeds_PG.shape[1], rows):
            yield chunk, seeds[:, first : first + rows]


def check_request(
    prompts: Sequence[Sequence[int]],
    seeds_PG: np.ndarray,
    params: SamplingParams,
    positions: int | None = None,
) -> None:
    """Refuse what no engine can answer; `positions` is the model's longest prompt and response together, where it has one.

    Raises:
        ValueError: seeds for another number of prompts, a prompt without tokens, or one that is too long.
    """
    if seeds_PG.shape[0] != len(prompts):
        raise ValueError(f"{len(prompts)} prompts but seeds for {seeds_PG.shape[0]}")
    if not all(map(len, prompts)):
        raise ValueError("a prompt has no tokens; every request needs at least one")
    longest = max(map(len, prompts), default=0)
    if positions is not None and longest + params.max_response_tokens > positions:
        raise ValueError(
            f"prompt ({longest} tokens) + max_response_tokens ({params.max_response_tokens}) exceed the model's "
            f"{positions} positions; lower sampling.max_response_tokens or evaluation.caps"
        )


def ragged_index(starts_M: torch.Tensor, lengths_M: torch.Tensor) -> torch.Tensor:
    """Flat positions of M slices `[start, start + length)` laid end to end."""
    ends = lengths_M.cumsum(0)
    shift = starts_M - (ends - lengths_M)
    return torch.arange(int(ends[-1]) if len(ends) else 0) + shift.repeat_interleave(lengths_M)


def position_in_response(lengths_R: torch.Tensor) -> torch.Tensor:
    """For each flat token its index within its response, [N]."""
    return ragged_index(torch.zeros_like(lengths_R), lengths_R)

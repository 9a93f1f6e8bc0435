"""The check of a request before any engine works on it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from harness.rollout.types import SamplingParams


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

"""Strings that end a response, for any engine: the first token after which the decoded response contains one is its last.

Sampling is causal, so cutting afterwards gives what stopping there would have given. Engines that decode text stop early by themselves
(vLLM, a server); for the others the tokens beyond the end are sampled, thrown away and not counted.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch

from harness.rollout.passing import PassingEngine
from harness.rollout.types import Completions, RolloutEngine, SamplingParams, position_in_response


class StopStringEngine(PassingEngine):
    """Passes requests on to `engine` and ends responses at `params.stop_strings`; `tokenizer` decodes them, special tokens included."""

    def __init__(self, engine: RolloutEngine, tokenizer: Any) -> None:
        super().__init__(engine)
        self.tokenizer = tokenizer

    def generate(
        self, prompts: Sequence[Sequence[int]], seeds_PG: np.ndarray, params: SamplingParams
    ) -> Completions:
        completions = self.engine.generate(prompts, seeds_PG, params)
        if not params.stop_strings:
            return completions
        decode = functools.partial(self.tokenizer.batch_decode, skip_special_tokens=False)
        return cut(completions, params.stop_strings, decode)


def cut(
    completions: Completions,
    strings: Sequence[str],
    decode: Callable[[Sequence[Sequence[int]]], Sequence[str]],
) -> Completions:
    """End every response at the first token with which its text contains one of `strings`; such a response is finished."""
    rows = completions.token_lists()
    lengths, finished = completions.lengths_R.tolist(), completions.finished_R.tolist()
    for place, (tokens, text) in enumerate(zip(rows, decode(rows), strict=True)):
        if any(string in text for string in strings):
            lengths[place], finished[place] = _end(tokens, strings, decode), True
    lengths_R = torch.tensor(lengths, dtype=torch.int64)
    kept_N = position_in_response(completions.lengths_R) < lengths_R.repeat_interleave(completions.lengths_R)
    return completions.of_tokens(kept_N, lengths_R, torch.tensor(finished, dtype=torch.bool))


def _end(
    tokens: Sequence[int],
    strings: Sequence[str],
    decode: Callable[[Sequence[Sequence[int]]], Sequence[str]],
) -> int:
    """The fewest tokens whose text contains one of `strings`, which the text of all of them does; by bisection."""
    low, high = 1, len(tokens)
    while low < high:
        middle = (low + high) // 2
        (text,) = decode([tokens[:middle]])
        if any(string in text for string in strings):
            high = middle
        else:
            low = middle + 1
    return high

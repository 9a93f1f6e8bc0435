"""Strings that end responses: the first token that completes one is the last, for every engine alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from engine_support import Opener, cases, seeds_for

from harness.configuration.error import ConfigError
from harness.configuration.identity import run_id
from harness.configuration.schema import RunConfig
from harness.configuration.sections import EvaluationConfig, SamplingConfig
from harness.model.checkpoint import load_tokenizer
from harness.model.policy import NativePolicy
from harness.rollout.types import Completions, SamplingParams
from harness.rollout.wrappers import StopStringEngine, end_at_strings

TEXTS = ["", "a", "b", "ab", "Que", "stion", ":"]


def decode(rows: Any) -> list[str]:
    return ["".join(TEXTS[token] for token in row) for row in rows]


def completions(*rows: list[int], finished: tuple[bool, ...]) -> Completions:
    tokens = torch.tensor([token for row in rows for token in row])
    return Completions(
        tokens_N=tokens,
        log_probs_N=-tokens.float(),
        entropy_N=tokens.float(),
        lengths_R=torch.tensor([len(row) for row in rows]),
        finished_R=torch.tensor(finished),
    )


def test_a_string_may_span_tokens_and_its_last_token_stays() -> None:
    made = end_at_strings(
        completions([1, 4, 5, 6, 2, 2], [1, 2, 1], [4, 5, 6], finished=(False, True, False)), ["Question:"], decode
    )
    assert made.token_lists() == [[1, 4, 5, 6], [1, 2, 1], [4, 5, 6]]
    assert made.finished_R.tolist() == [True, True, True]
    assert made.log_probs_N.tolist() == [-1, -4, -5, -6, -1, -2, -1, -4, -5, -6]


def test_the_string_that_comes_first_ends_it() -> None:
    made = end_at_strings(completions([2, 1, 3, 3, 6], [6, 6], finished=(False, False)), ["ab", "bab", "ba"], decode)
    assert made.token_lists() == [[2, 1], [6, 6]]
    assert made.finished_R.tolist() == [True, False]


@pytest.mark.parametrize("name", cases("shared", "transformers", "vllm"))
def test_every_engine_ends_at_the_same_place(
    name: str, folder: Path, policy: NativePolicy, prompts: list[list[int]], opener: Opener
) -> None:
    tokenizer = load_tokenizer(folder)
    engine = StopStringEngine(opener(name, folder, policy), tokenizer)
    free = engine.generate(prompts, seeds_for(prompts, 4), SamplingParams(24))
    texts = tokenizer.batch_decode(free.token_lists())
    pairs = [text[i : i + 2] for text in texts for i in range(2, 12)]
    ends = (max(set(pairs), key=pairs.count),)
    made = engine.generate(prompts, seeds_for(prompts, 4), SamplingParams(24, stop_strings=ends))
    wanted = end_at_strings(free, ends, lambda rows: tokenizer.batch_decode(rows))
    assert made.token_lists() == wanted.token_lists()
    assert made.finished_R.tolist() == wanted.finished_R.tolist()
    assert int(made.finished_R.sum()) > 0
    torch.testing.assert_close(made.log_probs_N, wanted.log_probs_N, rtol=0, atol=1e-5)


def test_an_empty_string_is_refused_and_none_changes_no_identity() -> None:
    for section in (SamplingConfig, EvaluationConfig):
        with pytest.raises(ConfigError, match="contains an empty string"):
            section(stop_strings=["x", ""])
    config = RunConfig()
    before = run_id(config)
    config.sampling.stop_strings = ["Question:"]
    assert run_id(config) != before

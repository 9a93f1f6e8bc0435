"""What vLLM's engine asks of vLLM and refuses, with a stand-in for `vllm.LLM` that notes what it was asked."""

from __future__ import annotations

import sys
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
from harness.rollout.types import EngineDied, SamplingParams

WEIGHTS = {"w": torch.zeros(1)}


def engine(level: int = 2, prefixes_go: bool = True, wakes: bool = True) -> tuple[VllmEngine, list[str]]:
    """The engine, and what it asks of vLLM."""
    asked: list[str] = []
    llm: Any = SimpleNamespace(
        sleep=lambda level: asked.append(f"sleep {level}"),
        wake_up=lambda tags: asked.append(f"wake {','.join(tags)}") or (tags == ["kv_cache"] and wakes),
        collective_rpc=lambda method, args: [*args[0]] and asked.append("weights"),
        reset_prefix_cache=lambda: asked.append("forget prefixes") or prefixes_go,
        llm_engine=SimpleNamespace(
            vllm_config=SimpleNamespace(parallel_config=SimpleNamespace(tensor_parallel_size=1)),
            engine_core=SimpleNamespace(shutdown=lambda: None),
            model_config=SimpleNamespace(max_model_len=16),
        ),
    )
    return VllmEngine(llm, frozenset(WEIGHTS), level, owns_group=True), asked


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

    def start(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(in_process, "_environment", lambda *_: None)
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(LLM=start))
    refused = isinstance(error, ValueError)
    words = f"vLLM cannot serve folder: {error}" if refused else str(error)
    with pytest.raises(ConfigError if refused else type(error), match=words):
        VllmEngine.load("folder", vllm.Config(), RuntimeConfig(), "cpu", torch.float32)


def test_an_update_names_a_missing_or_foreign_tensor_and_leaves_out_rotary_tables() -> None:
    sampler, _ = engine()
    table = ("model.layers.0.self_attn.rotary_emb.inv_freq", torch.zeros(1))
    sampler.load_weights([*WEIGHTS.items(), table])
    with pytest.raises(ConfigError, match="the policy has no tensor 'w'"):
        sampler.load_weights([table])
    with pytest.raises(ConfigError, match="the checkpoint has no tensor 'other'"):
        sampler.load_weights([*WEIGHTS.items(), ("other", torch.zeros(1))])


def test_what_vllm_would_answer_otherwise_than_asked_is_refused() -> None:
    sampler, _ = engine()
    seeds = np.zeros((1, 1), dtype=np.uint64)
    for temperature in (0.01, 0.0):
        sampler.check([[1]], seeds, SamplingParams(15, temperature=temperature))
    with pytest.raises(ValueError, match=r"vLLM samples at 0.01 or above"):
        sampler.check([[1]], seeds, SamplingParams(15, temperature=0.005))
    with pytest.raises(ValueError, match="exceed the model's 16 positions"):
        sampler.check([[1, 2]], seeds, SamplingParams(15))

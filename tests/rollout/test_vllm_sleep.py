"""How vLLM is put to sleep and woken, with a stand-in for `vllm.LLM` that says what it was asked: the order needs no GPU."""

from __future__ import annotations

import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from harness.backends import builtin
from harness.configuration.compose import compose_run
from harness.configuration.error import ConfigError
from harness.configuration.schema import RuntimeConfig
from harness.rollout.engine import vllm
from harness.rollout.engine.vllm import in_process
from harness.rollout.engine.vllm.in_process import VllmEngine
from harness.rollout.types import EngineDied, SamplingParams

WEIGHTS = {"w": torch.zeros(1)}


class FakeLlm:
    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.fails: set[str] = set()
        self.prefixes_go = self.wakes = True
        parallel = SimpleNamespace(tensor_parallel_size=1)
        core = SimpleNamespace(shutdown=lambda: self._note("shutdown"))
        self.llm_engine = SimpleNamespace(
            vllm_config=SimpleNamespace(parallel_config=parallel),
            engine_core=core,
            model_config=SimpleNamespace(max_model_len=16),
        )

    def _note(self, what: str, name: str = "") -> None:
        if (name or what) in self.fails:
            raise RuntimeError("CUDA out of memory")
        self.asked.append(what)

    def sleep(self, level: int) -> None:
        self._note(f"sleep {level}", "sleep")

    def wake_up(self, tags: list[str]) -> bool:
        self._note(f"wake {','.join(tags)}", "wake")
        return tags == ["kv_cache"] and self.wakes

    def collective_rpc(self, method: str, args: Any) -> None:
        list(args[0])
        self._note("weights")

    def reset_prefix_cache(self) -> bool:
        self._note("forget prefixes")
        return self.prefixes_go


def engine(level: int = 2) -> tuple[VllmEngine, FakeLlm]:
    llm = FakeLlm()
    return VllmEngine(llm, frozenset(WEIGHTS), level, owns_group=True), llm


@pytest.mark.parametrize("level", [0, 1, 2])
def test_it_wakes_in_stages_around_the_new_weights(level: int) -> None:
    """Level 0 never sleeps: it only takes the weights."""
    sampler, llm = engine(level)
    for _ in range(2):
        sampler.sleep()
        sampler.wake()
        sampler.load_weights(WEIGHTS.items())
    sampler.load_weights(WEIGHTS.items())  # nothing sleeps any more
    loaded = ["weights", "forget prefixes"]
    step = [f"sleep {level}", "wake weights", "weights", "wake kv_cache", "forget prefixes"] if level else loaded
    assert llm.asked == [*step, *step, *loaded]


@pytest.mark.parametrize(("lacks", "message"), [("prefixes_go", "older weights"), ("wakes", "still sleeps")])
def test_an_engine_that_keeps_old_prefixes_or_stays_asleep_is_dead(lacks: str, message: str) -> None:
    sampler, llm = engine()
    setattr(llm, lacks, False)
    sampler.sleep()
    with pytest.raises(EngineDied, match=message):
        sampler.load_weights(WEIGHTS.items())


@pytest.mark.parametrize("error", [RuntimeError("CUDA error"), AssertionError("memory changed")])
def test_only_what_vllm_refuses_is_a_configuration_error(error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed kernel or full memory is none: it passes with its traceback."""

    def start(*_: object, **__: object) -> None:
        raise reasons.pop()

    monkeypatch.setattr(in_process, "_environment", lambda *_: None)
    monkeypatch.setitem(sys.modules, "vllm", SimpleNamespace(LLM=start))
    reasons = [ValueError("no such architecture"), error]
    request = ("folder", vllm.Config(), RuntimeConfig(), "cpu", torch.float32)
    with pytest.raises(type(error), match=str(error)):
        VllmEngine.load(*request)
    with pytest.raises(ConfigError, match=r"vLLM cannot serve folder: no such architecture"):
        VllmEngine.load(*request)


SHARDED = "engine.tensor_parallel=2"


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (["runtime.runs_per_gpu=2"], "runs_per_gpu=2 with engine=vllm"),
        (["algorithm/source=initial_policy"], "initial_policy with engine=vllm on a GPU"),
        ([SHARDED, "runtime.gpus_per_run=2"], SHARDED),  # a rank a GPU is the default
        ([SHARDED, "runtime.gpus_per_run=2", "runtime.ranks=1"], ""),
        ([], ""),
    ],
)
def test_one_engine_has_a_gpu_and_a_process_for_itself(overrides: list[str], words: str) -> None:
    reasons = builtin.check(compose_run(["engine=vllm", "runtime.device=cuda", *overrides]))
    assert bool(reasons) == bool(words)
    assert not words or any(words in reason for reason in reasons)


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
    assert sampler.positions == 16
    seeds = np.zeros((1, 1), dtype=np.uint64)
    sampler.check([[1]], seeds, SamplingParams(15, temperature=0.01))
    sampler.check([[1]], seeds, SamplingParams(15, temperature=0.0))
    with pytest.raises(ValueError, match=r"vLLM samples at 0.01 or above"):
        sampler.check([[1]], seeds, SamplingParams(15, temperature=0.005))
    with pytest.raises(ValueError, match="exceed the model's 16 positions"):
        sampler.check([[1, 2]], seeds, SamplingParams(15))

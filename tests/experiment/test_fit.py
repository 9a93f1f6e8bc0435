"""Runs that do not fit their machine are refused with the settings that would make them fit."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from harness.configuration.compose import compose_run
from harness.configuration.schema import RunConfig
from harness.configuration.sections import installed_gpus, visible_memory_gib
from harness.experiment import memory as fit_module
from harness.experiment.memory import fit_of, misfits


@pytest.fixture(autouse=True)
def no_gpu_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_module, "visible_memory_gib", lambda: None)


def composed(*more: str) -> RunConfig:
    """A 7B model with responses of 2048 tokens on one GPU."""
    base = ["model=qwen25_7b", "task=gsm8k_train", "runtime=one_gpu", "sampling.max_response_tokens=2048"]
    base += ["engine=vllm", "engine.gpu_memory_utilization=0.3", "runtime.micro_batch_tokens=4096"]
    base += ["runtime.gradient_checkpointing=true"]
    return compose_run([*base, *more])


def test_the_native_engines_room_counts_and_fewer_rows_are_named():
    overrides = ["model=qwen25_1_5b", "task=gsm8k_train", "runtime=one_gpu", "runtime.rollout_rows=2048"]
    overrides += ["runtime.gradient_checkpointing=true"]
    config = compose_run([*overrides, "sampling.max_response_tokens=2048"])
    (reason,) = misfits(config)
    assert "126.0 GiB of keys and values (with room for 2048 response(s) of 2048 tokens)" in reason
    assert "It would fit with runtime.rollout_rows=64" in reason
    config.runtime.rollout_rows = 64
    assert misfits(config) == []


@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        (
            [],
            ["Qwen/Qwen2.5-7B (7.62B parameters)", "moments 56.7", "GiB of one h100 (runtime.assumed.gpu)",
             "model.lora.rank=32", "2 GPUs (runtime.gpus_per_run=2)"],
        ),
        (
            ["model=qwen25_32b", "runtime=eight_gpus", "engine.gpu_memory_utilization=0.9"],
            ["64 GPUs (runtime.gpus_per_run=8 runtime.nodes=8)"],
        ),
        (
            ["model=qwen25_math_7b", "runtime=eight_gpus", "sampling=cap_8192"],
            ["exceed the 4096 positions of Qwen/Qwen2.5-Math-7B"],
        ),
    ],
)  # fmt: skip
def test_what_does_not_fit_names_the_parts_and_the_fixes(overrides, words):
    (reason,) = misfits(composed(*overrides))
    assert [word for word in words if word not in reason] == []


@pytest.mark.parametrize(
    "fix",
    [
        ["runtime.gpus_per_run=2", "engine.gpu_memory_utilization=0.2"],
        ["model.lora.rank=32"],
        ["runtime.assumed.gpu=h200", "runtime.gpus_per_run=2"],
        [
            "model=qwen25_32b",
            "runtime=eight_gpus",
            "runtime.nodes=8",
            "runtime.elsewhere=true",
            "engine.gpu_memory_utilization=0.8",
        ],
    ],
)
def test_what_the_message_names_makes_it_fit(fix):
    assert misfits(composed(*fix)) == []


def test_recomputation_is_named_where_it_is_what_lacks():
    without = ["runtime.gradient_checkpointing=false", "runtime.micro_batch_tokens=16384"]
    config = composed("model=qwen25_1_5b", *without)
    (reason,) = misfits(config)
    assert "would fit with runtime.gradient_checkpointing=true, or runtime.micro_batch_tokens=8192" in reason
    config.runtime.gradient_checkpointing = True
    assert misfits(config) == []


def test_an_engine_that_asks_for_more_than_training_leaves_is_told_its_share():
    config = composed("runtime.gpus_per_run=4", "engine=vllm", "engine.gpu_memory_utilization=0.9")
    (reason,) = misfits(config)
    assert "GiB of keys and values" in reason
    share = reason.split("It would fit with engine.gpu_memory_utilization=")[1].split(",")[0]
    config.engine.gpu_memory_utilization = float(share)
    assert misfits(config) == []


def test_the_real_gpu_counts_where_there_is_one(monkeypatch):
    assert misfits(composed("model=qwen25_0_5b")) == []
    monkeypatch.setattr(fit_module, "visible_memory_gib", lambda: 8.0)
    (reason,) = misfits(composed("model=qwen25_0_5b"))
    assert "GPU of 8.0 GiB" in reason
    # on a cluster the machine is another one: the assumed kind counts
    assert misfits(composed("model=qwen25_0_5b", "runtime.elsewhere=true")) == []


def test_a_computer_without_the_memory_says_so(monkeypatch):
    monkeypatch.setattr(fit_module, "host_memory_gib", lambda: 64.0)
    (reason,) = misfits(composed("runtime.device=cpu"))
    assert "this computer has 64.0" in reason
    assert misfits(composed("runtime.device=cpu", "model=qwen25_0_5b")) == []


def test_models_of_unknown_shape_are_not_judged():
    assert misfits(composed("model.path=someone/else")) == []
    assert fit_of(composed("model.path=someone/else")) is None
    assert misfits(compose_run([])) == []


def test_the_testbeds_positions_hold_its_prompts_and_the_longest_response():
    """256 positions; a prompt of up to six operations is a digit, two characters each and a colon: 14."""
    assert misfits(compose_run(["sampling.max_response_tokens=242", "evaluation.caps=[242]"])) == []
    for key in ("sampling.max_response_tokens=243", "sampling.max_response_tokens=32"):
        (reason,) = misfits(compose_run([key, "evaluation.caps=[32,243]"]))
        assert "responses of up to 243 tokens and their prompts exceed the 256 positions of testbed" in reason
        assert "lower sampling.max_response_tokens and evaluation.caps to 242 or less" in reason


def test_the_driver_is_asked_for_the_smallest_visible_gpu(tmp_path: Path, monkeypatch):
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\nprintf '0, GPU-a, A, 5, 81559\\n1, GPU-b, B, 5, 24564\\n'\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    seen = []
    for devices in (None, "0", "GPU-b", "7"):
        monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
        if devices is not None:
            monkeypatch.setenv("CUDA_VISIBLE_DEVICES", devices)
        installed_gpus.cache_clear()
        seen.append(visible_memory_gib())
    installed_gpus.cache_clear()
    assert seen == [24564 / 1024, 81559 / 1024, 24564 / 1024, None]

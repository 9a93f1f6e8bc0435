"""`runtime.deterministic`: what torch is told, and that it is told so around a whole run."""

from __future__ import annotations

import os
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

from harness.backends import builtin
from harness.configuration.error import ConfigError
from harness.configuration.schema import RunConfig, RuntimeConfig
from harness.configuration.sections import compute_capabilities
from harness.rollout.engine import vllm
from harness.rollout.engine.vllm import in_process
from harness.store import RunDir
from harness.training import loop as training
from harness.training.loop import deterministic


def test_it_holds_inside_and_not_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    with deterministic(False):
        assert not torch.are_deterministic_algorithms_enabled()
        assert "CUBLAS_WORKSPACE_CONFIG" not in os.environ
    with deterministic(True):
        assert torch.are_deterministic_algorithms_enabled()
        assert not torch.is_deterministic_algorithms_warn_only_enabled()
        assert os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":4096:8"
        assert torch.empty(3).fill_(2.0).tolist() == [2.0] * 3
    assert not torch.are_deterministic_algorithms_enabled()


@pytest.mark.parametrize("wanted", [True, False])
def test_a_run_is_trained_inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wanted: bool) -> None:
    monkeypatch.setattr(training, "base_policy", lambda *_: ("torch", tmp_path))
    monkeypatch.setattr(training, "RunParts", Mock())
    monkeypatch.setattr(training, "train", lambda *_: torch.are_deterministic_algorithms_enabled())
    config = RunConfig(runtime=RuntimeConfig(deterministic=wanted))
    assert training.train_run(config, RunDir(tmp_path), lambda: False, 0) is wanted


@pytest.mark.parametrize(
    ("device", "capabilities", "said"),
    [
        ("auto", {}, "is for GPUs"),
        ("cpu", {"0": 9.0}, "is for GPUs"),
        ("cuda", {"0": 9.0, "1": 7.5}, r"needs compute capability 8.0 (GPU 1 has 7.5)"),
        ("cuda", {"0": 8.0}, ""),
        ("cuda", {}, ""),  # planned where the GPUs are not; the engine looks again when it starts
    ],
)
def test_with_vllm_it_holds_where_batches_are_invariant(
    monkeypatch: pytest.MonkeyPatch, device: str, capabilities: dict[str, float], said: str
) -> None:
    monkeypatch.setattr(builtin, "compute_capabilities", lambda: capabilities)
    monkeypatch.setattr(builtin, "visible_gpus", lambda: list(capabilities))
    reasons = builtin.check(RunConfig(engine=vllm.Config(), runtime=RuntimeConfig(device=device, deterministic=True)))
    assert bool(reasons) == bool(said)
    assert all(said in reason for reason in reasons)
    assert builtin.check(RunConfig(engine=vllm.Config(), runtime=RuntimeConfig(device=device))) == []


def test_the_engine_asks_vllm_for_batch_invariance_where_its_gpu_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {})
    in_process._environment(cpu=False, invariant=False)
    assert "VLLM_BATCH_INVARIANT" not in os.environ
    in_process._environment(cpu=False, invariant=True)
    assert os.environ["VLLM_BATCH_INVARIANT"] == "1"
    with deterministic(True), in_process._vllm_kernels():
        assert not torch.are_deterministic_algorithms_enabled()
    for device, capability in (("cuda:1", (7, 5)), ("cpu", (8, 0))):
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _, found=capability: found)
        with pytest.raises(ConfigError, match=r"compute capability 8\.0, which .* is not"):
            in_process._require_invariance(device)
    in_process._require_invariance("cuda:0")


def test_the_driver_is_asked_for_compute_capabilities(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\nprintf 'Warning: an old driver\\n0, 9.0\\n1, 7.5\\n2, [N/A]\\n'\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    compute_capabilities.cache_clear()
    assert compute_capabilities() == {"0": 9.0, "1": 7.5}
    compute_capabilities.cache_clear()
    program.write_text("#!/bin/sh\necho 'Field \"compute_cap\" is not a valid field to query.'\nexit 2\n")
    assert compute_capabilities() == {}
    compute_capabilities.cache_clear()

"""`runtime.deterministic`: what torch is told, and that it is told so around a whole run."""

from __future__ import annotations

import os
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

from harness.backends import builtin
from harness.configuration.schema import RunConfig, RuntimeConfig
from harness.rollout.engine import vllm
from harness.store import RunDir
from harness.training import loop as training
from harness.training.attempt import deterministic


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


def test_vllm_is_refused_whose_samples_depend_on_what_it_computes_together() -> None:
    (reason,) = builtin.check(RunConfig(engine=vllm.Config(), runtime=RuntimeConfig(deterministic=True)))
    assert "use engine=native or transformers" in reason
    assert builtin.check(RunConfig(engine=vllm.Config())) == []

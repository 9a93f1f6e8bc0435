"""What the bits of a run depend on: the linear kernel that it began with, and what `runtime.deterministic` tells torch."""

from __future__ import annotations

import json
import os
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch

from harness.backends import builtin
from harness.configuration.error import ConfigError
from harness.configuration.schema import RunConfig, RuntimeConfig
from harness.rollout.engine import vllm
from harness.store import ResultStore, RunDir, layout
from harness.training import attempt as numerics
from harness.training import loop as training
from harness.training.attempt import deterministic, settle_kernel


@pytest.fixture
def run(tmp_path: Path) -> RunDir:
    run = ResultStore(tmp_path).run("a" * 16)
    for _ in range(3):
        run.new_attempt()
    return run


def told(run: RunDir, attempt: int) -> dict[str, object]:
    return dict(json.loads((layout.attempt_dir(run.path, attempt) / layout.NUMERICS).read_text()))


def checkpoint(run: RunDir) -> None:
    run.publish_checkpoint(2, lambda path: (path / "state").write_text("x") and None)


def test_an_attempt_tells_what_its_bits_depend_on(run: RunDir) -> None:
    assert settle_kernel(RuntimeConfig(linear_kernel="torch", threads=3), run, 0) == "torch"
    assert told(run, 0).keys() == {
        "linear_kernel", "threads", "torch", "instructions", "processor", "packed_attention"
    }  # fmt: skip
    assert told(run, 0)["linear_kernel"] == "torch"
    assert told(run, 0)["threads"] == 3


def test_a_resumed_run_keeps_its_kernel(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule of another machine or version would choose otherwise; an attempt that told nothing is passed over."""
    settle_kernel(RuntimeConfig(linear_kernel="torch"), run, 0)
    checkpoint(run)
    monkeypatch.setattr(numerics, "resolve_kernel", lambda wanted: "onednn")
    assert settle_kernel(RuntimeConfig(linear_kernel="auto"), run, 2) == "torch"
    assert told(run, 2)["linear_kernel"] == "torch"
    with pytest.raises(ConfigError, match=r"linear_kernel=onednn: the run began with torch; set it to auto"):
        settle_kernel(RuntimeConfig(linear_kernel="onednn"), run, 2)


def test_a_run_without_a_checkpoint_begins_anew(run: RunDir) -> None:
    settle_kernel(RuntimeConfig(linear_kernel="torch"), run, 0)
    (layout.attempt_dir(run.path, 0) / layout.NUMERICS).write_text('{"linear_kernel": "onednn"}')
    assert settle_kernel(RuntimeConfig(linear_kernel="torch"), run, 1) == "torch"


def test_a_kernel_that_is_not_here_stops_the_run(run: RunDir, monkeypatch: pytest.MonkeyPatch) -> None:
    (layout.attempt_dir(run.path, 0) / layout.NUMERICS).write_text('{"linear_kernel": "onednn"}')
    checkpoint(run)
    monkeypatch.setattr(numerics, "onednn_available", lambda: False)
    with pytest.raises(ConfigError, match="which this torch has not"):
        settle_kernel(RuntimeConfig(), run, 1)


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

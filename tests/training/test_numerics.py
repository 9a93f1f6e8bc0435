"""What the bits of a run depend on: the linear kernel that it began with."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.configuration.error import ConfigError
from harness.configuration.schema import RunConfig, RuntimeConfig
from harness.store import ResultStore, RunDir, layout
from harness.training import attempt as numerics
from harness.training.attempt import base_policy, settle_kernel


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
    base_policy(RunConfig(), run, 0)
    assert told(run, 0)["parameters"] == 153_792


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

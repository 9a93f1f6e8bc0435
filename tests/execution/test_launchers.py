"""`harness run -m hydra/launcher=NAME`: killed in the middle and repeated, with a run that fails, with packages that are absent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from contextlib import suppress
from pathlib import Path

import pytest
from launch_support import FEW_STEPS, attempts, harness, one_arm_fails
from sweep_support import MARK, processes_with, wait_until

from harness.store import ResultStore

pytestmark = pytest.mark.usefixtures("_alone")
LAUNCHERS = ["basic", "joblib", "submitit_local", "ray"]
GRID = ["-m", "algorithm=grpo,dapo", "seed=0,1", *FEW_STEPS]


@pytest.fixture(params=LAUNCHERS)
def launcher(request: pytest.FixtureRequest) -> str:
    """`hydra/launcher=NAME`; its package is in the extra `dev`."""
    return f"hydra/launcher={request.param}"


@pytest.fixture
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")


def killed_after_the_first_run(results: Path, *arguments: str) -> None:
    """Start the command, and as soon as a run is finished kill it with all that it started, as a machine does that goes down."""
    mark = uuid.uuid4().hex
    command = [sys.executable, "-m", "harness", "run", *arguments, f"runtime.results={results}"]
    process = subprocess.Popen(
        command,
        env={**os.environ, MARK: mark},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_until(lambda: "finished" in statuses(results) or process.poll() is not None, what="a finished run")
    assert process.poll() is None, "the command ended too early"
    while left := processes_with(mark):
        for pid in left:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        process.poll()


def statuses(results: Path) -> list[str | None]:
    store = ResultStore(results)
    return [store.run(run_id).status for run_id in store.run_ids()]


def test_a_killed_sweep_goes_on_where_it_was_and_trains_nothing_twice(tmp_path: Path, launcher: str) -> None:
    killed_after_the_first_run(tmp_path, launcher, *GRID)
    before = attempts(tmp_path)
    said = harness(tmp_path, launcher, *GRID).stdout
    done = sum(status == "finished" for status, _ in before.values())
    assert f"{4 - done} finished, {done} finished before" in said
    assert "1 difference to the reference" in said
    store, after = ResultStore(tmp_path), attempts(tmp_path)
    assert [status for status, _ in after.values()] == ["finished"] * 4
    for run_id, (_, count) in after.items():
        status, tried = before.get(run_id, ("", 0))
        assert count == tried + (status != "finished")
        assert list(store.run(run_id).steps()["step"]) == [1, 2, 3]
        assert (store.run(run_id).path / ".hydra" / "overrides.yaml").exists()
    assert list(tmp_path.glob("experiments/*/tables/answer.md"))


def test_a_run_that_fails_ends_no_other(tmp_path: Path, launcher: str) -> None:
    said = harness(tmp_path, launcher, "--no-answer", *one_arm_fails(tmp_path), code=1).stdout
    assert "2 runs: 1 finished, 1 failed" in said
    assert "ZeroDivisionError" in said

"""What a job does as one task of an array in Slurm when it has to leave; Slurm is a stub (tests/slurm has a real one)."""

from __future__ import annotations

import signal
import subprocess

import pytest

from harness.commands._launch import Launch
from harness.execution import slurm
from harness.execution.slurm import RequeueError, requeue_if_it_has_to_leave
from harness.execution.supervisor import Summary

STOPPED = ["1" * 16]


@pytest.mark.parametrize(("launcher", "more"), [("ray", ["++runtime.elsewhere=true"]), ("joblib", [])])
def test_a_launcher_to_other_machines_says_so_however_it_is_chosen(launcher: str, more: list[str]) -> None:
    assert Launch("harness run", name=launcher).overrides == more


@pytest.fixture
def scontrol(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The commands that were called, instead of calling them."""
    called: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        called.append(command)
        return subprocess.CompletedProcess(command, 0, "PreemptTime=2026-01-01T00:00:00", "")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    for name in ("SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"):
        monkeypatch.delenv(name, raising=False)
    return called


def test_a_task_of_an_array_requeues_itself_and_not_the_array(
    scontrol: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    pre_empted = Summary(interrupted=STOPPED, stopped_by=signal.SIGTERM)
    assert not requeue_if_it_has_to_leave(pre_empted, has_new_checkpoint=True)
    assert scontrol == [], "this is no job of Slurm"
    monkeypatch.setenv("SLURM_JOB_ID", "40")
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "40")  # of the last task, whose number is the array's
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "0")
    assert requeue_if_it_has_to_leave(pre_empted, has_new_checkpoint=True)
    assert scontrol == [["scontrol", "show", "job", "40_0"], ["scontrol", "requeue", "40_0"]]


@pytest.mark.usefixtures("scontrol")
def test_a_requeue_that_slurm_refuses_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = subprocess.CompletedProcess([], 1, "", "Requested operation is presently disabled")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: refused)
    with pytest.raises(RequeueError, match=r"scontrol requeue 40. was refused .*presently disabled.; run the same"):
        slurm.requeue("40")


@pytest.mark.usefixtures("scontrol")
def test_a_container_without_scontrol_is_told_how_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object, **__: object) -> None:
        raise FileNotFoundError("scontrol")

    monkeypatch.setattr(subprocess, "run", missing)
    with pytest.raises(RequeueError, match=r"scontrol cannot be started .*not requeued; run the same"):
        slurm.requeue("40")


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2])
def test_a_job_whose_time_is_up_is_requeued_if_a_checkpoint_came_of_it(
    scontrol: list[list[str]], monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "40")
    stopped = Summary(interrupted=STOPPED, stopped_by=number)
    assert requeue_if_it_has_to_leave(stopped, has_new_checkpoint=True)
    assert scontrol == [["scontrol", "requeue", "40"]]
    with pytest.raises(RequeueError, match=r"time was up before .* Raise hydra\.launcher\.timeout_min"):
        requeue_if_it_has_to_leave(stopped, has_new_checkpoint=False)
    assert len(scontrol) == 1


def test_a_job_that_slurm_did_not_stop_or_that_is_done_is_not_requeued(
    scontrol: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    outside = Summary(interrupted=STOPPED, stopped_by=signal.SIGUSR2)
    assert not requeue_if_it_has_to_leave(outside, has_new_checkpoint=True)
    monkeypatch.setenv("SLURM_JOB_ID", "40")
    for summary in (
        Summary(finished=STOPPED, stopped_by=signal.SIGUSR2),
        Summary(failed=STOPPED),
        Summary(interrupted=STOPPED, stopped_by=signal.SIGINT),
    ):
        assert not requeue_if_it_has_to_leave(summary, has_new_checkpoint=True)
    assert scontrol == []

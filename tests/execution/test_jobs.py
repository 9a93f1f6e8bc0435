"""What a job does as one task of an array in Slurm when it has to leave; Slurm is a stub (tests/slurm has a real one)."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import pytest
from stored_runs import about, created
from submitit.core.utils import UncompletedJobError

from harness.commands._job import labels_of
from harness.commands._launch import Launch
from harness.configuration.error import ConfigError
from harness.execution import slurm
from harness.execution.slurm import RequeueError, requeue_if_it_has_to_leave
from harness.execution.supervisor import Summary
from harness.experiment.planning import plan_multirun
from harness.store import ResultStore

STOPPED = ["1" * 16]


class GivesUp:
    """A launcher that raises, after it has begun some runs."""

    def __init__(self, error: Exception, begin: Callable[[], None]) -> None:
        self.error, self.begin = error, begin

    def launch(self, jobs: list[list[str]], initial_job_idx: int) -> None:
        self.begin()
        raise self.error


def brought(root: Path, error: Exception, begin: bool = False) -> Summary:
    """What a launch of two runs comes to whose launcher gives up, after the first run has begun."""
    plan = plan_multirun(["seed=0,1", f"runtime.results={root}"])
    store = ResultStore(root)

    def start() -> None:
        if begin:
            attempt = {"index": 0, "outcome": None, "host": "h", "pid": 1, "gpus": 0}
            created(store.run(plan.specs[0].run_id), "", about(plan.specs[0], "running", attempts=[attempt]))

    launch = Launch("harness run", GivesUp(error, start), "submitit_slurm")  # type: ignore[arg-type]
    return launch.bring(plan, plan.specs, store)


def test_a_number_that_slurm_gives_again_does_not_end_the_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Slurm tells of the job that had the number before."""
    stale = UncompletedJobError("Job 4242 has not produced any output (state: COMPLETED)\nNo output stream")
    summary = brought(tmp_path, stale)
    assert (len(summary.not_started), summary.failed, summary.ended_well) == (2, [], False)
    (line,) = capsys.readouterr().out.splitlines()
    assert line.startswith("hydra/launcher=submitit_slurm: a job left no result and may start yet: Job 4242")


def test_a_launcher_that_begins_nothing_is_an_error_and_one_whose_job_dies_is_not(tmp_path: Path) -> None:
    died = UncompletedJobError("Job 7 has not produced any output (state: NODE_FAIL)")
    with pytest.raises(ConfigError, match=r"submitit_slurm began no run: UncompletedJobError: Job 7 .*NODE_FAIL"):
        brought(tmp_path, died)
    summary = brought(tmp_path, died, begin=True)
    assert (len(summary.failed), len(summary.not_started)) == (1, 1)
    assert "NODE_FAIL" in summary.errors[summary.failed[0]]


def test_a_run_whose_plan_was_written_over_has_labels_of_its_own(tmp_path: Path) -> None:
    store = ResultStore(tmp_path)
    mine = plan_multirun(["algorithm=grpo,dapo", "seed=0"])
    dapo = mine.specs[1]
    store.write_plan("swept", {**mine.record(), "name": "swept"})
    job = ["algorithm=dapo", "seed=0", "++experiment.name=swept"]
    assert labels_of(dapo.config, dapo.run_id, "swept", store, job) == {**dapo.labels, "experiment": "swept"}
    other = plan_multirun(["algorithm=cispo", "seed=0"])
    store.write_plan("swept", {**other.record(), "name": "swept"})
    assert labels_of(dapo.config, dapo.run_id, "swept", store, job) == {**dapo.labels, "experiment": "swept"}


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


@pytest.mark.parametrize(
    ("answers", "says"),
    [
        (FileNotFoundError("scontrol"), r"scontrol cannot be started .*run the same"),
        (None, r"scontrol requeue 40. was refused .*presently disabled.; repeat the command"),
    ],
)
@pytest.mark.usefixtures("scontrol")
def test_a_requeue_that_fails_says_how_to_go_on(
    monkeypatch: pytest.MonkeyPatch, answers: Exception | None, says: str
) -> None:
    refused = subprocess.CompletedProcess([], 1, "", "Requested operation is presently disabled")
    monkeypatch.setattr(subprocess, "run", Mock(side_effect=answers, return_value=refused))
    with pytest.raises(RequeueError, match=says):
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

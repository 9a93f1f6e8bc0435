"""What a job says and does as one task of an array, and what its follower makes of one that never begins; Slurm is a stub."""

from __future__ import annotations

import signal
import subprocess
import threading

import pytest
from harness.execution.launch import _jobs
from harness.execution.launch._jobs import Job, RequeueFailed, states, watch
from launch_support import Events, work
from sweep_support import spec

from harness.execution.attempt import Attempt
from harness.execution.supervisor import Summary

RECORD = {"provenance": {}, "environment": {}}


@pytest.fixture
def scontrol(monkeypatch):
    """The commands that were called, instead of calling them."""
    called: list[list[str]] = []

    def run(command, **_):
        called.append(command)
        return subprocess.CompletedProcess(command, 0, "PreemptTime=2026-01-01T00:00:00", "")

    monkeypatch.setattr(subprocess, "run", run)
    for name in ("SLURM_JOB_ID", "SLURM_ARRAY_JOB_ID", "SLURM_ARRAY_TASK_ID"):
        monkeypatch.delenv(name, raising=False)
    return called


def test_a_task_of_an_array_requeues_itself_and_not_the_array(scontrol, monkeypatch):
    assert not _jobs.requeue()
    assert not _jobs.pre_empted()
    assert scontrol == []
    monkeypatch.setenv("SLURM_JOB_ID", "40")
    _jobs.requeue()
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "40")  # of the last task, whose number is the array's
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "0")
    assert _jobs.requeue()
    assert _jobs.pre_empted()
    assert scontrol == [
        ["scontrol", "requeue", "40"],
        ["scontrol", "requeue", "40_0"],
        ["scontrol", "show", "job", "40_0"],
    ]


def test_a_requeue_that_slurm_refuses_is_reported(monkeypatch):
    monkeypatch.setenv("SLURM_JOB_ID", "40")
    refused = subprocess.CompletedProcess([], 1, "", "Requested operation is presently disabled")
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: refused)
    with pytest.raises(
        RequeueFailed, match=r"scontrol requeue 40. was refused .*presently disabled.; run the same"
    ):
        _jobs.requeue()


@pytest.mark.parametrize(("progressed", "requeues"), [(True, 1), (False, 0)])
def test_a_job_that_no_checkpoint_came_of_is_not_requeued_for_ever(
    tmp_path, scontrol, monkeypatch, progressed, requeues
):
    monkeypatch.setenv("SLURM_JOB_ID", "40")
    job = Job(work(tmp_path, [spec(0)]))

    def launch(*_, **__):
        if progressed:
            job.work.store.run(spec(0).run_id).publish_checkpoint(5, lambda folder: None)
        return Summary(interrupted=[spec(0).run_id], stopped_by=signal.SIGUSR2)

    monkeypatch.setattr(_jobs.local, "launch", launch)
    if progressed:
        job()
    else:
        with pytest.raises(RequeueFailed, match=r"time was up before .* Raise runtime\.launcher\.minutes"):
            job()
    assert scontrol == [["scontrol", "requeue", "40"]] * requeues


def test_jobs_are_asked_after_less_and_less_often(tmp_path, monkeypatch):
    pauses, left = [], [3] * 8 + [0]

    class Slow(Ended):
        poll_seconds = (2.0, 60.0)

        def alive(self):
            return left.pop(0)

    class Wake(threading.Event):
        def wait(self, timeout=None):
            pauses.append(timeout)

    monkeypatch.setattr(_jobs.threading, "Event", Wake)
    sent = work(tmp_path, [spec(0)])
    watch(sent, states(sent), Slow(), Events())
    assert pauses == [2, 4, 8, 16, 32, 60, 60, 60]


class Ended:
    """Jobs that are no more."""

    poll_seconds = (0.0, 0.0)

    def alive(self):
        return 0

    def last_words(self):
        return "slurmstepd: no such file (jobs/40_0_log.err)"


def attempt(sent, number, outcome):
    begun = Attempt.begin(sent.specs[number], sent.store.run(sent.specs[number].run_id), **RECORD)
    begun.end(
        {"failed": 1, "interrupted": 75}[outcome],
        stopping=False,
        note="the old error" * (outcome == "failed"),
    )


def test_a_run_whose_job_died_before_it_began_has_failed_with_the_jobs_last_words(tmp_path):
    sent = work(tmp_path, [spec(0), spec(1), spec(2)])
    attempt(sent, 0, "failed")
    attempt(sent, 1, "interrupted")
    before = states(sent)
    summary = watch(sent, before, Ended(), Events())
    assert sorted(summary.failed) == [one.run_id for one in sent.specs]
    assert not summary.not_started + summary.interrupted
    for reason in summary.errors.values():
        assert reason == "its job ended before it began the run: slurmstepd: no such file (jobs/40_0_log.err)"
    attempt(sent, 0, "failed")  # a new attempt that fails has its own reason
    summary = watch(sent, before, Ended(), Events())
    assert summary.errors[sent.specs[0].run_id] == "the old error"


def test_runs_behind_one_that_was_stopped_wait_for_the_next_call(tmp_path):
    sent = work(tmp_path, [spec(0), spec(1)])
    before = states(sent)
    attempt(sent, 0, "interrupted")
    summary = watch(sent, before, Ended(), Events())
    assert (summary.failed, summary.interrupted) == ([], [sent.specs[0].run_id])
    assert summary.errors[sent.specs[0].run_id] == Ended().last_words()
    assert summary.not_started == [sent.specs[1].run_id]

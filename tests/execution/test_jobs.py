"""What a job says and does as one task of an array, and what its follower makes of one that never begins; Slurm is a stub."""

from __future__ import annotations

import subprocess

import pytest

from harness.execution.launch import _job


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
    assert not _job.requeue()
    assert not _job.pre_empted()
    assert scontrol == []
    monkeypatch.setenv("SLURM_JOB_ID", "40")
    _job.requeue()
    monkeypatch.setenv("SLURM_ARRAY_JOB_ID", "40")  # of the last task, whose number is the array's
    monkeypatch.setenv("SLURM_ARRAY_TASK_ID", "0")
    assert _job.requeue()
    assert _job.pre_empted()
    assert scontrol == [
        ["scontrol", "requeue", "40"],
        ["scontrol", "requeue", "40_0"],
        ["scontrol", "show", "job", "40_0"],
    ]

"""Ranks of several nodes meet by torchrun's rendezvous: here two "nodes" are two agents that a stand-in for srun starts on this machine."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest
from small_runs import claimed, small_config

from harness.backends import builtin
from harness.base_policy.pretrained import Config as Pretrained
from harness.configuration.runtime import RuntimeConfig
from harness.execution.launch.slurm import Config as Slurm
from harness.execution.launch.slurm import parameters

# What srun does with these options: the same command once a node, and the worst exit code.
SRUN = """#!/bin/sh
while [ "${1#--}" != "$1" ]; do echo "$1" >> "$SRUN_LOG"; shift; done
"$@" & first=$!
"$@" & second=$!
wait $first; a=$?
wait $second; b=$?
[ $a -gt $b ] && exit $a
exit $b
"""


def test_two_nodes_train_one_run(base_policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    srun = tmp_path / "bin" / "srun"
    srun.write_text(SRUN)
    srun.chmod(srun.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{srun.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("SRUN_LOG", str(tmp_path / "srun.log"))
    monkeypatch.setenv("SLURM_JOB_ID", str(os.getpid()))
    monkeypatch.setattr("socket.gethostname", lambda: "localhost")
    config = small_config(
        model=Pretrained(path=str(base_policy), precision="float32"),
        training__steps=2,
        runtime__nodes=2,
        runtime__ranks=1,
        runtime__results=str(tmp_path / "store"),
    )
    run = claimed(config, tmp_path / "store")
    assert builtin.train(config, run, lambda: False, int(run.new_attempt().name))
    assert run.steps()["step"].tolist() == [1, 2]
    assert (run.checkpoints()[-1][1] / "policy" / "model.safetensors").exists()
    assert "--nodes=2" in (tmp_path / "srun.log").read_text()


def test_a_job_over_several_nodes_runs_its_supervisor_on_the_first() -> None:
    several = parameters(Slurm(), RuntimeConfig(nodes=4, gpus_per_run=8, device="cuda"), "name")
    assert (several["nodes"], several["gpus_per_node"], several["cpus_per_task"]) == (4, 8, 8)
    assert several["slurm_srun_args"] == ["--nodes=1", "--ntasks=1", "--overlap"]
    one = parameters(Slurm(), RuntimeConfig(), "name")
    assert one["nodes"] == 1
    assert "slurm_srun_args" not in one
    shared = parameters(
        Slurm(runs_per_job=8), RuntimeConfig(workers=8, runs_per_gpu=4, device="cuda", threads=2), "name"
    )
    assert (shared["gpus_per_node"], shared["cpus_per_task"]) == (2, 16)

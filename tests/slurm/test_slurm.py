"""A real Slurm: arrays, pre-emption, the signal before the time limit, stopping. Start one with tests/slurm/setup.sh."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "execution"))

from harness.execution.launch import slurm
from launch_support import Events, statuses, use_stubs, work
from sweep_support import Spec, sweep, wait_until

from harness.configuration.error import ConfigError
from harness.configuration.sections import RuntimeConfig
from harness.store import ResultStore

REQUEUE_SECONDS = 240  # Slurm holds a requeued job back for two minutes, the one of setup.sh for ten seconds


def test_options_are_what_slurm_is_asked_for():
    config = slurm.Config(partition="gpu", minutes=90, runs_per_job=4, gpus=2, memory_gib=32, jobs=8)
    options = slurm.parameters(config, RuntimeConfig(device="cuda", threads=3, workers=2), "ladder")
    assert options["slurm_partition"] == "gpu"
    assert options["gpus_per_node"] == 2
    assert options["cpus_per_task"] == 6  # two runs at once, three threads each
    assert options["slurm_array_parallelism"] == 8
    assert options["slurm_additional_parameters"]["requeue"] is True
    assert "slurm_account" not in options
    cpu = slurm.parameters(slurm.Config(), RuntimeConfig(device="cpu"), "ladder")
    assert "gpus_per_node" not in cpu


def test_a_job_over_several_nodes_runs_its_supervisor_on_the_first():
    runtime = RuntimeConfig(nodes=4, gpus_per_run=8, device="cuda")
    several = slurm.parameters(slurm.Config(), runtime, "name")
    assert (several["nodes"], several["gpus_per_node"], several["cpus_per_task"]) == (4, 8, 8)
    assert several["slurm_srun_args"] == ["--nodes=1", "--ntasks=1", "--overlap"]
    assert "slurm_srun_args" not in slurm.parameters(slurm.Config(), RuntimeConfig(), "name")


def available() -> bool:
    if shutil.which("sinfo") is None:
        return False
    try:
        listed = subprocess.run(
            ["sinfo", "-h", "-o", "%T"], capture_output=True, text=True, timeout=10, check=False
        )
    except subprocess.TimeoutExpired:
        return False
    return listed.returncode == 0 and "idle" in listed.stdout


@pytest.fixture
def specs(monkeypatch):
    if not available():
        pytest.skip("no idle Slurm node; start one with tests/slurm/setup.sh")
    use_stubs(monkeypatch)
    yield sweep(2, steps=30, seconds=0.3)
    subprocess.run(["scancel", "--name=launched"], check=False)
    wait_until(available, 60)


def submit(root: Path, specs: list[Spec], **options: object):
    return slurm.launch(slurm.Config(partition="low", minutes=10, **options), work(root, specs), Events())


def steps_of(store: ResultStore, specs: list[Spec]) -> list[int]:
    return [(store.run(one.run_id).last_step() or {}).get("step", 0) for one in specs]


def jobs() -> list[str]:
    listed = subprocess.run(
        ["squeue", "-h", "--array", "--name=launched", "-o", "%A"], capture_output=True, text=True, check=True
    )
    return listed.stdout.split()


@pytest.mark.optional
def test_an_array_runs_every_run_once(tmp_path, specs):
    summary = submit(tmp_path, specs)
    assert sorted(summary.finished) == [one.run_id for one in specs]
    manifest = ResultStore(tmp_path).run(specs[0].run_id).manifest()
    assert len(manifest["attempts"]) == 1
    assert manifest["attempts"][0]["job"]
    assert submit(tmp_path, specs).skipped == [one.run_id for one in specs]


@pytest.mark.optional
@pytest.mark.parametrize("how", ["time limit", "pre-emption"])
def test_a_job_that_has_to_leave_checkpoints_requeues_and_resumes(tmp_path, specs, how):
    submit(tmp_path, specs[:1], wait=False)
    store = ResultStore(tmp_path)
    wait_until(lambda: min(steps_of(store, specs[:1])) > 2, 60)
    if how == "time limit":  # Slurm sends this signal `grace_seconds` before the limit
        subprocess.run(["scancel", "--signal=USR2", *jobs()], check=True)
    else:
        subprocess.run(
            ["sbatch", "--partition=high", "--exclusive", "--output=/dev/null", "--wrap", "sleep 1"],
            check=True,
        )
    wait_until(lambda: statuses(store, specs[:1]) == ["interrupted"], 60)
    step = store.run(specs[0].run_id).checkpoints()[-1][0]
    wait_until(lambda: statuses(store, specs[:1]) == ["finished"], REQUEUE_SECONDS)
    steps = store.run(specs[0].run_id).steps()
    assert list(steps["step"]) == list(range(1, 31))
    assert (steps["attempt"] == 1).sum() == 30 - step


@pytest.mark.optional
def test_a_stop_ends_a_job_with_a_checkpoint_and_without_requeueing(tmp_path, specs):
    store = ResultStore(tmp_path)

    def stop_when_it_runs() -> None:
        wait_until(lambda: min(steps_of(store, specs[:1])) > 2, 120)
        os.kill(os.getpid(), signal.SIGTERM)

    thread = threading.Thread(target=stop_when_it_runs)
    thread.start()
    summary = submit(tmp_path, specs[:1])
    thread.join()
    assert (summary.interrupted, summary.stopped_by) == ([specs[0].run_id], signal.SIGTERM)
    assert store.run(specs[0].run_id).checkpoints()
    wait_until(lambda: jobs() == [], 60)
    time.sleep(1)
    assert statuses(store, specs[:1]) == ["interrupted"]


@pytest.mark.optional
def test_a_job_that_dies_before_its_runs_says_why_and_where(tmp_path, specs, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if "execution" not in path))
    summary = submit(tmp_path, specs)
    assert set(summary.failed) == {one.run_id for one in specs}
    said = summary.errors[specs[0].run_id]
    assert "No module named 'sweep_support'" in said
    assert "_log.err" in said


@pytest.mark.optional
def test_what_slurm_refuses_is_one_clear_error(tmp_path, specs):
    with pytest.raises(ConfigError, match="refused the jobs"):
        slurm.launch(slurm.Config(partition="no_such_partition"), work(tmp_path, specs), Events())

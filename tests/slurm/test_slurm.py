"""A real Slurm by hydra/launcher=submitit_slurm: arrays, pre-emption, the signal before the time limit. tests/slurm/setup.sh starts one."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "execution"))

from launch_support import FEW_STEPS, attempts, harness
from sweep_support import wait_until

from harness.store import ResultStore

pytestmark = [pytest.mark.optional, pytest.mark.usefixtures("_slurm")]
REQUEUE_SECONDS = 240  # Slurm holds a requeued job back for two minutes, the one of setup.sh for ten seconds
PARTITION = "hydra.launcher.partition=low"
SLURM = ["hydra/launcher=submitit_slurm", "hydra.launcher.timeout_min=10", "hydra.launcher.name=launched"]
SLURM += ["hydra.launcher.signal_delay_s=30", "+hydra.launcher.additional_parameters.requeue=true"]
SLURM += ["--no-answer", PARTITION]
GRID = ["-m", "algorithm=grpo,dapo", "seed=0,1", *FEW_STEPS]
STEPS = 100
LONG = ["-m", "algorithm=grpo", "seed=0", *FEW_STEPS, f"training.steps={STEPS}", "training.evaluate_every=100"]


def available() -> bool:
    if shutil.which("sinfo") is None:
        return False
    try:
        listed = subprocess.run(["sinfo", "-h", "-o", "%T"], capture_output=True, text=True, timeout=10, check=False)
    except subprocess.TimeoutExpired:
        return False
    return listed.returncode == 0 and "idle" in listed.stdout


@pytest.fixture
def _slurm() -> Iterator[None]:
    if not available():
        pytest.skip("no idle Slurm node; start one with tests/slurm/setup.sh")
    yield
    subprocess.run(["scancel", "--name=launched"], check=False)
    wait_until(available, 60)


@pytest.fixture
def waiting(tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """The command of one long run, which waits for its job. The job has made some steps."""
    command = [sys.executable, "-m", "harness", "run", *SLURM, *LONG, f"runtime.results={tmp_path}"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    store = ResultStore(tmp_path)

    def has_trained() -> bool:
        assert process.poll() is None, process.communicate()[0]
        return any((store.run(run_id).last_step() or {}).get("step", 0) > 2 for run_id in store.run_ids())

    wait_until(has_trained, 120, "the third step")
    yield process
    process.kill()
    process.communicate()


def jobs() -> list[str]:
    listed = subprocess.run(
        ["squeue", "-h", "--array", "--name=launched", "-o", "%A"], capture_output=True, text=True, check=True
    )
    return listed.stdout.split()


def test_an_array_goes_on_without_the_command_which_then_collects_the_answer(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "harness", "run", *SLURM, *GRID, f"runtime.results={tmp_path}"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(
        lambda: process.poll() is not None or ("finished", 1) in attempts(tmp_path).values(), 120, "a finished run"
    )
    assert process.poll() is None, "the command ended too early"
    process.send_signal(signal.SIGKILL)
    process.wait()
    wait_until(lambda: jobs() == [], 120, "the end of the jobs")
    assert list(attempts(tmp_path).values()) == [("finished", 1)] * 4
    said = harness(tmp_path, *(item for item in SLURM if item != "--no-answer"), *GRID)
    assert "all 4 runs were finished already" in said
    assert list(attempts(tmp_path).values()) == [("finished", 1)] * 4
    assert list(tmp_path.glob("experiments/*/tables/answer.md"))
    assert len(list(tmp_path.glob("runs/*/.hydra/overrides.yaml"))) == 4


@pytest.mark.parametrize("how", ["time limit", "pre-emption"])
def test_a_job_that_has_to_leave_checkpoints_requeues_and_resumes(
    tmp_path: Path, waiting: subprocess.Popen[str], how: str
) -> None:
    if how == "time limit":  # Slurm sends this signal `signal_delay_s` before the limit
        subprocess.run(["scancel", "--signal=USR2", *jobs()], check=True)
    else:
        subprocess.run(
            ["sbatch", "--partition=high", "--exclusive", "--output=/dev/null", "--wrap", "sleep 1"], check=True
        )
    wait_until(lambda: list(attempts(tmp_path).values()) == [("interrupted", 1)], 60, "the interrupted run")
    (run,) = map(ResultStore(tmp_path).run, ResultStore(tmp_path).run_ids())
    step = run.checkpoints()[-1][0]
    said, _ = waiting.communicate(timeout=REQUEUE_SECONDS)
    assert waiting.returncode == 0, said
    assert "its run was finished" in said or "1 run: 1 finished" in said
    steps = run.steps()
    assert list(steps["step"]) == list(range(1, STEPS + 1))
    assert (steps["attempt"] == 1).sum() == STEPS - step


def test_a_cancelled_job_ends_with_a_checkpoint_and_is_not_requeued(
    tmp_path: Path, waiting: subprocess.Popen[str]
) -> None:
    subprocess.run(["scancel", *jobs()], check=True)
    said, _ = waiting.communicate(timeout=120)
    assert waiting.returncode == 75, said
    assert "1 interrupted" in said
    wait_until(lambda: jobs() == [], 60)
    time.sleep(1)
    assert list(attempts(tmp_path).values()) == [("interrupted", 1)]


def test_what_slurm_refuses_is_one_clear_error(tmp_path: Path) -> None:
    refused = ["hydra.launcher.partition=no_such_partition" if item == PARTITION else item for item in SLURM]
    said = harness(tmp_path, *refused, *GRID, code=2)
    assert "hydra/launcher=submitit_slurm began no run" in said
    assert "no_such_partition" in said or "invalid partition" in said.lower()
    assert "Traceback" not in said

"""`harness run -m hydra/launcher=NAME`: killed in the middle and repeated, with a run that fails, with packages that are absent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hydra.core.config_store import ConfigStore
from launch_support import FEW_STEPS, attempts, harness, one_arm_fails
from sweep_support import MARK, processes_with, wait_until
from verbs import Said, harness_here

from harness.store import ResultStore

pytestmark = pytest.mark.usefixtures("_alone")
LACKING = "harness run: hydra/launcher={launcher} needs packages that are not installed: pip install -e '.[{extra}]'\n"
LAUNCHERS = ["basic", "submitit_local", "ray"]
GRID = ["-m", "algorithm=grpo,dapo", *FEW_STEPS]
ONE_BY_ONE = ["seed=0", "hydra.launcher.n_jobs=1"]


@pytest.fixture(params=["joblib", *(pytest.param(name, marks=pytest.mark.thorough) for name in LAUNCHERS)])
def launcher(request: pytest.FixtureRequest) -> str:
    """`hydra/launcher=NAME`; its package is in the extra `dev`, but for Ray's."""
    if request.param == "ray":
        pytest.importorskip("hydra_plugins.hydra_ray_launcher", reason="pip install --no-deps hydra-ray-launcher")
    return f"hydra/launcher={request.param}"


@pytest.fixture
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_AUTH_MODE", "disabled")
    monkeypatch.setenv("RAY_ENABLE_UV_RUN_RUNTIME_ENV", "0")


class Command:
    """`harness run` as a process of its own, with all that it starts."""

    def __init__(self, results: Path, *arguments: str) -> None:
        self.mark = uuid.uuid4().hex
        self.results = results
        self.process = subprocess.Popen(
            [sys.executable, "-m", "harness", "run", *arguments, f"runtime.results={results}"],
            env={**os.environ, MARK: self.mark},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def wait_for(self, moment: Callable[[], bool]) -> None:
        """Wait for the moment; the command must not have ended before it."""
        wait_until(lambda: moment() or self.process.poll() is not None)
        assert self.process.poll() is None, self.process.communicate()[0]

    def kill(self) -> None:
        """End all that was started, as a machine does that goes down."""
        while left := processes_with(self.mark):
            for pid in left:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            self.process.poll()
        self.process.communicate()


def statuses(results: Path) -> list[str | None]:
    store = ResultStore(results)
    return [store.run(run_id).status for run_id in store.run_ids()]


def test_a_killed_sweep_goes_on_where_it_was_and_trains_nothing_twice(tmp_path: Path, launcher: str) -> None:
    runs, seeds = (2, ONE_BY_ONE) if launcher.endswith("joblib") else (4, ["seed=0,1"])
    given = [launcher, *GRID, *seeds]
    command = Command(tmp_path, *given)
    command.wait_for(lambda: "finished" in statuses(tmp_path))
    command.kill()
    before = attempts(tmp_path)
    again = [*given, f"runtime.results={tmp_path}"]
    said = harness_here(tmp_path, "run", *again) if runs == 2 else harness(tmp_path, *given)
    done = sum(status == "finished" for status, _ in before.values())
    assert f"{runs - done} finished, {done} finished before" in said
    assert runs == 2 or "verdict" in said
    store, after = ResultStore(tmp_path), attempts(tmp_path)
    assert [status for status, _ in after.values()] == ["finished"] * runs
    for run_id, (_, count) in after.items():
        status, tried = before.get(run_id, ("", 0))
        assert count == tried + (status != "finished")
        assert list(store.run(run_id).steps()["step"]) == [1, 2, 3]
        assert (store.run(run_id).path / ".hydra" / "overrides.yaml").exists()
    labels = [(store.run(run_id).manifest() or {})["labels"] for run_id in after]
    assert {label["experiment"] for label in labels} == set(store.plans())
    assert sorted(label["arm"] for label in labels) == ["dapo"] * (runs // 2) + ["grpo"] * (runs // 2)
    assert list(tmp_path.glob("experiments/*/tables/answer.md"))


@pytest.mark.parametrize(
    "name", ["basic", *(pytest.param(n, marks=pytest.mark.thorough) for n in ("joblib", *LAUNCHERS[1:]))]
)
def test_a_run_that_fails_ends_no_other(tmp_path: Path, name: str, said: Said) -> None:
    """`make test` takes the launcher of this process: the way of a failure is the same for all."""
    arguments = [f"hydra/launcher={name}", "--no-answer", *one_arm_fails(tmp_path)]
    here = (*arguments, f"runtime.results={tmp_path}")
    told = said("run", *here, code=1) if name == "basic" else harness(tmp_path, *arguments, code=1)
    assert "2 runs: 1 finished, 1 failed" in told
    assert "ZeroDivisionError" in told


def test_a_job_that_dies_ends_no_other(tmp_path: Path) -> None:
    """The job of a run that trains is killed by hand; the command has an answer, names the cause, and the same one brings the rest."""
    few = ["hydra/launcher=submitit_local", "--no-answer", "-m", "seed=0,1", *FEW_STEPS]
    command = Command(tmp_path, *few)
    command.wait_for(lambda: "running" in statuses(tmp_path))
    store = ResultStore(tmp_path)
    run = next(run for run in map(store.run, store.run_ids()) if run.status == "running")
    holder = run.claim_holder()
    assert holder is not None
    assert holder.pid is not None
    os.kill(holder.pid, signal.SIGKILL)
    said, _ = command.process.communicate(timeout=300)
    assert command.process.returncode == 1, said
    assert "UncompletedJobError" in said
    assert "a job died; run the same command again" in said
    command.kill()
    assert "2 runs: " in harness_here(tmp_path, "run", *few, f"runtime.results={tmp_path}")
    assert statuses(tmp_path) == ["finished"] * 2


def test_a_stop_ends_a_sweep_in_one_process_with_a_checkpoint(tmp_path: Path) -> None:
    command = Command(
        tmp_path, "hydra/launcher=basic", "--no-answer", "-m", "seed=0,1", *FEW_STEPS, "training.steps=400"
    )
    command.wait_for(lambda: bool(list(tmp_path.glob("runs/*/checkpoints/step-*"))))
    command.process.send_signal(signal.SIGTERM)
    said, _ = command.process.communicate(timeout=120)
    assert command.process.returncode == 75, said
    assert "1 interrupted, 1 not started" in said
    assert statuses(tmp_path) == ["interrupted"]


def test_a_launcher_whose_packages_are_absent_is_refused_in_a_line(
    said: Said, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("-m", "seed=0,1", f"runtime.results={tmp_path}", "runtime.device=cpu")
    monkeypatch.setitem(sys.modules, "submitit", None)
    found = said("run", "hydra/launcher=submitit_slurm", *arguments, code=2)
    assert found == LACKING.format(launcher="submitit_slurm", extra="slurm")
    monkeypatch.delitem(ConfigStore.instance().repo["hydra"]["launcher"], "joblib.yaml")
    found = said("run", "hydra/launcher=joblib", *arguments, code=2)
    assert found == LACKING.format(launcher="joblib", extra="joblib")
    assert not list(tmp_path.glob("runs/*"))


@pytest.mark.slow
def test_a_run_on_a_node_of_ray_that_dies_goes_on_on_another(tmp_path: Path) -> None:
    pytest.importorskip("hydra_plugins.hydra_ray_launcher", reason="pip install --no-deps hydra-ray-launcher")
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        node = cluster.add_node(num_cpus=1)  # one place: the run that trains is on this node
        cluster.wait_for_nodes()
        ray = ["hydra/launcher=ray", f"hydra.launcher.ray.init.address={cluster.address}"]
        ray += ["+hydra.launcher.ray.init.object_store_memory=null"]  # docs/cluster.md says why
        few = ["--no-answer", "-m", "seed=0,1", *FEW_STEPS, "training.steps=100"]
        command = Command(tmp_path, *ray, *few)
        command.wait_for(lambda: bool(list(tmp_path.glob("runs/*/checkpoints/step-*/"))))
        cluster.remove_node(node, allow_graceful=False)
        cluster.add_node(num_cpus=1)
        said, _ = command.process.communicate(timeout=300)
    finally:
        cluster.shutdown()
    assert command.process.returncode == 0, said
    assert sorted(attempts(tmp_path).values()) == [("finished", 1), ("finished", 2)]
    for run in map(ResultStore(tmp_path).run, attempts(tmp_path)):
        assert list(run.steps()["step"]) == list(range(1, 101))

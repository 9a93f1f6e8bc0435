"""The real command over a small real sweep, killed at random moments: the tables are those of an undisturbed sweep, byte for byte."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from small_runs import SMALL
from verbs import harness_here

from harness.store import ResultStore, lease

PATIENCE = 900  # seconds, only against a command that hangs
SWEEP = ["run", "-m", "--no-answer", "algorithm=grpo,dapo", "seed=0,1", *SMALL]
SWEEP += ["training.evaluate_every=3", "training.steps=3"]


def start(results: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "harness", *arguments, f"runtime.results={results}"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def finish(results: Path) -> None:
    """The sweep to its end, in this process: those that are killed are commands of their own."""
    harness_here(results, *SWEEP, f"runtime.results={results}")


def tables(results: Path) -> dict[str, bytes]:
    """Everything in the answer that does not tell the time or the place."""
    (experiment,) = (results / "experiments").iterdir()
    harness_here(results, "report", f"experiment={experiment.name}", "only=tables", f"runtime.results={results}")
    found = {
        str(path.relative_to(experiment)): path.read_bytes().partition(b"| a run takes")[0]
        for path in sorted((experiment / "tables").rglob("*"))
        if path.suffix in (".csv", ".md", ".tex")
    }
    assert found
    return found


def workers(results: Path) -> list[int]:
    store = ResultStore(results)
    holders = [lease.holder(store.run(run_id).path / "worker.lock") for run_id in store.run_ids()]
    return [holder.pid for holder in holders if holder is not None and holder.pid is not None]


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory) -> Path:
    results = tmp_path_factory.mktemp("undisturbed")
    finish(results)
    return results


def samples(results: Path) -> dict[str, list]:
    store = ResultStore(results)
    runs = map(store.run, store.run_ids())
    return {
        run.run_id: [
            (step, run.samples("arithmetic_heldout", step).to_dict("list"))
            for step in run.sample_steps("arithmetic_heldout")
        ]
        for run in runs
    }


def steps_done(results: Path) -> int:
    return sum(path.read_bytes().count(b"\n") for path in (results / "runs").glob("*/metrics.jsonl"))


def let_it_run(process: subprocess.Popen[str], results: Path, steps: int) -> None:
    """Until the sweep has done so many more steps, or is over; 0 is while it composes, claims or warms up."""
    wanted, deadline = steps_done(results) + steps, time.monotonic() + PATIENCE
    while process.poll() is None and (steps_done(results) < wanted or not (results / "runs").exists()):
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.mark.parametrize("kills", [2, pytest.param(60, marks=pytest.mark.slow)])
def test_random_kills_of_supervisor_and_workers_change_nothing(tmp_path, undisturbed, kills):
    chance = random.Random(kills)
    done: dict[str, str] = {}
    for _ in range(kills):
        process = start(tmp_path, *SWEEP)
        let_it_run(process, tmp_path, chance.randint(0, 5))
        if process.poll() is None:
            if chance.random() < 0.5:
                for pid in workers(tmp_path)[:1]:
                    with contextlib.suppress(ProcessLookupError):  # it ended meanwhile
                        os.kill(pid, signal.SIGKILL)
            if chance.random() < 0.8:
                process.kill()
        process.communicate(timeout=PATIENCE)
        store = ResultStore(tmp_path)
        assert store.problems() == [], "something is torn"
        for run_id, ended in done.items():  # what was finished is not touched again
            assert store.run(run_id).manifest()["attempts"][-1]["ended_at"] == ended
        for run_id in store.run_ids():
            manifest = store.run(run_id).manifest()
            if manifest["status"] == "finished":
                done[run_id] = manifest["attempts"][-1]["ended_at"]
    finish(tmp_path)
    assert ResultStore(tmp_path).problems() == []
    assert samples(tmp_path) == samples(undisturbed)
    assert tables(tmp_path) == tables(undisturbed)

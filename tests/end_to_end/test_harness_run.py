"""The main job as a user runs it: a small ladder from one command to its tables, repeated, interrupted, with bad input."""

from __future__ import annotations

import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import small_runs
import verbs

PATIENCE = 900  # seconds, only against a command that hangs: a busy machine takes ten times as long as an idle one
SMALL = [*small_runs.SMALL, "training.evaluate_every=2"]
LADDER = ["experiment=dapo_ladder", "experiment.seeds=[0,1]", "training.steps=2", *SMALL]


def here(results: Path, *arguments: str) -> str:
    """Run a verb on this store in this process; returns what it printed."""
    return verbs.harness_here(results, *arguments, f"runtime.results={results}")


def answer(results: Path) -> dict[str, bytes]:
    """The deterministic tables of the ladder: everything but the cost table and the seconds of an answer."""
    folder = results / "experiments" / "dapo_ladder" / "tables"
    paths = sorted(folder.iterdir())
    return {path.name: path.read_bytes().partition(b"| a run takes")[0] for path in paths}


@pytest.fixture(scope="module")
def ladder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of an undisturbed sweep of 6 arms x 2 seeds. Its figures are not drawn: `test_tutorial.py` has those of a run."""
    results = tmp_path_factory.mktemp("undisturbed")
    assert "12 runs: 12 finished" in here(results, "run", "--no-answer", *LADDER)
    here(results, "report", "experiment=dapo_ladder", "only=tables")
    return results


def test_the_ladder_is_trained_evaluated_and_answered(ladder: Path) -> None:
    tables = answer(ladder)
    assert {Path(name).suffix for name in tables} >= {".md", ".tex", ".csv"}
    text = b"".join(tables.values()).decode()
    assert "dynamic sampling" in text
    assert "resolved" in text


def test_the_second_invocation_does_nothing_and_says_so(ladder: Path) -> None:
    def written() -> dict[Path, int]:
        return {path: path.stat().st_mtime_ns for path in (ladder / "runs").rglob("*") if path.is_file()}

    before, tables = written(), answer(ladder)
    assert "all 12 runs were finished already; nothing to do" in here(ladder, "run", "--no-answer", *LADDER)
    assert (written(), answer(ladder)) == (before, tables)


def test_hydras_multirun_shares_runs_with_the_experiment(ladder: Path) -> None:
    grid = ["rung=glob(dapo_*)", "seed=0,1", "training.steps=2", *SMALL]
    assert "all 12 runs were finished already" in here(ladder, "run", "-m", "--no-answer", *grid)


def test_sigterm_stops_after_a_step_and_the_run_resumes(ladder: Path, tmp_path: Path) -> None:
    shutil.copytree(ladder / "cache", tmp_path / "cache")  # nothing is warmed up
    long = ["algorithm=grpo", "seed=5", "training.steps=400", *SMALL, f"runtime.results={tmp_path}"]
    process = subprocess.Popen([sys.executable, "-m", "harness", "run", *long], stdout=subprocess.PIPE, text=True)
    deadline = time.monotonic() + PATIENCE
    while not list(tmp_path.glob("runs/*/checkpoints/step-*")):
        assert process.poll() is None, "the command ended too early"
        assert time.monotonic() < deadline
        time.sleep(0.02)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 75
    assert "run the same command again" in output
    assert "figures and page are left out" in output
    (tables,) = (tmp_path / "experiments").glob("*/tables/answer.md")
    assert not (tables.parents[1] / "report.html").exists()
    (run,) = [path for path in (tmp_path / "runs").iterdir() if path.is_dir()]
    assert '"interrupted"' in (run / "manifest.json").read_text()

"""The main job as a user runs it: a small ladder from one command to its tables, repeated, interrupted, with bad input."""

from __future__ import annotations

import json
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import small_runs

from harness.cli import main
from harness.commands._answer import write_answer
from harness.store import ResultStore

# seconds, only against a command that hangs: a busy machine takes ten times as long as an idle one
PATIENCE = 900
SMALL = [*small_runs.SMALL, "training.evaluate_every=2"]
LADDER = ["experiment=dapo_ladder", "experiment.seeds=[0,1]", "training.steps=2", *SMALL]


def command(results: Path, *arguments: str) -> list[str]:
    return [sys.executable, "-m", "harness", arguments[0], *arguments[1:], f"runtime.results={results}"]


def harness(results: Path, *arguments: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(command(results, *arguments), capture_output=True, text=True, check=False, timeout=PATIENCE)
    assert done.returncode == code, f"{done.stdout}\n{done.stderr}"
    return done


def killed(results: Path, *arguments: str, once: Callable[[], object]) -> None:
    """Start the command and kill it by SIGKILL at the moment that `once` names."""
    process = subprocess.Popen(command(results, *arguments), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    reached(once, process)
    process.send_signal(signal.SIGKILL)
    process.wait()


def reached(moment: Callable[[], object], process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> None:
    """Wait for the moment; the command must not have ended before it."""
    deadline = time.monotonic() + PATIENCE
    while not moment():
        assert process.poll() is None, "the command ended too early"
        assert time.monotonic() < deadline
        time.sleep(0.02)


def checkpoints(results: Path) -> list[Path]:
    return list((results / "runs").glob("*/checkpoints/step-*"))


def with_runs(results: Path, other: Path, name: str, *seeds: int) -> int:
    """Put another store's runs of these seeds into a new one; returns how many checkpoints they have."""
    plan = json.loads((other / "experiments" / name / "plan.json").read_text())
    for run in (arm["runs"][str(seed)] for arm in plan["arms"] for seed in seeds):
        shutil.copytree(other / "runs" / run, results / "runs" / run)
    return len(checkpoints(results))


def with_base_policy(results: Path, other: Path) -> Path:
    """Put another store's base policy into a new one: nothing is warmed up."""
    shutil.copytree(other / "cache", results / "cache")
    return results


def answer(results: Path, name: str = "dapo_ladder") -> dict[str, bytes]:
    """The deterministic tables of an experiment: everything but the cost table, whose seconds are the machine's."""
    folder = results / "experiments" / name / "tables"
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if not path.name.startswith("cost")}


@pytest.fixture(scope="module")
def ladder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of an undisturbed sweep of 6 arms x 2 seeds. Its figures are not drawn: `test_tutorial.py` has those of a run."""
    results = tmp_path_factory.mktemp("undisturbed")
    done = harness(results, "run", "--no-answer", *LADDER)
    assert "12 runs: 12 finished" in done.stdout
    harness(results, "report", "experiment=dapo_ladder", "only=tables")
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
    done = harness(ladder, "run", "--no-answer", *LADDER)
    assert "all 12 runs were finished already; nothing to do" in done.stdout
    assert (written(), answer(ladder)) == (before, tables)


def test_hydras_multirun_shares_runs_with_the_experiment(ladder: Path) -> None:
    grid = ["rung=glob(dapo_*)", "seed=0,1", "training.steps=2", *SMALL]
    done = harness(ladder, "run", "-m", "--no-answer", *grid)
    assert "all 12 runs were finished already" in done.stdout


def test_sigterm_stops_after_a_step_and_the_run_resumes(ladder: Path, tmp_path: Path) -> None:
    with_base_policy(tmp_path, ladder)
    long = ["algorithm=grpo", "seed=5", "training.steps=400", *SMALL]
    process = subprocess.Popen(command(tmp_path, "run", *long), stdout=subprocess.PIPE, text=True)
    reached(lambda: checkpoints(tmp_path), process)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 75
    assert "run the same command again" in output
    assert "figures and page are left out" in output
    (tables,) = (tmp_path / "experiments").glob("*/tables/answer.md")
    assert not (tables.parents[1] / "report.html").exists()
    (run,) = [path for path in (tmp_path / "runs").iterdir() if path.is_dir()]
    assert '"interrupted"' in (run / "manifest.json").read_text()


def test_seeds_until_decided_killed_and_repeated_give_the_same_bytes(
    ladder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Three arms, looks at 2 and 3 seeds; the second store has the first look's runs, is killed in the second and the command repeated."""

    def tables_for_all(store: ResultStore, name: str, only: str) -> None:
        write_answer(store, name, only="tables" if only == "all" else only)

    looks = ["experiment=dapo_equal_tokens", "match=steps", "experiment.seeds={looks: [2, 3]}"]
    looks += ["training.steps=2", *SMALL]
    name = "dapo_equal_tokens"
    whole, parted = (with_base_policy(tmp_path / part, ladder) for part in ("whole", "parted"))
    monkeypatch.setattr("harness.commands._sweep.write_answer", tables_for_all)
    assert main(command(whole, "run", *looks)[3:]) == 0
    said = capfd.readouterr().out
    assert "of 2 comparisons are closed, the next look needs more seeds" in said
    assert "Two of two comparisons wait for more seeds." in " ".join(said.split())
    before = with_runs(parted, whole, name, 0, 1)
    killed(parted, "run", "--no-answer", *looks, once=lambda: len(checkpoints(parted)) > before)
    harness(parted, "run", "--no-answer", *looks)
    harness(parted, "report", f"experiment={name}", "only=tables")
    assert answer(parted, name) == answer(whole, name)
    plans = [(root / "experiments" / name / "plan.json").read_bytes() for root in (whole, parted)]
    assert plans[0] == plans[1]
    assert main(command(parted, "status", f"experiment={name}")[3:]) == 0
    assert "dapo against naive_grpo" in capfd.readouterr().out.replace("\n", " ")

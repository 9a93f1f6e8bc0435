"""A busy machine computes what an idle one does: nothing that reaches a number is timed."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from small_runs import FEW

# Rests never, and ends with the process that started it, however that ends.
BUSY = "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass"
SWEEP = ["experiment=base_variance", "experiment.seeds=[0,1,8]", "training.steps=2", *FEW]
SWEEP += ["training.evaluate_every=2"]


@contextmanager
def load() -> Iterator[None]:
    """What this process starts shares one core with a process that never rests: two workers have a third of it each."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(cores)})
    busy = subprocess.Popen([sys.executable, "-c", BUSY])
    try:
        yield
    finally:
        busy.kill()
        busy.wait()
        os.sched_setaffinity(0, cores)


def sweep(results: Path) -> dict[str, bytes]:
    """Run it; every sample file and every table but the cost table, whose seconds are the machine's, by path."""
    tables = ["harness", "report", "experiment=base_variance", f"runtime.results={results}", "only=tables"]
    training = ["harness", "run", "--no-answer", *SWEEP, f"runtime.results={results}"]
    for command in (training, tables):
        done = subprocess.run(
            [sys.executable, "-m", *command], capture_output=True, text=True, check=False, timeout=900
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    written = (results / "experiments" / "base_variance" / "tables").iterdir()
    files = [path for path in written if not path.name.startswith("cost")]
    samples = list((results / "runs").glob("*/samples/**/*.parquet"))
    assert len(samples) == 6 * 2  # 6 runs, evaluated at steps 0 and 2
    return {str(path.relative_to(results)): path.read_bytes() for path in [*files, *samples]}


def copy_runs(results: Path, other: Path, seeds: set[int]) -> None:
    """Put another store's runs of these seeds into a new one."""
    plan = json.loads((other / "experiments" / "base_variance" / "plan.json").read_text())
    for run in (arm["runs"][str(seed)] for arm in plan["arms"] for seed in seeds):
        shutil.copytree(other / "runs" / run, results / "runs" / run)


@pytest.mark.thorough
def test_a_busy_machine_gives_the_same_tables_and_samples(tmp_path: Path) -> None:
    """Both arms of one seed are trained and evaluated beside the load, and the tables of all seeds made beside it."""
    idle = sweep(tmp_path / "idle")
    assert not list((tmp_path / "idle" / "cache").glob("testbed-*")), "nothing is warmed up"
    copy_runs(tmp_path / "busy", tmp_path / "idle", seeds={0, 8})
    with load():
        busy = sweep(tmp_path / "busy")
    assert idle.keys() == busy.keys()
    assert [name for name in idle if idle[name] != busy[name]] == []
    assert_the_spread_divides(tmp_path / "idle")


def assert_the_spread_divides(results: Path) -> None:
    """The decomposition's command reads the same store: seeds 0 and 8 share a base policy, seed 1 has another."""
    script = Path(__file__).parents[2] / "experiments" / "base_policies" / "variance.py"
    done = subprocess.run(
        [sys.executable, str(script), str(results)], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr
    rows = [line.split(" | ")[:3] for line in done.stdout.splitlines()[2:]]
    assert rows == [
        ["| naive GRPO", "3", "2"],
        ["| DAPO", "3", "2"],
        ["| DAPO - naive GRPO", "3", "2"],
    ]

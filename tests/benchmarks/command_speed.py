"""What commands cost before they do their work: `OMP_NUM_THREADS=1 taskset -c 0 python tests/benchmarks/command_speed.py [name ...]`.

Processor seconds (user and system, children included) of each command as multiples of `python -c "import numpy, pyarrow, yaml"`, which is
measured before every one of them: the smallest of a few rounds on both sides. Targets: help 2; `status`, `show`, `diff` 4; `plan`,
`explain` and a report's table 8; a plan of 1,000 arms 60.

The store holds 30 finished runs with samples.
*torch alone* is the floor of `explain`. With names, only commands that begin so.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "analysis")]

from synthetic_store import build_store  # noqa: E402

from harness.configuration.compose import compose_run  # noqa: E402
from harness.configuration.registry import kinds  # noqa: E402
from harness.configuration.schema import dump  # noqa: E402
from harness.store import ResultStore  # noqa: E402

ROUNDS = 5
TORCH = "torch alone"
REFERENCE = [sys.executable, "-c", "import numpy, pyarrow, yaml"]
# Compiled modules are kept, as they are for a user; those of the reference come compiled with their packages.
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": ""}


def processor_seconds(command: Sequence[str]) -> float:
    """User and system time of a process and its children. Raises where it ends with an error."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, check=False)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode > 1:  # 1: two runs differ
        raise SystemExit(f"{' '.join(command)}:\n{done.stderr}")
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measured(command: Sequence[str]) -> tuple[float, float]:
    """Smallest processor seconds of the reference and of a command, by turns."""
    pairs = [(processor_seconds(REFERENCE), processor_seconds(command)) for _ in range(ROUNDS)]
    return min(reference for reference, _ in pairs), min(own for _, own in pairs)


def commands(root: str, run_ids: Sequence[str]) -> dict[str, tuple[list[str], float]]:
    """Name → arguments and target."""
    results, grid = f"runtime.results={root}", ",".join(f"{number + 1}e-6" for number in range(1000))
    found: dict[str, tuple[list[str], float]] = {"--help": (["--help"], 2)}
    found |= {f"{verb} --help": ([verb, "--help"], 2) for verb in sorted(kinds("harness.commands"))}
    return found | {
        "status": (["status", results], 4),
        "status --runs": (["status", "--runs", results], 4),
        "show RUN": (["show", run_ids[0], results], 4),
        "show RUN RUN": (["show", run_ids[0], run_ids[-1], results], 4),
        "plan experiment=dapo_ladder": (["plan", "experiment=dapo_ladder", results], 8),
        "explain of four rollouts": (["explain", "rewards=[1.1,0.1,0,1.1]", "lengths=[220,950,1100,180]"], 8),
        "report only=table": (["report", "experiment=ladder", "only=table", results], 8),
        "plan of 1,000 arms": (["plan", "-m", f"optimizer.learning_rate={grid}", results], 60),
    }


def filled(root: Path) -> ResultStore:
    """Six arms by five seeds, with samples and configurations."""
    rungs = [(f"arm_{i}_trick_{i}", f"arm {i}", 0.4 + 0.05 * i, 30.0) for i in range(6)]
    store = build_store(root, rungs=rungs, seeds=range(5), problems=256, n=32, steps=60, evaluate=(0, 60))
    config = yaml.safe_dump(dump(compose_run([])))
    for run_id in store.run_ids():
        store.run(run_id).write_config(config)
    return store


def main(names: Sequence[str]) -> None:
    def show(name: str, reference: float, own: float, target: str) -> None:
        print(f"{name:<32}{reference:>12.3f}{own:>11.3f}{own / reference:>10.1f}{target:>8}", flush=True)

    with tempfile.TemporaryDirectory() as root:
        store = filled(Path(root))
        print(f"{'command':<32}{'reference s':>12}{'command s':>11}{'multiple':>10}{'target':>8}")
        for name, (arguments, target) in commands(root, store.run_ids()).items():
            if names and not any(name.startswith(start) for start in names):
                continue
            show(name, *measured([sys.executable, "-m", "harness", *arguments]), f"{target:.0f}")
    if not names or TORCH in names:
        show(TORCH, *measured([sys.executable, "-c", "import torch"]), "")


if __name__ == "__main__":
    main(sys.argv[1:])

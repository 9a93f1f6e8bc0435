"""What dispatching costs: `python tests/benchmarks/dispatch_speed.py`, with the real worker on the testbed.

Prints seconds to the first step of a run whose base policy is there, from the command and from the start of the run's process (target:
3 s), and the efficiency of two workers on two cores over runs of the ladder's length (target: 0.9; seven minutes, on an idle machine).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from harness.store import ResultStore

TESTBED = ["runtime.device=cpu", "runtime.checkpoint_every=100", "training.evaluate_every=1000"]


def command(root: str, *overrides: str) -> list[str]:
    arguments = [*TESTBED, *overrides, f"runtime.results={root}"]
    return [sys.executable, "-m", "harness", "run", "-m", "--no-answer", *arguments]


def first_step(root: str) -> tuple[float, float]:
    """Seconds to the first metrics row: from the command line, and from the start of the run's process."""
    begin = time.time()
    process = subprocess.Popen(
        command(root, "seed=100", "training.steps=3", "evaluation.samples_per_problem=1"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    store = ResultStore(root)
    known = set(store.run_ids())
    while True:
        found = [store.run(run_id) for run_id in set(store.run_ids()) - known]
        now = time.time()
        if any(run.last_step() for run in found):
            break
        if process.poll() is not None:
            raise SystemExit("the run failed")
        time.sleep(0.01)
    process.wait()
    # The worker's first action is to open its log.
    log = found[0].path / "attempts" / "000" / "stdout.log"
    return now - begin, now - log.stat().st_mtime


def sweep_seconds(root: str, workers: int, first_seed: int, runs: int, steps: int) -> float:
    """Wall time of a command of several runs."""
    seeds = ",".join(str(first_seed + number) for number in range(runs))
    begin = time.perf_counter()
    subprocess.run(
        command(root, f"seed={seeds}", f"training.steps={steps}", f"runtime.workers={workers}"),
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return time.perf_counter() - begin


def real(rounds: int, runs: int = 6, steps: int = 60) -> None:
    """One worker and two by turns, so that a machine that is slower for a while is so for both."""
    os.environ["OMP_NUM_THREADS"] = "1"
    cores = len(os.sched_getaffinity(0))
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as root:
        sweep_seconds(root, 2, 0, 1, 1)  # the base policy, and the machine's probe
        command_s, process_s = first_step(root)
        print(
            f"first step {command_s:.1f} s after the command, {process_s:.1f} s after the run's process began"
        )
        sums = [0.0, 0.0]
        for number in range(rounds):
            took = [sweep_seconds(root, n, 1000 * (2 * number + n), runs, steps) for n in (1, 2)]
            sums = [before + seconds for before, seconds in zip(sums, took, strict=True)]
            print(
                f"{runs} runs of {steps} steps: one worker {took[0]:.1f} s, two {took[1]:.1f} s (load {os.getloadavg()[0]:.1f})",
                flush=True,
            )
        ratio = sums[0] / sums[1]
        print(f"two workers on {cores} cores: {ratio:.2f} times one, efficiency {ratio / 2:.2f}")


if __name__ == "__main__":
    real(rounds=2)

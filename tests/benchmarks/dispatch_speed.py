"""What planning and dispatching cost: `python tests/benchmarks/dispatch_speed.py [runs in the store ...]`.

Prints, for a growing number of finished runs in the store: milliseconds a run to plan a grid with three seeds, and to plan and dispatch
it without the processes (target: under 20 ms together), seconds to read the store into a table (target: under 5 s for 10,000 runs).
Then, once, with the real worker on the testbed: seconds from the command to the first step of a run whose base policy is there
(target: 3 s), and the efficiency of two workers on two cores (target: 0.9).
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from store_speed import fill

from harness.config import RuntimeConfig
from harness.launch._work import Work
from harness.plan import Plan, plan_multirun
from harness.store import ResultStore
from harness.supervise.attempt import Attempt

GRID = "optimizer.learning_rate={}"
POINTS, SEEDS = 100, 3
TESTBED = ["runtime.device=cpu", "runtime.checkpoint_every=100", "training.evaluate_every=1000"]


def plan_seconds() -> tuple[float, Plan]:
    points = ",".join(f"{index + 1}e-6" for index in range(POINTS))
    begin = time.perf_counter()
    plan = plan_multirun([GRID.format(points), f"seed={','.join(map(str, range(SEEDS)))}"])
    assert len(plan.specs) == POINTS * SEEDS
    return time.perf_counter() - begin, plan


def dispatch_seconds(store: ResultStore, plan: Plan) -> tuple[float, float]:
    """All that is done for runs but their processes: look-up, plan file, claim, attempt, configuration, three manifests.

    Wall and processor seconds; the difference is the disk's, which flushes every manifest.
    """
    begin, processor = time.perf_counter(), time.process_time()
    store.write_plan(plan.experiment.name, plan.record())
    work = Work(
        store.root, plan.specs, RuntimeConfig(), {"packages": {f"p{n}": "1.2.3" for n in range(40)}}, "x"
    )
    for spec in work.unfinished():
        attempt = Attempt.begin(
            spec, store.run(spec.run_id), identity_version=1, provenance=work.provenance, environment={}
        )
        assert attempt is not None
        attempt.started(1)
        attempt.end(0, stopping=False)
    return time.perf_counter() - begin, time.process_time() - processor


def growth(counts: list[int]) -> None:
    print(
        f"{'runs':<7}{'plan ms/run':>13}{'dispatch ms/run':>17}{'(processor)':>13}{'together':>10}{'table s':>9}"
    )
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as root:
        done = 0
        for count in sorted(counts):
            store = ResultStore(Path(root))
            fill(store, done, count)
            done = count
            planning, plan = plan_seconds()
            runs = POINTS * SEEDS
            begin = time.perf_counter()
            store.manifests().merge(store.last_steps(store.run_ids()), on="run_id")
            table = time.perf_counter() - begin
            for spec in plan.specs:  # the same grid is new again
                subprocess.run(["rm", "-rf", str(store.run(spec.run_id).path)], check=True)
            dispatching, processor = dispatch_seconds(store, plan)
            ms = [1e3 * seconds / runs for seconds in (planning, dispatching, processor)]
            print(
                f"{count:<7}{ms[0]:>13.1f}{ms[1]:>17.1f}{ms[2]:>13.1f}{ms[0] + ms[1]:>10.1f}{table:>9.2f}",
                flush=True,
            )


def command(root: str, *overrides: str) -> list[str]:
    arguments = [*TESTBED, *overrides, f"runtime.results={root}"]
    return [sys.executable, "-m", "harness", "run", "-m", "--no-answer", *arguments]


def seconds_to_first_step(root: str) -> float:
    """From the command line to the first metrics row."""
    begin = time.perf_counter()
    process = subprocess.Popen(
        command(root, "seed=100", "training.steps=3", "evaluation.samples_per_problem=1"),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    store = ResultStore(root)
    known = set(store.run_ids())
    while True:
        new = set(store.run_ids()) - known
        if any(store.run(run_id).last_step() for run_id in new):
            break
        if process.poll() is not None:
            raise SystemExit("the run failed")
        time.sleep(0.02)
    seconds = time.perf_counter() - begin
    process.wait()
    return seconds


def sweep_seconds(root: str, workers: int, first_seed: int, steps: int) -> float:
    """Wall time of a command of four runs."""
    seeds = ",".join(str(first_seed + number) for number in range(4))
    begin = time.perf_counter()
    subprocess.run(
        command(root, f"seed={seeds}", f"training.steps={steps}", f"runtime.workers={workers}"),
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    return time.perf_counter() - begin


def real(steps: int) -> None:
    os.environ["OMP_NUM_THREADS"] = "1"
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as root:
        sweep_seconds(root, 2, 0, 1)  # the base policy, and the machine's probe
        print(f"first step after {min(seconds_to_first_step(root) for _ in range(1)):.1f} s")
        one, two = sweep_seconds(root, 1, 200, steps), sweep_seconds(root, 2, 300, steps)
        cores = len(os.sched_getaffinity(0))
        print(
            f"four runs of {steps} steps: one worker {one:.1f} s, two {two:.1f} s, efficiency {one / two / 2:.2f} on {cores} cores "
            f"(load {os.getloadavg()[0]:.1f})"
        )


if __name__ == "__main__":
    numbers = [int(argument) for argument in sys.argv[1:] if argument.isdigit()]
    growth(numbers or [100, 1000, 10_000])
    if "--store-only" not in sys.argv:
        real(steps=20)

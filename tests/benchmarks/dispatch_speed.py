"""What planning and dispatching cost: `python tests/benchmarks/dispatch_speed.py [runs in the store ...]`.

Prints, for a growing number of finished runs in the store: milliseconds a run to plan a grid with three seeds, and to plan and dispatch
it without the processes (target: under 20 ms together), seconds to read the store into a table (target: under 5 s for 10,000 runs).
Then, with the real worker on the testbed: seconds to the first step of a run whose base policy is there, from the command and from
the start of the run's process (target: 3 s), and the efficiency of two workers on two cores over runs of the ladder's length
(target: 0.9; seven minutes, on an idle machine). `--store-only` and `--real-only` choose a half.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from store_speed import fill, manifests_and_newest_steps

from harness.configuration.runtime import RuntimeConfig
from harness.execution.launch._supervise import Work
from harness.execution.supervise.attempt import Attempt
from harness.experiment.planning import Plan, plan_multirun
from harness.store import ResultStore

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
            manifests_and_newest_steps(store)
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
    numbers = [int(argument) for argument in sys.argv[1:] if argument.isdigit()]
    if "--real-only" not in sys.argv:
        growth(numbers or [100, 1000, 10_000])
    if "--store-only" not in sys.argv:
        real(rounds=2)

"""What grows with a store: `python benchmarks/growth.py [runs ...]`, by default 100, 1000 and 10,000 finished runs.

Processor seconds of `harness status`, of the table of one experiment of six runs and of `harness plan experiment=dapo_ladder`, and
milliseconds a run (processor, wall) to plan and dispatch 300 new runs without their processes; the wall is the disk's, which flushes three
manifests a run. Every 30 runs of the store are an experiment with a plan.

Targets with 10,000 runs: `status` 3 s, the table as with 100, plan and dispatch 20 ms a run.
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.configuration.sections import RuntimeConfig
from harness.execution.attempt import Attempt
from harness.execution.supervisor import RunBatch
from harness.experiment.plan import Plan
from harness.experiment.planning import plan_multirun
from harness.store import ResultStore
from harness.store.layout import METRICS
from harness.store.run import RunDir

sys.path.append(str(Path(__file__).parents[1] / "tests" / "analysis"))

from synthetic_store import build_store

POINTS, SEEDS, STEPS = 100, 3, 100
RUNS_OF_A_PLAN = 30
PROVENANCE = {"git_commit": "0" * 40, "packages": {f"package_{number}": "1.2.3" for number in range(40)}}


def processor_seconds(command: list[str]) -> float:
    """User and system time of a process and its children. Raises where it ends with an error."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@dataclass(frozen=True)
class Spec:
    run_id: str
    arm_id: str = "a" * 16
    seed: int = 0
    config_yaml: str = "algorithm: {clip_high: 0.28}\n" * 60
    labels: dict[str, str] = field(default_factory=lambda: {"arm": "clip_higher", "steps": str(STEPS)})


def begun_attempt(store: ResultStore, spec: Any, provenance: dict[str, Any]) -> Attempt:
    begun = Attempt.begin(spec, store.run(spec.run_id), provenance=provenance, environment={})
    assert begun is not None
    return begun


def fill(store: ResultStore, first: int, last: int) -> None:
    """Finished runs as the supervisor and a worker leave them, written without flushing to save time."""
    sample = store.run("f" * 16)
    if not sample.exists():
        begun = begun_attempt(store, Spec(sample.run_id), PROVENANCE)
        begun.record_start(1)
        for step in range(1, STEPS + 1):
            sample.append_step({name: 0.123456789 * step for name in METRICS} | {"step": step})
        begun.end(0, stopping=False)
    manifest, metrics = ((sample.path / name).read_text() for name in ("manifest.json", "metrics.jsonl"))
    for number in range(first, last):
        run = RunDir(store.root / "runs" / f"{number:016x}")
        run.path.mkdir()
        (run.path / "manifest.json").write_text(manifest.replace(sample.run_id, run.run_id))
        (run.path / "metrics.jsonl").write_text(metrics)


def grid() -> Plan:
    """A grid of 100 points with three seeds."""
    points = ",".join(f"{index + 1}e-6" for index in range(POINTS))
    plan = plan_multirun([f"optimizer.learning_rate={points}", f"seed={','.join(map(str, range(SEEDS)))}"])
    assert len(plan.specs) == POINTS * SEEDS
    return plan


def dispatch(store: ResultStore, plan: Plan) -> None:
    """All that is done for runs but their processes: look-up, plan file, claim, attempt, configuration, three manifests."""
    store.write_plan(plan.name, plan.record())
    work = RunBatch(store.root, plan.specs, RuntimeConfig(), PROVENANCE)
    for spec in work.specs:
        attempt = begun_attempt(store, spec, work.provenance)
        attempt.record_start(1)
        attempt.end(0, stopping=False)


def write_plans(store: ResultStore, first: int, last: int) -> None:
    """A plan for every 30 of the runs that `fill` made."""
    plan = store.plan("ladder")
    for begin in range(first, last, RUNS_OF_A_PLAN):
        ids = [f"{number:016x}" for number in range(begin, min(begin + RUNS_OF_A_PLAN, last))]
        arm = {**plan["arms"][0], "runs": {str(seed): run_id for seed, run_id in enumerate(ids)}}
        seeds = list(range(len(ids)))
        store.write_plan(f"other_{begin}", {**plan, "name": f"other_{begin}", "arms": [arm], "seeds": seeds})


def own_experiment(root: Path) -> None:
    """Six runs with samples; their ids are apart from those of `fill`."""
    store = build_store(root / "own", seeds=(70, 71, 72), rungs=[("arm_0", "a", 0.5, 1.0), ("arm_1", "b", 0.6, 2.0)])
    (root / "runs").mkdir()
    (root / "experiments").mkdir()
    for run_id in store.run_ids():
        (root / "own" / "runs" / run_id).rename(root / "runs" / run_id)
    (root / "own" / "experiments" / "ladder").rename(root / "experiments" / "ladder")


def main(counts: list[int]) -> None:
    harness = [sys.executable, "-m", "harness"]
    print(f"{'runs':<8}{'status s':>10}{'table s':>10}{'plan s':>10}{'plan and dispatch ms/run':>26}{'(wall)':>10}")
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        root, done = Path(folder), 0
        own_experiment(root)
        results = f"runtime.results={root}"
        for count in sorted(counts):
            store = ResultStore(root)
            fill(store, 10**6 + done, 10**6 + count)
            write_plans(store, 10**6 + done, 10**6 + count)
            done = count
            own = [
                processor_seconds([*harness, *words, results])
                for words in (
                    ["status"],
                    ["report", "experiment=ladder", "only=table"],
                    ["plan", "experiment=dapo_ladder"],
                )
            ]
            begin, processor = time.perf_counter(), time.process_time()
            plan = grid()
            dispatch(store, plan)
            wall, processor = time.perf_counter() - begin, time.process_time() - processor
            for spec in plan.specs:  # the same grid is new again
                subprocess.run(["rm", "-rf", str(store.run(spec.run_id).path)], check=True)
            seconds = "".join(f"{value:>10.2f}" for value in own)
            runs = POINTS * SEEDS
            print(f"{count:<8}{seconds}{1e3 * processor / runs:>26.1f}{1e3 * wall / runs:>10.1f}", flush=True)


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]] or [100, 1000, 10_000])

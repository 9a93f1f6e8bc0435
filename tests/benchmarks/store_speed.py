"""What the store and the supervisor cost: `python tests/benchmarks/store_speed.py [runs ...]`.

Prints, for a growing number of finished runs in the store: seconds to read all manifests and last steps into
one table (target: under 5 s for 10,000 runs), seconds for `run_all` to find that nothing is to be done, and
milliseconds of bookkeeping per new run (claim, attempt directory, configuration, three manifests, release;
no process; target: under 20 ms with 10,000 runs in the store).
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from harness.execution.supervise import run_all
from harness.execution.supervise.attempt import Attempt
from harness.store import ResultStore
from harness.store.run import RunDir
from harness.store.schema import METRICS

STEPS = 100
NEW_RUNS = 100


@dataclass(frozen=True)
class Spec:
    run_id: str
    arm_id: str = "a" * 16
    seed: int = 0
    config_yaml: str = "algorithm: {clip_high: 0.28}\n" * 60
    labels: dict[str, str] = field(default_factory=lambda: {"arm": "clip_higher", "steps": str(STEPS)})


PROVENANCE = {"git_commit": "0" * 40, "packages": {f"package_{number}": "1.2.3" for number in range(40)}}


def attempt(store: ResultStore, spec: Spec) -> Attempt:
    begun = Attempt.begin(
        spec, store.run(spec.run_id), identity_version=1, provenance=PROVENANCE, environment={}
    )
    assert begun is not None
    return begun


def bookkeeping_seconds(store: ResultStore, first: int) -> list[float]:
    """All that the supervisor writes for one run, without the process."""
    seconds = []
    for number in range(first, first + NEW_RUNS):
        begin = time.perf_counter()
        begun = attempt(store, Spec(f"{number:016x}"))
        begun.started(1)
        begun.end(0, stopping=False)
        seconds.append(time.perf_counter() - begin)
    return seconds


def fill(store: ResultStore, first: int, last: int) -> None:
    """Finished runs as the supervisor and a worker leave them, written without flushing to save time."""
    sample = store.run("f" * 16)
    if not sample.exists():
        begun = attempt(store, Spec(sample.run_id))
        begun.started(1)
        for step in range(1, STEPS + 1):
            sample.append_step({name: 0.123456789 * step for name in METRICS} | {"step": step})
        begun.end(0, stopping=False)
    manifest, metrics = ((sample.path / name).read_text() for name in ("manifest.json", "metrics.jsonl"))
    for number in range(first, last):
        run = RunDir(store.root / "runs" / f"{number:016x}")
        run.path.mkdir()
        (run.path / "manifest.json").write_text(manifest.replace(sample.run_id, run.run_id))
        (run.path / "metrics.jsonl").write_text(metrics)


def manifests_and_newest_steps(store: ResultStore) -> None:
    """What a table of all runs reads."""
    store.manifests()
    for run_id in store.run_ids():
        store.run(run_id).last_step()


def seconds_of(action) -> float:
    begin = time.perf_counter()
    action()
    return time.perf_counter() - begin


def main(counts: list[int]) -> None:
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as root:
        store = ResultStore(root)
        done = 0
        print("runs   table s   us/run   nothing-to-do s   us/run   bookkeeping ms/run (median, worst)")
        for count in sorted(counts):
            fill(store, done, count)
            done = count
            table = seconds_of(lambda: manifests_and_newest_steps(store))
            specs = [Spec(f"{number:016x}") for number in range(count)]
            idle = seconds_of(lambda specs=specs: run_all(specs, store, workers=2))
            new = bookkeeping_seconds(store, done)
            done += NEW_RUNS
            print(
                f"{count:<6} {table:7.2f} {1e6 * table / count:8.0f} {idle:14.2f} {1e6 * idle / count:9.0f}"
                f" {1e3 * statistics.median(new):14.2f} {1e3 * max(new):8.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main([int(argument) for argument in sys.argv[1:]] or [100, 1000, 10_000])

"""Sweeps for the tests of the supervisor: specs, a supervisor as a process of its own, and who lives."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import yaml

from harness.configuration.sections import RuntimeConfig
from harness.execution.progress import PlainProgress, Progress
from harness.execution.supervisor import RunBatch, Summary, supervise
from harness.store import ResultStore

# Of the stubs, of what they share with other tests, and of the project.
STUB_PATH = os.pathsep.join(map(str, Path(__file__).parents[:3]))
MARK = "HARNESS_TEST_MARK"


@dataclass(frozen=True)
class Spec:
    run_id: str
    arm_id: str
    seed: int
    config_yaml: str
    labels: dict[str, str] = field(default_factory=dict)


def spec(number: int, **config: object) -> Spec:
    labels = {"arm": f"arm_{number}"} | ({"steps": str(config["steps"])} if "steps" in config else {})
    return Spec(f"{number:016x}", f"{number:016x}", number, yaml.safe_dump({"seed": number, **config}), labels)


def sweep(runs: int, steps: int, seconds: float) -> list[Spec]:
    return [spec(number, steps=steps, seconds=seconds) for number in range(runs)]


def batch(
    root: Path,
    specs: list[Spec],
    entry: str = "stub_worker:by_config",
    workers: int = 2,
    device: str = "cpu",
    **provenance: object,
) -> RunBatch:
    """These runs on this machine, by a stub of a worker."""
    runtime = RuntimeConfig(device=device, workers=workers)
    return RunBatch(root.resolve(), specs, runtime, provenance, entry)


def run_all(root: Path, specs: list[Spec], *, progress: Progress | None = None, gpus=None, **options) -> Summary:
    """Supervise these runs in this process."""
    return supervise(batch(root, specs, **options), progress or Progress(), gpus=gpus, poll_seconds=0.05)


class Supervisor:
    """`supervise` on a sweep in a process of its own."""

    def __init__(
        self, root: Path, runs: int, steps: int, seconds: float, workers: int = 2, entry: str = "stub_worker:steps"
    ) -> None:
        self.mark = uuid.uuid4().hex
        arguments = [str(value) for value in (root, runs, steps, seconds, workers, entry)]
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__)), *arguments],
            env={**os.environ, MARK: self.mark, "PYTHONPATH": STUB_PATH},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            # A test run in the background inherits an ignored SIGINT, which the supervisor would respect.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )

    def kill(self, number: int = signal.SIGKILL) -> None:
        self.process.send_signal(number)

    def output(self, timeout: float = 300) -> str:
        return self.process.communicate(timeout=timeout)[0]

    def others(self) -> list[int]:
        """The living processes that it started, directly or not."""
        return [pid for pid in processes_with(self.mark) if pid != self.process.pid]


def processes_with(mark: str) -> list[int]:
    """The living processes that were started with `mark` in their environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            if mark.encode() in (entry / "environ").read_bytes():
                found.append(int(entry.name))
        except OSError:
            continue  # it ended meanwhile, or is a zombie
    return found


def wait_until(condition: Callable[[], bool], seconds: float = 120, what: str = "") -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"waited {seconds} s in vain for {what or condition}"
        time.sleep(0.01)


def final_table(store: ResultStore) -> bytes:
    """Everything the runs computed, as bytes: metrics without the attempt, and samples."""
    parts = []
    for run in map(store.run, store.run_ids()):
        parts += [run.run_id, run.steps().drop(columns="attempt").to_csv()]
        parts += [run.samples("stub", step).to_csv() for step in run.sample_steps("stub")]
    return "\n".join(parts).encode()


def main(root: str, runs: str, steps: str, seconds: str, workers: str, entry: str) -> int:
    specs = sweep(int(runs), int(steps), float(seconds))
    work = batch(Path(root), specs, entry, int(workers))
    summary = supervise(work, PlainProgress(sys.stdout), poll_seconds=0.05)
    print(summary, flush=True)
    return 0 if summary.complete else 1


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))

"""The supervisor: bring many runs to their end on one machine. One failure never ends the rest. Imports no torch."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from harness.configuration.error import ConfigError
from harness.configuration.sections import RuntimeConfig
from harness.execution.attempt import Attempt, provenance
from harness.execution.exit_codes import EXIT_REFUSED, EXIT_STORE
from harness.execution.fork_server import STOP_SIGNALS
from harness.execution.gpu_leases import GpuLease, GpuLeases
from harness.execution.progress import Progress, Snapshot
from harness.execution.workers import End, Workers
from harness.experiment.plan import RunSpec
from harness.model.system import visible_gpus
from harness.store import ResultStore, RunClaimed, StoreError, StoreFull, StoreReadOnly, layout
from harness.store.error import LocksUnsupported
from harness.store.reader import read_state, read_tail, run_name, total_steps
from harness.tracking._feed import TrackerFeed, absent

_REMIND_SECONDS = 5.0
_DEVICE_RETRY_SECONDS = 1.0
# Keys of the machine that the runs of one supervisor share.
_SHARED = ("device", "gpus_per_run", "sampler_gpus", "runs_per_gpu", "workers", "threads", "trackers")
_LOOK_SECONDS = 1.0  # between two looks at the files of running runs: the file server may be far away


@dataclass
class Summary:
    """Run ids by what became of them; `errors` says why for those in `failed`."""

    finished: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)  # were finished before
    failed: list[str] = field(default_factory=list)
    interrupted: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)  # another living supervisor has them
    not_started: list[str] = field(default_factory=list)  # a stop came first
    errors: dict[str, str] = field(default_factory=dict)
    stopped_by: int | None = None  # the first stop signal

    @property
    def complete(self) -> bool:
        return not (self.failed or self.interrupted or self.elsewhere or self.not_started)

    @property
    def ended_well(self) -> bool:
        """Say if all runs are finished and no stop came, so that what follows may begin."""
        return self.complete and self.stopped_by is None

    def then(self, later: Summary) -> Summary:
        """The summary of two dispatches. A run of both is listed as the later one left it, but what the earlier finished stays so."""
        later_ids = {run_id for each in (later.skipped, later.finished, later.failed) for run_id in each}
        errors = {run_id: error for run_id, error in self.errors.items() if run_id not in later_ids}
        summary = Summary(errors=errors | later.errors, stopped_by=later.stopped_by)
        for name in (item.name for item in fields(Summary) if item.default_factory is list):
            run_ids = getattr(self, name)
            remaining_ids = run_ids if name == "finished" else [run_id for run_id in run_ids if run_id not in later_ids]
            setattr(summary, name, list(dict.fromkeys([*remaining_ids, *getattr(later, name)])))
        summary.skipped = [run_id for run_id in summary.skipped if run_id not in self.finished]
        return summary


@dataclass(frozen=True)
class RunBatch:
    """Runs and the circumstances that they share.

    `entry` is `module:function`, called in the worker with the run directory; it returns the worker's exit code (see
    `harness.execution.exit_codes`). It is imported once, before the fork, so importing it must not start threads or touch a GPU.
    """

    root: Path
    specs: Sequence[RunSpec]
    runtime: RuntimeConfig
    provenance: Mapping[str, Any]
    entry: str = "harness.execution.worker:main"


def usable_cores() -> int:
    """The cores that this process may use; all of them where the system (macOS) does not say."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def worker_count(runtime: RuntimeConfig, gpus: int) -> int:
    """`runtime.workers`, or by default one run a GPU slot, or one a core."""
    if runtime.workers:
        return runtime.workers
    if gpus:
        return max(1, gpus // runtime.gpus_of_a_run * runtime.runs_per_gpu)
    return max(1, usable_cores() // (runtime.threads * (2 if runtime.sampler_gpus else 1)))


@contextlib.contextmanager
def on_signals(numbers: Iterable[int], call: Callable[[int], None]) -> Iterator[None]:
    """Turn signals into calls with their number, in the main thread; ones that are ignored (nohup) stay ignored."""
    main = threading.current_thread() is threading.main_thread()
    signal_numbers = [number for number in numbers if main and signal.getsignal(number) is not signal.SIG_IGN]
    old_handlers = {number: signal.signal(number, lambda number, _: call(number)) for number in signal_numbers}
    try:
        yield
    finally:
        for number, handler in old_handlers.items():
            signal.signal(number, handler)


@dataclass
class _ActiveRun:
    attempt: Attempt
    gpus: GpuLease | None
    name: str


def supervise(
    batch: RunBatch, progress: Progress, *, gpus: GpuLeases | None = None, poll_seconds: float = 0.2
) -> Summary:
    """Bring every run to its end, as many at a time as `runtime.workers` says, each in a fresh process.

    Finished runs are skipped; interrupted, lost and failed ones get a new attempt, and one whose worker crashes a second one.
    Runs that another living supervisor has are left to it, and looked at once more at the end. SIGINT, SIGTERM, SIGHUP, SIGUSR1
    and SIGUSR2 are forwarded to the workers as SIGTERM. They end the call when the workers have stopped; a second one kills them.

    `gpus`: one lease a run; None for CPU runs. Raises `StoreFull`, `StoreReadOnly`: nothing can be recorded. Checkpoints stay.
    """
    return _Supervisor(batch, progress, gpus).run(poll_seconds)


class _Supervisor:
    def __init__(self, batch: RunBatch, progress: Progress, gpus: GpuLeases | None) -> None:
        runtime = batch.runtime
        self._store, self._progress, self._gpus = ResultStore(batch.root), progress, gpus
        self._provenance = batch.provenance
        # What a run without a lease sees: a run on the CPU takes no GPU, whatever its libraries would do.
        self._without_lease = {} if runtime.device == "cuda" else {"CUDA_VISIBLE_DEVICES": ""}
        self._slots = worker_count(runtime, gpus.count if gpus else 0)
        self._workers = Workers(batch.entry, runtime.threads)
        self._tracking = TrackerFeed(runtime.trackers)
        # The runs that are not finished, each once. One that cannot be read is among them: its failure is reported by name.
        specs = {spec.run_id: spec for spec in batch.specs}.values()
        self._queue = deque(spec for spec in specs if self._store.run(spec.run_id).status != "finished")
        self._skipped_ids = sorted({spec.run_id for spec in batch.specs} - {spec.run_id for spec in self._queue})
        self._total = len(self._queue) + len(self._skipped_ids)
        self._summary = Summary(skipped=list(self._skipped_ids))
        self._running: dict[str, _ActiveRun] = {}
        self._elsewhere: dict[str, RunSpec] = {}
        self._retried_ids: set[str] = set()  # runs that are at their second attempt
        self._warnings = set[str]()
        self._log_sizes: dict[Path, int] = {}
        self._stops = 0
        self._disk_error = ""
        self._devices_at = self._look_at = self._stop_at = 0.0
        self._stops_forwarded = 0

    def run(self, poll_seconds: float) -> Summary:
        self._progress.begin(self._total, len(self._skipped_ids))
        if self._queue:
            self._workers.warm_up()
        try:
            with on_signals(STOP_SIGNALS, self.stop):
                self._loop(poll_seconds)
        finally:
            self._workers.close()
            for running in self._running.values():  # an exception ended the loop
                running.attempt.abandon()
                self._release(running.gpus)
            self._tracking.close()
            self._progress.close()
        if self._disk_error:
            raise StoreFull(self._disk_error)
        self._summary.elsewhere.extend(self._elsewhere)
        self._summary.not_started.extend(spec.run_id for spec in self._queue)
        return self._summary

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Called by the signal handlers."""
        self._stops += 1
        if self._summary.stopped_by is None:
            self._summary.stopped_by = int(number)

    def _loop(self, poll_seconds: float) -> None:
        second_look = False
        while True:
            self._start_runs()
            if not self._running and (self._stops or not self._queue):
                if self._stops or second_look or not self._elsewhere:
                    return
                second_look = True
                self._queue.extend(self._elsewhere.values())
                self._elsewhere.clear()
                continue
            self._forward_stops()
            ends = self._workers.wait(poll_seconds)
            for end in ends:
                self._end(end)
            with contextlib.suppress(OSError):  # a file server that stutters; it only shows what is there
                self._look(bool(ends))

    def _start_runs(self) -> None:
        while self._queue and not self._stops and len(self._running) < self._slots:
            # Nothing is claimed before the libraries are loaded: a stop ends it at once until then.
            if time.monotonic() < self._devices_at or not self._workers.ready:
                return
            gpus = None
            if self._gpus is not None:
                gpus = self._gpus.take()
                if gpus is None:
                    self._devices_at = time.monotonic() + _DEVICE_RETRY_SECONDS
                    return
            if not self._start(self._queue.popleft(), gpus):
                self._release(gpus)

    def _start(self, spec: RunSpec, gpus: GpuLease | None) -> bool:
        """Start a worker; False where the run needs none or is not ours."""
        environment = self._without_lease if gpus is None else {"CUDA_VISIBLE_DEVICES": gpus.devices}
        run = self._store.run(spec.run_id)
        try:
            attempt = Attempt.begin(spec, run, provenance=self._provenance, environment=environment)
        except (StoreFull, StoreReadOnly, LocksUnsupported):
            raise
        except RunClaimed:
            self._elsewhere[spec.run_id] = spec
            return False
        except StoreError as error:
            self._fail(spec, str(error))
            return False
        if attempt is None:
            self._summary.skipped.append(spec.run_id)
            return False
        name = run_name(spec.run_id, spec.arm_id, spec.seed, spec.labels)
        self._running[spec.run_id] = _ActiveRun(attempt, gpus, name)
        attempt.record_start(self._workers.start(spec.run_id, run.path, attempt.path, environment))
        self._tracking.begin(run)
        self._progress.start_run(name, spec.run_id, int(attempt.path.name))
        return True

    def _end(self, end: End) -> None:
        running = self._running[end.run_id]
        attempt = running.attempt
        # A disk that is full says nothing of the run, however often, nor does what ends while all is being stopped.
        is_again = end.run_id in self._retried_ids and not self._stops
        is_last = end.code == EXIT_REFUSED or (is_again and end.code != EXIT_STORE)
        outcome = attempt.end(end.code, stopping=self._stops > 0, is_last=is_last, note=end.note)
        del self._running[end.run_id]
        self._release(running.gpus)
        self._show_warnings(attempt)
        self._tracking.end(attempt.run)
        if outcome == "failed" and not (is_last or self._stops or end.code == EXIT_STORE):
            self._retried_ids.add(end.run_id)
            self._queue.append(attempt.spec)
            detail = f"{attempt.error}\na second attempt follows"
            self._progress.end_run(running.name, end.run_id, outcome, detail)
            return
        getattr(self._summary, outcome).append(end.run_id)
        if outcome == "failed":
            self._summary.errors[end.run_id] = attempt.error
        self._progress.end_run(running.name, end.run_id, outcome, attempt.error)
        # Every other run would train up to its first checkpoint.
        if end.code == EXIT_STORE and not self._disk_error:
            last_line = attempt.error.strip().rpartition("\n")[2]
            self._disk_error = last_line.removeprefix(f"exit code {EXIT_STORE}; ")
            self.stop()

    def _release(self, gpus: GpuLease | None) -> None:
        if gpus is not None:
            gpus.release()
            self._devices_at = 0.0

    def _fail(self, spec: RunSpec, reason: str) -> None:
        self._summary.failed.append(spec.run_id)
        self._summary.errors[spec.run_id] = reason
        name = run_name(spec.run_id, spec.arm_id, spec.seed, spec.labels)
        self._progress.end_run(name, spec.run_id, "failed", reason)

    def _forward_stops(self) -> None:
        """Pass a stop on to the workers, and again after a while to those that were not listening yet."""
        now = time.monotonic()
        if self._stops and (self._stops != self._stops_forwarded or now >= self._stop_at):
            self._stops_forwarded, self._stop_at = self._stops, now + _REMIND_SECONDS
            for run_id in self._running:
                self._workers.signal(run_id, signal.SIGTERM if self._stops == 1 else signal.SIGKILL)

    def _look(self, changed: bool) -> None:
        if not changed and time.monotonic() < self._look_at:
            return
        attempts = [running.attempt for running in self._running.values()]
        waiting = [total_steps(spec.labels) for spec in self._queue]
        self._progress.update(
            Snapshot(
                total=self._total,
                finished=len(self._summary.finished) + len(self._summary.skipped),
                failed=len(self._summary.failed),
                waiting=len(waiting),
                waiting_steps=None if None in waiting else sum(steps or 0 for steps in waiting),
                running=[read_state(attempt.run, attempt.manifest) for attempt in attempts],
                stopping=self._stops > 0,
            )
        )
        for attempt in attempts:
            self._show_warnings(attempt)
        self._look_at = time.monotonic() + _LOOK_SECONDS

    def _show_warnings(self, attempt: Attempt) -> None:
        """Show what a run warns of, each line once: lines of its log that begin with `layout.WARNING`."""
        log = attempt.path / layout.STDERR
        if not log.exists() or self._log_sizes.get(log) == log.stat().st_size:
            return
        self._log_sizes[log] = log.stat().st_size
        for line in read_tail(log).splitlines():
            if line.startswith(layout.WARNING) and line not in self._warnings:
                self._warnings.add(line)
                self._progress.show(f"{line}\n")


def dispatch(
    specs: Sequence[RunSpec],
    store: ResultStore,
    progress: Progress,
    command: str,
    data: Mapping[str, str] | None = None,
    leases: Path | None = None,
) -> Summary:
    """Run what is not finished of these runs, in their order; see `supervise`.

    `data`: content hashes of what the runs read, for the record. `leases`: the folder of the GPU locks, where it is not the store's.

    Raises `ConfigError`: runs want other shares of this machine than others, or more GPUs than there are.
    """
    runtime = _shared_runtime(specs)
    batch = RunBatch(store.root.resolve(), list(specs), runtime, provenance(command) | ({"data": data} if data else {}))
    for name, reason in absent(runtime.trackers).items():
        sys.stderr.write(f"tracker {name} gets nothing, {reason}; runs that finish meanwhile are not sent later\n")
    return supervise(batch, progress, gpus=_gpu_leases(runtime, leases or store.cache_dir("leases")))


def _shared_runtime(specs: Sequence[RunSpec]) -> RuntimeConfig:
    """The runtime of runs that one supervisor takes. Raises `ConfigError` where they want different ones."""
    for key in _SHARED:
        arms: dict[str, dict[str, None]] = {}
        for spec in specs:
            arms.setdefault(str(getattr(spec.config.runtime, key)), {})[spec.labels.get("arm", "")] = None
        if len(arms) > 1:
            values = "; ".join(f"{value} in {', '.join(names)}" for value, names in arms.items())
            raise ConfigError(f"runtime.{key} differs between arms ({values}); give all arms one value")
    return specs[0].config.runtime


def _gpu_leases(runtime: RuntimeConfig, folder: Path) -> GpuLeases | None:
    gpus = visible_gpus() if runtime.device == "cuda" else []
    if not gpus:
        return None
    if runtime.gpus_of_a_run > len(gpus):
        wanted = f"runtime.gpus_per_run={runtime.gpus_per_run} and runtime.sampler_gpus={runtime.sampler_gpus}"
        raise ConfigError(f"{wanted}, but only {len(gpus)} GPUs are visible here")
    return GpuLeases(folder, gpus, runs_per_gpu=runtime.runs_per_gpu, gpus_per_run=runtime.gpus_of_a_run)

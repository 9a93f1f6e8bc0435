"""Run many runs on one machine: claim, start, watch, record. One failure never ends the rest."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.execution.progress import Progress, Snapshot
from harness.execution.supervise.attempt import Attempt, Runnable
from harness.execution.supervise.devices import GpuLease, GpuLeases
from harness.execution.supervise.process import Exited, Started, Workers
from harness.execution.supervise.stop import on_signals
from harness.store import ResultStore, RunClaimed, StoreError, StoreFull, StoreReadOnly
from harness.store.progress import run_name, run_state, total_steps

_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2)
_REMIND_SECONDS = 5.0
_DEVICE_RETRY_SECONDS = 1.0
_REQUEST_SECONDS = 1.0


@dataclass
class Summary:
    """Run ids by what became of them; `errors` says why for those in `failed`."""

    finished: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)  # were finished before
    failed: list[str] = field(default_factory=list)
    interrupted: list[str] = field(default_factory=list)
    elsewhere: list[str] = field(default_factory=list)  # another living supervisor has them
    not_started: list[str] = field(default_factory=list)  # a stop came first
    submitted: list[str] = field(default_factory=list)  # sent to a scheduler and not followed
    errors: dict[str, str] = field(default_factory=dict)
    stopped_by: int | None = None  # the first stop signal, SIGTERM for a request in the store

    @property
    def complete(self) -> bool:
        """True where every run of the sweep is finished."""
        return not (self.failed or self.interrupted or self.elsewhere or self.not_started or self.submitted)


class Feed:
    """Runs that are decided on while others run, and runs that are ended early. This one has none; it is the base of those that do."""

    def more(self, free: int) -> Sequence[Runnable]:
        """Further runs, asked for when `free` places are; none means: not now, and not ever if nothing runs."""
        return ()

    def remaining(self) -> int:
        """Count the further runs that `more` may still give."""
        return 0

    def observe(self, run_id: str, row: Mapping[str, Any]) -> None:
        """The newest metrics row of a running run; called often."""

    def ended(self, run_id: str, outcome: str) -> None:
        """A run ended, or was finished before ("finished"), or is another supervisor's ("elsewhere")."""

    def to_stop(self) -> Iterable[str]:
        """Runs to be stopped with a checkpoint, of those that were handed out."""
        return ()


@dataclass
class _Running:
    attempt: Attempt
    gpus: GpuLease | None
    name: str


def run_all(
    specs: Iterable[Runnable],
    store: ResultStore,
    *,
    workers: int,
    entry: str = "harness.execution.worker:main",
    progress: Progress | None = None,
    provenance: Mapping[str, Any] | None = None,
    identity_version: int = 1,
    poll_seconds: float = 0.2,
    threads: int = 1,
    gpus: GpuLeases | None = None,
    feed: Feed | None = None,
) -> Summary:
    """Bring every run to its end, at most `workers` at a time, each in a fresh process.

    Finished runs are skipped; interrupted, lost and failed ones get a new attempt, at most one per call.
    Runs that another living supervisor has are left to it, and looked at once more at the end. SIGINT,
    SIGTERM, SIGHUP, SIGUSR1, SIGUSR2 and a request in the store (`RunDir.request_stop`) are forwarded to the
    workers as SIGTERM and end the call when these have stopped; a second one kills them.

    Args:
        specs: the runs; the same `run_id` twice counts once.
        store: where they lie.
        workers: how many at a time.
        entry: `module:function`, called in the worker with the run directory; returns the exit code
            (0 finished, 75 stopped with a checkpoint, anything else failed). It is imported once, before
            the fork, so importing it must not start threads or touch a GPU.
        progress: who is told; silent if None.
        provenance: written into the manifest and `env.json`.
        identity_version: of the run ids.
        poll_seconds: how often running runs are looked at.
        threads: OMP_NUM_THREADS of a worker.
        gpus: GPUs to lease, one lease per run; None for CPU runs.
        feed: where further runs come from when places are free.

    Raises:
        StoreFull, StoreReadOnly: nothing can be recorded; the workers are killed, their checkpoints stay.
    """
    if workers < 1:
        raise ValueError(f"workers={workers} must be at least 1")
    pool = _Pool(store, workers, Workers(entry, threads), progress or Progress(), gpus, feed or Feed())
    pool.record = {"identity_version": identity_version, "provenance": dict(provenance or {})}
    return pool.run({spec.run_id: spec for spec in specs}, poll_seconds)


class _Pool:
    def __init__(
        self,
        store: ResultStore,
        slots: int,
        processes: Workers,
        progress: Progress,
        gpus: GpuLeases | None,
        feed: Feed,
    ) -> None:
        self._feed = feed
        self._stopped_early: set[str] = set()
        self.record: dict[str, Any] = {}
        self._store, self._slots, self._processes = store, slots, processes
        self._progress, self._gpus = progress, gpus
        self._queue: deque[Runnable] = deque()
        self._elsewhere: dict[str, Runnable] = {}
        self._running: dict[str, _Running] = {}
        self._summary = Summary()
        self._devices_at = 0.0  # monotonic time from which GPUs are asked for again
        self._total = 0
        # Of the run that began last: what those of the feed are taken to have.
        self._newest_steps: int | None = None
        self._stops = 0
        self._requests_at = 0.0  # monotonic time from which requests in the store are looked for again
        self._me = (socket.gethostname(), os.getpid())

    def run(self, specs: dict[str, Runnable], poll_seconds: float) -> Summary:
        self._total = len(specs)
        for spec in specs.values():
            finished = self._is_finished(spec)
            if finished:
                self._summary.skipped.append(spec.run_id)
            elif finished is not None:
                self._queue.append(spec)
        self._progress.begin(self._total, len(self._summary.skipped))
        try:
            with on_signals(_STOP_SIGNALS, self.stop):
                self._loop(poll_seconds)
        finally:
            self._processes.close()
            for running in self._running.values():  # only where an exception ended the loop
                running.attempt.abandon()
                self._release(running.gpus)
            self._progress.close()
        self._summary.elsewhere.extend(self._elsewhere)
        self._summary.not_started.extend(spec.run_id for spec in self._queue)
        return self._summary

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Called by the signal handlers."""
        self._stops += 1
        if self._summary.stopped_by is None:
            self._summary.stopped_by = int(number)

    def _read_requests(self, now: float) -> None:
        if self._stops or now < self._requests_at:
            return
        self._requests_at = now + _REQUEST_SECONDS
        if any(running.attempt.run.stop_requested(*self._me) for running in self._running.values()):
            self.stop()

    def _loop(self, poll_seconds: float) -> None:
        second_look = False
        stops_done, reminded = 0, 0.0
        while True:
            if not self._stops:
                self._start_some()
            if not self._running and (self._stops or not self._queue):
                if self._stops or second_look or not self._elsewhere:
                    return
                second_look = True
                self._queue.extend(self._elsewhere.values())
                self._elsewhere.clear()
                continue
            now = time.monotonic()
            self._read_requests(now)
            if self._stops and (self._stops != stops_done or now - reminded > _REMIND_SECONDS):
                stops_done, reminded = self._stops, now
                for run_id in self._running:
                    self._processes.signal(run_id, signal.SIGTERM if self._stops == 1 else signal.SIGKILL)
            for event in self._processes.wait(poll_seconds):
                self._handle(event)
            self._report()

    def _is_finished(self, spec: Runnable) -> bool | None:
        """None for a run that cannot be read: it has failed, and that is said."""
        try:
            return self._store.run(spec.run_id).status == "finished"
        except StoreError as error:
            self._fail(spec, str(error))
            return None

    def _fill(self) -> None:
        """Ask for further runs as long as places are free."""
        while (free := self._slots - len(self._running) - len(self._queue)) > 0:
            specs = self._feed.more(free)
            if not specs:
                return
            self._total += len(specs)
            self._queue.extend(specs)
            while self._queue and (finished := self._is_finished(self._queue[0])) is not False:
                done = self._queue.popleft()
                if finished:
                    self._summary.skipped.append(done.run_id)
                    self._feed.ended(done.run_id, "finished")

    def _start_some(self) -> None:
        while True:
            self._fill()  # also after runs that turn out to be another supervisor's
            if (
                self._stops
                or not self._queue
                or len(self._running) >= self._slots
                or time.monotonic() < self._devices_at
            ):
                return
            gpus = None
            if self._gpus is not None:
                gpus = self._gpus.take()
                if gpus is None:
                    self._devices_at = time.monotonic() + _DEVICE_RETRY_SECONDS
                    return
            if not self._start(self._queue.popleft(), gpus):
                self._release(gpus)

    def _start(self, spec: Runnable, gpus: GpuLease | None) -> bool:
        """Ask for a worker; False where the run needs none or is not ours."""
        self._newest_steps = total_steps(spec.labels)
        environment = {} if gpus is None else {"CUDA_VISIBLE_DEVICES": gpus.devices}
        run = self._store.run(spec.run_id)
        try:
            attempt = Attempt.begin(spec, run, environment=environment, **self.record)
        except (StoreFull, StoreReadOnly):
            raise
        except RunClaimed:
            self._elsewhere[spec.run_id] = spec
            self._feed.ended(spec.run_id, "elsewhere")
            return False
        except StoreError as error:
            self._fail(spec, str(error))
            return False
        if attempt is None:
            self._summary.skipped.append(spec.run_id)
            self._feed.ended(spec.run_id, "finished")
            return False
        name = run_name(spec.run_id, spec.arm_id, spec.seed, spec.labels)
        self._running[spec.run_id] = _Running(attempt, gpus, name)
        self._processes.start(spec.run_id, run.path, attempt.path, environment)
        self._progress.started(name, spec.run_id, int(attempt.path.name))
        return True

    def _handle(self, event: Started | Exited) -> None:
        running = self._running[event.run_id]
        if isinstance(event, Started):
            running.attempt.started(event.pid)
            return
        stopping = self._stops > 0 or event.run_id in self._stopped_early
        outcome = running.attempt.end(event.code, stopping=stopping, note=event.note)
        del self._running[event.run_id]
        self._release(running.gpus)
        getattr(self._summary, outcome).append(event.run_id)
        if outcome == "failed":
            self._summary.errors[event.run_id] = running.attempt.error
        self._progress.ended(running.name, event.run_id, outcome, running.attempt.error)
        self._feed.ended(event.run_id, outcome)

    def _release(self, gpus: GpuLease | None) -> None:
        if gpus is not None:
            gpus.release()
            self._devices_at = 0.0

    def _fail(self, spec: Runnable, reason: str) -> None:
        self._summary.failed.append(spec.run_id)
        self._summary.errors[spec.run_id] = reason
        name = run_name(spec.run_id, spec.arm_id, spec.seed, spec.labels)
        self._progress.ended(name, spec.run_id, "failed", reason)
        self._feed.ended(spec.run_id, "failed")

    def _report(self) -> None:
        for run_id, running in self._running.items():
            if row := running.attempt.run.last_step():
                self._feed.observe(run_id, row)
        for run_id in self._feed.to_stop():
            if run_id in self._running and run_id not in self._stopped_early:
                self._stopped_early.add(run_id)
                self._processes.signal(run_id, signal.SIGTERM)
        fed = self._feed.remaining()
        waiting = [*(total_steps(spec.labels) for spec in self._queue), *[self._newest_steps] * fed]
        self._progress.update(
            Snapshot(
                total=self._total + fed,
                finished=len(self._summary.finished) + len(self._summary.skipped),
                failed=len(self._summary.failed),
                waiting=len(waiting),
                waiting_steps=None if None in waiting else sum(steps or 0 for steps in waiting),
                running=[run_state(self._store, run_id) for run_id in self._running],
                stopping=self._stops > 0,
            )
        )

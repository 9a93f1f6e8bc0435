"""The process that owns the workers: it hands them cases, holds their clocks, and kills those that run out.

It is a fresh interpreter with a fixed environment (hash seed, pure-Python number types) that has imported computer algebra once, is
single-threaded and computes nothing, so forking it is safe whatever the parent process runs, costs milliseconds, and needs no importable
`__main__`. Each worker's processor time is counted from the moment it gets a case (`CaseClock`). A case that outlasts the patience gives
up its place: its worker goes on and another takes over the ordinary work, so stuck inputs delay nobody else by more than the patience
while overflow places last.

A case that is to be graded alone gets a fresh worker and the whole of its processor time; one such case runs at a time.
"""

from __future__ import annotations

import collections
import contextlib
import gc
import multiprocessing
import os
import signal
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe, wait
from typing import TYPE_CHECKING, Any

from harness.verify.config import VerifierConfig
from harness.verify.service.clock import CaseClock
from harness.verify.service.worker import work

if TYPE_CHECKING:
    from multiprocessing.context import ForkProcess

_TICK_SECONDS = 0.02
_FIRST_TRY_SHARE = 0.5
_WARM_UP = (
    ("\\frac{1}{2}+\\sqrt{x}", "\\sqrt{x}+0.5"),
    ("x^2-1", "(x-1)(x+1)"),
    ("2\\sqrt{3}+1", "1+\\sqrt{12}"),
)
_forks = multiprocessing.get_context("fork")

Case = tuple[str, str, str, int] | tuple[str, str]
Answer = tuple[str, str, float]


@dataclass(frozen=True)
class Job:
    """A case by its number; `alone` in a fresh worker with all of its processor time, not in turn with half of it."""

    number: int
    case: Case
    alone: bool


@dataclass
class PoolCounts:
    """Counts of what the pool went through: processes started, tries that ended, those that ran out of time, cases graded alone."""

    started: int = 0
    graded: int = 0
    timeouts: int = 0
    alone: int = 0


@dataclass
class Report:
    """The server's word to its parent: the answers since the last one, and the state after them.

    `error` says why the server cannot work; nothing follows it.
    """

    answers: dict[int, Answer]
    counts: PoolCounts
    process_ids: list[int]
    error: str = ""


@dataclass(eq=False)
class _Worker:
    process: ForkProcess
    link: Connection
    alone: bool
    job: Job | None = None
    clock: CaseClock | None = None
    done: int = 0
    demoted: bool = False


class Server:
    """Serves the parent at the other end of `parent` until that closes, or sends None."""

    def __init__(self, parent: Connection, config: VerifierConfig) -> None:
        self._parent, self._config = parent, config
        self._ordinary: collections.deque[Job] = collections.deque()
        self._alone: collections.deque[Job] = collections.deque()
        self._workers: list[_Worker] = []
        self._counts = PoolCounts()
        self._answers: dict[int, Answer] = {}
        self._told: list[int] = []

    def run(self) -> None:
        """Serve; the workers end with it."""
        try:
            while self._step():
                self._watch(time.monotonic())
                self._assign()
                self._report()
        finally:
            for worker in list(self._workers):
                self._end(worker)

    def _step(self) -> bool:
        """Wait for messages and take them in; False at the end."""
        links: dict[Any, _Worker] = {worker.link: worker for worker in self._workers}
        busy = self._alone or any(worker.job for worker in self._workers)
        for ready in wait([self._parent, *links], _TICK_SECONDS if busy else None):
            if ready in links:
                self._receive(links[ready])
                continue
            try:
                job = self._parent.recv()
            except (EOFError, ConnectionResetError):
                return False
            if job is None:
                return False
            (self._alone if job.alone else self._ordinary).append(job)
        return True

    def _receive(self, worker: _Worker) -> None:
        try:
            verdict, method, fatal, cpu_seconds = worker.link.recv()
        except (EOFError, ConnectionResetError):  # it went away by itself or from outside
            self._finish(worker, "killed", "pool")
            self._end(worker)
            return
        worker.done += 1
        # Under load the watch may come late: what took too long is too long all the same.
        late = cpu_seconds > self._config.timeout_cpu_seconds
        self._finish(worker, *(("timeout", "pool") if late else (verdict, method)))
        # A demoted worker stays as a spare: its parser has learned, a fresh one has not.
        if fatal or worker.alone or worker.done >= self._config.recycle_after:
            self._end(worker)

    def _watch(self, now: float) -> None:
        patience = self._config.patience_cpu_seconds
        for worker in list(self._workers):
            if worker.job is None or worker.clock is None or worker.clock.elapsed(now) < patience:
                continue  # so much processor time cannot have been used yet
            used = worker.clock.used(now)
            if worker.clock.ran_out(used, now):
                self._finish(worker, "timeout", "pool")
                self._end(worker)
                continue
            stuck = sum(other.demoted and other.job is not None for other in self._workers)
            if used >= patience and not worker.alone and stuck < self._config.overflow_workers:
                worker.demoted = True  # another worker takes its place

    def _assign(self) -> None:
        """Give waiting cases to idle workers and start the workers that are missing."""
        active = [worker for worker in self._workers if not worker.alone and not worker.demoted]
        spare = [worker for worker in self._workers if worker.demoted and worker.job is None]
        waiting = len(self._ordinary) - sum(worker.job is None for worker in active)
        for _ in range(min(waiting, self._config.workers - len(active))):
            if spare:
                spare.pop().demoted = False
            else:
                self._fork(alone=False)
        if self._alone and not any(worker.alone for worker in self._workers):
            self._fork(alone=True)
        for worker in self._workers:
            queue = self._alone if worker.alone else self._ordinary
            if worker.job is None and not worker.demoted and queue:
                self._give(worker, queue.popleft())

    def _give(self, worker: _Worker, job: Job) -> None:
        limit = self._config.timeout_cpu_seconds * (1.0 if job.alone else _FIRST_TRY_SHARE)
        assert worker.process.pid is not None
        worker.job = job
        worker.clock = CaseClock(
            worker.process.pid, limit, self._config.backstop_wall_seconds, time.monotonic()
        )
        self._counts.alone += job.alone
        with contextlib.suppress(OSError):  # a dead worker is noticed when its link closes
            worker.link.send(job.case)

    def _finish(self, worker: _Worker, verdict: str, method: str) -> None:
        job, worker.job = worker.job, None
        if job is not None and worker.clock is not None:
            self._counts.graded += 1
            self._counts.timeouts += verdict == "timeout"
            self._answers[job.number] = verdict, method, worker.clock.elapsed(time.monotonic())

    def _fork(self, alone: bool) -> None:
        ours, theirs = Pipe()
        not_ours = [self._parent, ours, *(worker.link for worker in self._workers)]
        arguments = (theirs, not_ours, os.getpid(), self._config.memory_limit_mib)
        process = _forks.Process(target=work, args=arguments, daemon=True)
        process.start()
        theirs.close()
        self._workers.append(_Worker(process, ours, alone))
        self._counts.started += 1

    def _end(self, worker: _Worker) -> None:
        worker.process.kill()
        worker.process.join()
        worker.link.close()
        self._workers.remove(worker)

    def _report(self) -> None:
        alive = [worker.process.pid for worker in self._workers if worker.process.pid is not None]
        if self._answers or alive != self._told:
            self._parent.send(Report(self._answers, self._counts, alive))
            self._answers, self._told = {}, alive


def main(descriptor: int) -> None:
    """Serve the pool at the other end of a socket; its first message is the configuration."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = Connection(descriptor)
    config = parent.recv()
    try:
        from harness.verify.compare.symbolic import grade

        for gold, answer in _WARM_UP:
            grade(gold, answer, "either", 6)
    except Exception as error:
        parent.send(Report({}, PoolCounts(), [], f"{type(error).__name__}: {error}"))
        return
    gc.freeze()  # the workers share these pages: a pass of the collector would copy them
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # the parent is gone
        Server(parent, config).run()

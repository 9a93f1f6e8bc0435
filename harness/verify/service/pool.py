"""A pool of killable processes whose clock the parent holds.

One thread watches all of them: it hands a case to an idle process, counts its processor time from that moment, and kills it
when that runs out or makes no progress (`CaseClock`). A case that outlasts the patience gives up its place: its process goes on and
another takes over the ordinary work, so stuck inputs delay nobody else by more than the patience while overflow places last.

A case submitted `alone` gets a fresh process and the whole of its processor time; one such case runs at a time.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import selectors
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass

from harness.verify.config import VerifierConfig
from harness.verify.service.worker import ENVIRONMENT

Case = tuple[str, str, str, int] | tuple[str, str]
Answer = tuple[str, str, float]
_TICK_SECONDS = 0.02
_IDLE_SECONDS = 5.0
_START_WALL_SECONDS = 600.0
_FIRST_TRY_SHARE = 0.5
_PROGRESS_SHARE = 0.1


class CaseClock:
    """The clock of one case in one process, read by the parent.

    A case has run out when its process has used `cpu_seconds`, or when it has gone `backstop_wall_seconds` without using a
    tenth of that: it is blocked or stopped. On a loaded machine a process still comes to its tenth, so the backstop does not
    end a case that only waits for a processor; ten times the backstop bounds the elapsed time of any case.

    Args:
        pid: the process.
        cpu_seconds: processor time that the case may use.
        backstop_wall_seconds: elapsed time without progress after which the case ends.
        now: elapsed seconds of a monotonic clock.
    """

    def __init__(self, pid: int, cpu_seconds: float, backstop_wall_seconds: float, now: float) -> None:
        self._pid = pid
        self._limit = cpu_seconds
        self._backstop = backstop_wall_seconds
        self._taken = now
        self._before = processor_seconds(pid) or 0.0
        self._marked = 0.0
        self._marked_at = now

    def elapsed(self, now: float) -> float:
        """Elapsed seconds since the process took the case."""
        return now - self._taken

    def used(self, now: float) -> float:
        """Processor seconds since the process took the case."""
        total = processor_seconds(self._pid)
        if total is not None:
            return total - self._before
        return self._marked if sys.platform == "linux" else self.elapsed(now)

    def ran_out(self, used: float, now: float) -> bool:
        """Return whether the case must end, given what it has used by now."""
        if used - self._marked >= _PROGRESS_SHARE * self._limit:
            self._marked, self._marked_at = used, now
        return used >= self._limit or now - self._marked_at >= self._backstop


def processor_seconds(pid: int) -> float | None:
    """Processor time that a process has used, None when it is gone or when the platform cannot tell.

    The identifier is what clock_getcpuclockid(3) computes on Linux, for a clock of the whole process. The kernel counts it,
    so code that blocks signals or never returns to Python is counted as well.
    """
    if sys.platform != "linux":
        return None  # elapsed time stands in; a case is still graded a second time, alone
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return None


@dataclass(eq=False)
class _Job:
    case: Case
    future: Future[Answer]
    alone: bool = False


@dataclass(eq=False)
class _Process:
    connection: socket.socket
    alone: bool
    born: float
    pid: int = 0
    job: _Job | None = None
    clock: CaseClock | None = None
    done: int = 0
    demoted: bool = False
    buffer: bytes = b""


@dataclass
class PoolCounts:
    """Counts of what the pool went through: processes started, tries that ended, those that ran out of time, cases graded alone."""

    started: int = 0
    graded: int = 0
    timeouts: int = 0
    alone: int = 0


class VerifierPool:
    """Grades cases in worker processes; safe to use from any thread.

    Nothing is started before the first `submit`. A fork of the parent process gets a pool of its own.
    """

    def __init__(self, config: VerifierConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._owner = 0
        self.counts = PoolCounts()
        self._reset()

    def _reset(self) -> None:
        self._incoming: collections.deque[_Job] = collections.deque()
        self._ordinary: collections.deque[_Job] = collections.deque()
        self._alone: collections.deque[_Job] = collections.deque()
        self._processes: list[_Process] = []
        self._template: subprocess.Popen[bytes] | None = None
        self._closing = False

    def submit(self, case: Case, alone: bool = False) -> Future[Answer]:
        """A future of (verdict, method, elapsed seconds) for (gold, answer, percent policy, decimal digits).

        A case of (gold, response) is one for `harness.verify.second`.

        Args:
            case: what to grade.
            alone: grade it in a fresh process with all of its processor time, not in turn with half of it.
        """
        job = _Job(case, Future(), alone)
        with self._lock:
            if self._thread is None or self._owner != os.getpid() or not self._thread.is_alive():
                self._start()
            self._incoming.append(job)
        self._wake()
        return job.future

    def process_ids(self) -> list[int]:
        """The worker processes alive now."""
        return [process.pid for process in list(self._processes) if process.pid]

    def close(self) -> None:
        """Ends every process and waits for them."""
        with self._lock:
            thread = self._thread if self._owner == os.getpid() else None
            self._thread = None
            self._closing = True
        if thread is not None and thread.is_alive():
            self._wake()
            thread.join(timeout=10)

    # ------------------------------------------------------------------ the watching thread

    def _start(self) -> None:
        self._reset()
        self._owner = os.getpid()
        self._wake_in, self._wake_out = socket.socketpair()
        self._wake_in.setblocking(False)
        self._wake_out.setblocking(False)
        self._thread = threading.Thread(target=self._run, name="verifier-pool", daemon=True)
        self._thread.start()

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError, OSError):
            self._wake_out.send(b"x")

    def _run(self) -> None:
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._wake_in, selectors.EVENT_READ, None)
        try:
            while not self._closing:
                busy = bool(self._processes) and any(p.job or not p.pid for p in self._processes)
                for key, _ in self._selector.select(_TICK_SECONDS if busy or self._alone else _IDLE_SECONDS):
                    if key.data is None:
                        self._drain()
                    elif key.data == "template":
                        self._template_spoke()
                    else:
                        self._receive(key.data)
                self._watch(time.monotonic())
                self._assign()
        except Exception as error:
            self._fail_all(f"the verifier pool stopped: {type(error).__name__}: {error}")
        finally:
            self._shut_down()

    def _drain(self) -> None:
        with contextlib.suppress(BlockingIOError):
            while self._wake_in.recv(4096):
                pass
        while self._incoming:
            job = self._incoming.popleft()
            (self._alone if job.alone else self._ordinary).append(job)

    def _assign(self) -> None:
        """Give waiting cases to idle processes and start the processes that are missing."""
        active = [p for p in self._processes if not p.alone and not p.demoted]
        spare = [p for p in self._processes if p.demoted and p.job is None]
        waiting = len(self._ordinary) - sum(p.job is None for p in active)
        for _ in range(min(waiting, self._config.workers - len(active))):
            if spare:
                spare.pop().demoted = False
            else:
                self._fork(alone=False)
        for process in self._processes:
            queue = self._alone if process.alone else self._ordinary
            if process.pid and process.job is None and not process.demoted and queue:
                self._give(process, queue.popleft())
        if self._alone and not any(p.alone for p in self._processes):
            self._fork(alone=True)

    def _give(self, process: _Process, job: _Job) -> None:
        limit = self._config.timeout_cpu_seconds * (1.0 if job.alone else _FIRST_TRY_SHARE)
        process.job = job
        process.clock = CaseClock(process.pid, limit, self._config.backstop_wall_seconds, time.monotonic())
        self.counts.alone += job.alone
        request = {"case": job.case, "cpu_seconds": limit}
        with contextlib.suppress(OSError):  # a dead process is noticed when its socket closes
            process.connection.sendall(json.dumps(request).encode() + b"\n")

    def _watch(self, now: float) -> None:
        patience = self._config.patience_cpu_seconds
        for process in list(self._processes):
            if process.job is None or process.clock is None:
                if not process.pid and now - process.born > _START_WALL_SECONDS:
                    raise RuntimeError(f"a verifier process did not start within {_START_WALL_SECONDS:.0f} s")
                continue
            if process.clock.elapsed(now) < patience:
                continue  # so much processor time cannot have been used yet
            used = process.clock.used(now)
            if process.clock.ran_out(used, now):
                self._finish(process, "timeout", "pool")
                self._kill(process)
                continue
            stuck = sum(p.demoted and p.job is not None for p in self._processes)
            if used >= patience and not process.alone and stuck < self._config.overflow_workers:
                process.demoted = True  # another process takes its place

    def _receive(self, process: _Process) -> None:
        try:
            data = process.connection.recv(65_536)
        except OSError:
            data = b""
        if not data:  # it went away by itself or from outside
            self._finish(process, "killed", "pool")
            self._forget(process)
            return
        *lines, process.buffer = (process.buffer + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "pid" in message:
                process.pid = message["pid"]
                continue
            process.done += 1
            # Under load the watch may come late: what took too long is too long all the same.
            late = message["cpu_seconds"] > self._config.timeout_cpu_seconds
            self._finish(process, *(("timeout", "pool") if late else (message["verdict"], message["method"])))
            # A demoted process stays as a spare: its parser has learned, a fresh one has not.
            if message["fatal"] or process.alone or process.done >= self._config.recycle_after:
                self._kill(process)

    def _finish(self, process: _Process, verdict: str, method: str) -> None:
        job, process.job = process.job, None
        if job is not None and process.clock is not None:
            self.counts.graded += 1
            self.counts.timeouts += verdict == "timeout"
            job.future.set_result((verdict, method, process.clock.elapsed(time.monotonic())))

    # ------------------------------------------------------------------ the template and its forks

    def _fork(self, alone: bool) -> None:
        if self._template is None:
            self._start_template()
        ours, theirs = socket.socketpair()
        process = _Process(ours, alone, time.monotonic())
        request = {"do": "fork", "memory_mib": self._config.memory_limit_mib}
        with theirs:
            try:
                socket.send_fds(self._control, [json.dumps(request).encode() + b"\n"], [theirs.fileno()])
            except OSError:
                ours.close()
                self._template_spoke()
                return
        self._processes.append(process)
        self._selector.register(ours, selectors.EVENT_READ, process)
        self.counts.started += 1

    def _start_template(self) -> None:
        self._control, theirs = socket.socketpair()
        code = (
            f"import sys; sys.path[:] = {[entry or os.getcwd() for entry in sys.path]!r}; "
            f"from harness.verify.service.worker import run_template; run_template({theirs.fileno()})"
        )
        with theirs:
            self._template = subprocess.Popen(
                [sys.executable, "-c", code],
                pass_fds=[theirs.fileno()],
                env={**os.environ, **ENVIRONMENT},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        self._selector.register(self._control, selectors.EVENT_READ, "template")

    def _template_spoke(self) -> None:
        """The template speaks only to say that it cannot work; when it was killed it says nothing."""
        try:
            said = self._control.recv(65_536)
        except OSError:
            said = b""
        self._selector.unregister(self._control)
        self._control.close()
        if self._template is not None:
            self._template.kill()
            self._template.wait()
        self._template = None
        if said:
            self._fail_all(f"verifier processes cannot start: {json.loads(said.splitlines()[0])['error']}")

    def _kill(self, process: _Process) -> None:
        with contextlib.suppress(OSError):
            self._control.sendall(json.dumps({"do": "kill", "pid": process.pid}).encode() + b"\n")
        self._forget(process)

    def _forget(self, process: _Process) -> None:
        self._selector.unregister(process.connection)
        process.connection.close()
        self._processes.remove(process)

    def _fail_all(self, reason: str) -> None:
        queues = (self._ordinary, self._alone, self._incoming)
        jobs = [p.job for p in self._processes if p.job] + [job for queue in queues for job in queue]
        for queue in queues:
            queue.clear()
        for job in jobs:
            if not job.future.done():
                job.future.set_exception(RuntimeError(reason))

    def _shut_down(self) -> None:
        self._fail_all("the verifier was closed")
        for process in list(self._processes):
            self._forget(process)
        if self._template is not None:
            self._control.close()
            try:
                self._template.wait(timeout=2)
            except subprocess.TimeoutExpired:
                self._template.kill()
                self._template.wait()
        self._selector.close()
        self._wake_in.close()
        self._wake_out.close()

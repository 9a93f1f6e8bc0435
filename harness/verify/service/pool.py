"""A pool of killable processes whose clock the parent holds.

One thread watches all of them: it hands a case to an idle process, counts its processor time and its elapsed time from that
moment, and kills it when either runs out. A case that outlasts the patience gives up its place: its process goes
on at the lowest priority and another takes over the ordinary work, so stuck inputs delay nobody else by more than
the patience. When even the overflow places are taken, the case is started over once one is free.
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
from dataclasses import dataclass, field

from harness.verify.config import VerifierConfig
from harness.verify.service.worker import ENVIRONMENT

Case = tuple[str, str, str, int]
Answer = tuple[str, str, float]
_TICK_SECONDS = 0.02
_START_SECONDS = 60.0
_STARVED_FACTOR = 1.8
_RETRY_BELOW_SECONDS = 1.0


@dataclass(eq=False)
class _Job:
    case: Case
    future: Future[Answer]
    attempts: int = 0
    slow: bool = False


@dataclass(eq=False)
class _Process:
    connection: socket.socket
    nice: bool
    born: float
    pid: int = 0
    job: _Job | None = None
    taken: float = 0.0
    processor_start: float = 0.0
    done: int = 0
    demoted: bool = False
    lowered: bool = False
    buffer: bytes = b""


@dataclass
class PoolCounts:
    """What the pool went through, for health reports."""

    started: int = 0
    graded: int = 0
    timeouts: int = 0
    deaths: int = 0
    recycled: int = 0
    restarts: int = field(default=0)


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
        self._slow: collections.deque[_Job] = collections.deque()
        self._processes: list[_Process] = []
        self._template: subprocess.Popen[bytes] | None = None
        self._closing = False

    def submit(self, case: Case) -> Future[Answer]:
        """A future of (verdict, method, seconds) for (gold, answer, percent policy, decimal digits)."""
        job = _Job(case, Future())
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
                for key, _ in self._selector.select(_TICK_SECONDS if busy or self._slow else 5.0):
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
            self._ordinary.append(self._incoming.popleft())

    def _assign(self) -> None:
        """Gives waiting cases to idle processes and starts the processes that are missing."""
        for process in self._processes:
            if process.pid and process.job is None:
                queue = self._slow if process.nice else self._ordinary
                if queue:
                    self._give(process, queue.popleft())
        active = [p for p in self._processes if not p.demoted and not p.nice]
        waiting = len(self._ordinary) - sum(1 for p in active if not p.pid)
        for _ in range(min(waiting, self._config.workers - len(active))):
            self._fork(nice=False)
        room = self._config.overflow_workers - sum(p.demoted or p.nice for p in self._processes)
        for _ in range(min(len(self._slow) - sum(p.nice and not p.pid for p in self._processes), room)):
            self._fork(nice=True)

    def _give(self, process: _Process, job: _Job) -> None:
        process.job, process.taken = job, time.monotonic()
        process.processor_start = _processor_seconds(process.pid) or 0.0
        request = {"case": job.case, "seconds": self._config.timeout_seconds}
        with contextlib.suppress(OSError):  # a dead process is noticed when its socket closes
            process.connection.sendall(json.dumps(request).encode() + b"\n")

    def _watch(self, now: float) -> None:
        config = self._config
        for process in list(self._processes):
            if process.job is None:
                if not process.pid and now - process.born > _START_SECONDS:
                    raise RuntimeError(f"a verifier process did not start within {_START_SECONDS:.0f} s")
                continue
            elapsed = now - process.taken
            if elapsed < config.patience_seconds / 3:
                continue
            used = (_processor_seconds(process.pid) or elapsed) - process.processor_start
            late = elapsed >= config.wall_seconds and used >= config.timeout_seconds / 2
            if used >= config.timeout_seconds or late or elapsed >= _STARVED_FACTOR * config.wall_seconds:
                self.counts.timeouts += 1
                self._finish(process, "timeout", "pool")
                self._kill(process)
                continue
            spent = used >= config.patience_seconds
            if (
                (spent or (self._ordinary and 3 * used >= config.patience_seconds))
                and not process.demoted
                and not process.nice
            ):
                self._make_way(process, spent)
            if spent and process.demoted and not process.lowered:
                process.lowered = True
                self._tell({"do": "nice", "pid": process.pid})

    def _make_way(self, process: _Process, spent: bool) -> None:
        """Frees the place of a case that outlasted the patience, or a third of it while others wait."""
        if sum(p.demoted or p.nice for p in self._processes) < self._config.overflow_workers:
            process.demoted = True
        elif spent and self._ordinary and self._config.overflow_workers > 0:
            job, process.job = process.job, None
            if job is not None:
                self._slow.append(job)
                self.counts.restarts += 1
            self._kill(process)

    def _receive(self, process: _Process) -> None:
        try:
            data = process.connection.recv(65_536)
        except OSError:
            data = b""
        if not data:
            self._died(process)
            return
        *lines, process.buffer = (process.buffer + data).split(b"\n")
        for line in lines:
            message = json.loads(line)
            if "pid" in message:
                process.pid = message["pid"]
                continue
            process.done += 1
            self._finish(process, message["verdict"], message["method"])
            active = sum(not p.demoted and not p.nice for p in self._processes)
            surplus = process.lowered or (process.demoted and active >= self._config.workers)
            process.demoted = process.demoted and surplus
            if message["fatal"] or surplus or process.done >= self._config.recycle_after:
                self.counts.recycled += 1
                self._kill(process)

    def _finish(self, process: _Process, verdict: str, method: str) -> None:
        job, process.job = process.job, None
        if job is not None:
            self.counts.graded += 1
            job.future.set_result((verdict, method, time.monotonic() - process.taken))

    def _died(self, process: _Process) -> None:
        """A process went away by itself or from outside: its case is tried once more if it had just begun."""
        self.counts.deaths += 1
        job = process.job
        if job is not None and job.attempts == 0 and time.monotonic() - process.taken < _RETRY_BELOW_SECONDS:
            job.attempts, process.job = 1, None
            self._ordinary.appendleft(job)
        else:
            self._finish(process, "killed", "pool")
        self._forget(process)

    # ------------------------------------------------------------------ the template and its forks

    def _fork(self, nice: bool) -> None:
        if self._template is None:
            self._start_template()
        ours, theirs = socket.socketpair()
        process = _Process(ours, nice, time.monotonic())
        request = {"do": "fork", "memory_mib": self._config.memory_limit_mib, "nice": nice}
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

    def _tell(self, request: dict[str, object]) -> None:
        with contextlib.suppress(OSError):
            self._control.sendall(json.dumps(request).encode() + b"\n")

    def _kill(self, process: _Process) -> None:
        self._tell({"do": "kill", "pid": process.pid})
        self._forget(process)

    def _forget(self, process: _Process) -> None:
        self._selector.unregister(process.connection)
        process.connection.close()
        self._processes.remove(process)

    def _fail_all(self, reason: str) -> None:
        jobs = [p.job for p in self._processes if p.job] + [*self._ordinary, *self._slow, *self._incoming]
        self._ordinary.clear()
        self._slow.clear()
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


def _processor_seconds(pid: int) -> float | None:
    """Processor time a process has used, None when it is gone or the platform cannot tell."""
    if sys.platform != "linux":
        return None
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return None

"""The parent's end of the grading processes (`harness.verify.worker`): one thread for each, which starts it, waits for it and kills it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Pipe

from harness.verify.config import VerifierConfig

# Of the processes: what could change a verdict is fixed.
ENVIRONMENT = {
    "PYTHONHASHSEED": "0",
    "SYMPY_GROUND_TYPES": "python",
    "MPMATH_NOGMPY": "1",
    "SYMPY_USE_CACHE": "yes",
    "OMP_NUM_THREADS": "1",
}
_START_WALL_SECONDS = 300.0
READY = "ready", "pool"  # the first message of a process
Case = tuple[str, str, str] | tuple[str, str]


class WorkerPool:
    """Grades cases in worker processes; safe to use from any thread.

    Nothing is started before the first case. A fork of the parent process gets processes of its own. A case that uses up its processor
    time ends as `timeout`; one whose process is lost (memory, or killed from outside) is tried once more in a fresh one, then `killed`.
    """

    def __init__(self, config: VerifierConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._owner = 0
        self._threads: ThreadPoolExecutor | None = None
        self._own = threading.local()
        self._workers: set[_Worker] = set()
        self.starts = 0  # processes so far

    def process_ids(self) -> list[int]:
        """Return the worker processes alive now."""
        return [worker.process.pid for worker in list(self._workers)]

    def answers(self, cases: Iterable[Case]) -> dict[Case, tuple[str, str]]:
        """Return (verdict, method) of every case: see `harness.verify.worker.main`.

        Raises `RuntimeError`: no process can be started, or the pool was closed meanwhile.
        """
        unique = list(dict.fromkeys(cases))
        with self._lock:
            if self._threads is None or self._owner != os.getpid():
                self._owner, self._workers = os.getpid(), set()
                self._threads = ThreadPoolExecutor(self._config.workers, "verifier")
            threads = self._threads
        return dict(zip(unique, threads.map(self._grade, unique), strict=True))

    def close(self) -> None:
        """End every process and wait for them."""
        with self._lock:
            threads, self._threads = self._threads, None
        if threads is None or self._owner != os.getpid():
            return
        for worker in list(self._workers):
            worker.process.kill()
        threads.shutdown(cancel_futures=True)
        for worker in list(self._workers):
            self._end(worker)

    def _grade(self, case: Case, may_repeat: bool = True) -> tuple[str, str]:
        """Grade a case by this thread's worker, or a new one where it has none or lost it."""
        worker = getattr(self._own, "worker", None) or self._start()
        with contextlib.suppress(OSError):  # of a lost process: what is received tells how it ended
            worker.link.send(case)
        verdict, method = worker.receive(self._config.backstop_wall_seconds)
        if verdict in ("timeout", "killed"):
            self._end(worker)
            if verdict == "killed" and may_repeat:
                return self._grade(case, may_repeat=False)
        return verdict, method

    def _start(self) -> _Worker:
        if self._threads is None:
            raise RuntimeError("the verifier was closed")
        worker = _Worker(self._config.timeout_cpu_seconds)
        self._workers.add(worker)
        self._own.worker = worker
        self.starts += 1
        if worker.receive(_START_WALL_SECONDS) != READY:
            self._end(worker)
            raise RuntimeError("verifier processes cannot start: see what `import harness.verify.worker` says")
        return worker

    def _end(self, worker: _Worker) -> None:
        self._own.worker = None
        worker.process.kill()
        worker.process.wait()
        worker.link.close()
        self._workers.discard(worker)  # `close` and its thread may both come here


class _Worker:
    """One process and the link to it."""

    def __init__(self, cpu_seconds: float) -> None:
        self.link, remote = Pipe()
        code = (
            f"import sys; sys.path[:] = {[entry or os.getcwd() for entry in sys.path]!r}; "
            f"from harness.verify.worker import main; main({remote.fileno()}, {cpu_seconds!r})"
        )
        with remote:
            self.process = subprocess.Popen(
                [sys.executable, "-c", code],
                pass_fds=[remote.fileno()],
                env={**os.environ, **ENVIRONMENT},
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )

    def receive(self, wall_seconds: float) -> tuple[str, str]:
        """Return the verdict on a case and what decided; `timeout` or `killed` where the process has to be replaced."""
        try:
            verdict, method = self.link.recv() if self.link.poll(wall_seconds) else ("timeout", "pool")
        except (EOFError, OSError):
            return ("timeout" if self.process.wait() == -signal.SIGPROF else "killed"), "pool"
        return verdict, method

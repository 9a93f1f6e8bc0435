"""The parent's end of the grading processes (`harness.verify.service.server`): cases go out, answers come back as futures."""

from __future__ import annotations

import contextlib
import itertools
import os
import subprocess
import sys
import threading
from collections.abc import Iterable
from concurrent.futures import Future
from multiprocessing.connection import Connection, Pipe

from harness.verify.config import VerifierConfig
from harness.verify.service.server import Answer, Case, Job, PoolCounts, Report
from harness.verify.service.worker import ENVIRONMENT

_CLOSE_SECONDS = 10.0
_TRY_ALONE = ("timeout", "killed")
_Waiting = dict[int, Future[Answer]]


class VerifierPool:
    """Grades cases in worker processes; safe to use from any thread.

    Nothing is started before the first `submit`. A fork of the parent process gets processes of its own.
    """

    def __init__(self, config: VerifierConfig) -> None:
        self._config = config
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._link: Connection | None = None
        self._owner = 0
        self._waiting: _Waiting = {}
        self._state = Report({}, PoolCounts(), [])

    @property
    def counts(self) -> PoolCounts:
        """Count what the processes went through since they were started."""
        return self._state.counts

    def process_ids(self) -> list[int]:
        """The worker processes alive now."""
        return self._state.process_ids

    def submit(self, case: Case, alone: bool = False) -> Future[Answer]:
        """A future of (verdict, method, elapsed seconds) for (gold, answer, percent policy, decimal digits).

        A case of (gold, response) is one for `harness.verify.second`.

        Args:
            case: what to grade.
            alone: grade it in a fresh process with all of its processor time, not in turn with half of it.
        """
        future: Future[Answer] = Future()
        with self._lock:
            if self._link is None or self._owner != os.getpid():
                self._link = self._start()
            number = next(self._numbers)
            self._waiting[number] = future
            with contextlib.suppress(OSError):  # a server that is gone is noticed by `_listen`
                self._link.send(Job(number, case, alone))
        return future

    def answers(self, cases: Iterable[Case]) -> dict[Case, Answer]:
        """Grade a batch. What ran out of time or lost its process is graded once more, alone, after the others."""
        waiting = {case: self.submit(case) for case in dict.fromkeys(cases)}
        found = {case: future.result() for case, future in waiting.items()}
        for case, answer in found.items():
            if answer[0] in _TRY_ALONE:
                found[case] = self.submit(case, alone=True).result()
        return found

    def close(self) -> None:
        """Ends every process and waits for them."""
        with self._lock:
            link, self._link = self._link, None
            if link is None or self._owner != os.getpid():
                return
            with contextlib.suppress(OSError):
                link.send(None)
        self._listener.join(_CLOSE_SECONDS)

    def _start(self) -> Connection:
        link, theirs = Pipe()
        code = (
            f"import sys; sys.path[:] = {[entry or os.getcwd() for entry in sys.path]!r}; "
            f"from harness.verify.service.server import main; main({theirs.fileno()})"
        )
        with theirs:
            server = subprocess.Popen(
                [sys.executable, "-c", code],
                pass_fds=[theirs.fileno()],
                env={**os.environ, **ENVIRONMENT},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        link.send(self._config)
        self._owner, self._waiting, self._state = os.getpid(), {}, Report({}, PoolCounts(), [])
        arguments = (link, self._waiting, server)
        self._listener = threading.Thread(
            target=self._listen, args=arguments, name="verifier-pool", daemon=True
        )
        self._listener.start()
        return link

    def _listen(self, link: Connection, waiting: _Waiting, server: subprocess.Popen[bytes]) -> None:
        """Resolve futures until the server is gone, and then those that it has left."""
        with contextlib.suppress(EOFError, ConnectionResetError):
            while True:
                self._state = report = link.recv()
                for number, answer in report.answers.items():
                    waiting.pop(number).set_result(answer)
        server.kill()
        server.wait()
        with self._lock:
            closed = self._link is not link
            if not closed:
                self._link = None
            left = list(waiting.values())
        link.close()
        reason = "the verifier was closed" if closed else self._state.error
        self._state.process_ids = []
        for future in left:
            if reason:
                future.set_exception(
                    RuntimeError(reason if closed else f"verifier processes cannot start: {reason}")
                )
            else:  # somebody killed it: the cases are tried again as those of a killed worker
                future.set_result(("killed", "pool", 0.0))

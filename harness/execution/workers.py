"""The supervisor's end of the fork server: start workers, signal them, learn how they ended. Messages are pickled."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe
from pathlib import Path
from typing import IO

_PROJECT = Path(__file__).resolve().parents[2]
_CLOSE_SECONDS = 10.0


@dataclass(frozen=True)
class Start:
    """Fork a worker for a run; its directories are absolute."""

    run_id: str
    run_dir: Path
    attempt_dir: Path
    environment: dict[str, str]


@dataclass(frozen=True)
class Signal:
    """Send a signal to the worker of a run, if it still lives."""

    run_id: str
    number: int


@dataclass(frozen=True)
class StartEvent:
    run_id: str
    pid: int


@dataclass(frozen=True)
class ExitEvent:
    """A worker process ended; `code` as in `subprocess`: negative for the signal that ended it."""

    run_id: str
    code: int
    note: str = ""


def python_path() -> str:
    """Put the project before what PYTHONPATH has: a process of ours finds it from whatever directory."""
    return os.pathsep.join(filter(None, [str(_PROJECT), os.environ.get("PYTHONPATH", "")]))


class Workers:
    """Worker processes of one supervisor, forked by one server that is started on the first use.

    Args:
        entry: `module:function`, called with the run directory and returning the exit code.
        threads: value of OMP_NUM_THREADS, which has to stand before the libraries are loaded.
    """

    def __init__(self, entry: str, threads: int) -> None:
        self._entry, self._threads = entry, threads
        self._server: subprocess.Popen[bytes] | None = None
        self._control: Connection | None = None
        self._log: IO[bytes] | None = None
        self._pids: dict[str, int | None] = {}

    def warm_up(self) -> None:
        """Start the fork server, if it does not run, so that it loads its libraries meanwhile."""
        if self._server is not None:
            return
        ours, theirs = Pipe()
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 (closed in `close`)
        environment = {**os.environ, "OMP_NUM_THREADS": str(self._threads), "PYTHONPATH": python_path()}
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, "-m", "harness.execution.fork_server", str(theirs.fileno()), self._entry],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=self._log,
                stderr=self._log,
                env=environment,
                start_new_session=True,
            )
        self._control = ours

    def start(self, run_id: str, run_dir: Path, attempt_dir: Path, environment: Mapping[str, str]) -> None:
        """Ask for a worker; `wait` reports `StartEvent`, and `ExitEvent` in any case."""
        self.warm_up()
        self._pids[run_id] = None
        self._send(Start(run_id, run_dir.resolve(), attempt_dir.resolve(), dict(environment)))

    def signal(self, run_id: str, number: int) -> None:
        if run_id in self._pids:
            self._send(Signal(run_id, int(number)))

    def wait(self, seconds: float) -> list[StartEvent | ExitEvent]:
        """Return what happened since the last call, waiting up to `seconds` for something to happen."""
        if self._control is None:
            time.sleep(seconds)
            return []
        events: list[StartEvent | ExitEvent] = []
        while self._control.poll(0.0 if events else seconds):
            try:
                event = self._control.recv()
            except (EOFError, ConnectionResetError):
                return [*events, *self._server_ended()]
            if isinstance(event, StartEvent):
                self._pids[event.run_id] = event.pid
            else:
                del self._pids[event.run_id]
            events.append(event)
        return events

    def close(self) -> None:
        """End the fork server; workers that still live are killed with it."""
        if self._control is not None:
            self._control.close()
        if self._server is not None:
            try:
                self._server.wait(_CLOSE_SECONDS)
            except subprocess.TimeoutExpired:  # still loading its libraries
                self._server.kill()
                self._server.wait()
        if self._log is not None:
            self._log.close()
        self._server = self._control = self._log = None
        self._pids.clear()

    def _send(self, request: Start | Signal) -> None:
        assert self._control is not None
        # A server that is gone is noticed, and reported for each run, by the next `wait`.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._control.send(request)

    def _server_ended(self) -> list[ExitEvent]:
        """The fork server died, its workers with it: report each run; the next start makes a new server."""
        assert self._log is not None
        self._log.seek(0)
        tail = self._log.read()[-2000:].decode(errors="replace").strip()
        note = f"the process that forks the workers ended; its last words: {tail or 'none'}"
        pids, runs = [pid for pid in self._pids.values() if pid is not None], list(self._pids)
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(pid, signal.SIGKILL)
        self.close()
        return [ExitEvent(run_id, -signal.SIGKILL, note) for run_id in runs]

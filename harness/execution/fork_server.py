"""The process that forks workers: it has imported the worker's libraries once, so that a start is cheap.

`python -m harness.execution.fork_server <socket fd> <module:function>` serves one supervisor. Why not
`multiprocessing`'s own fork server: that one imports the supervisor's main module into every worker, dies of
a SIGTERM sent to the whole job, and leaves a worker's children alive when the supervisor is killed. Here

* every worker is the leader of its own session, and its whole process group is killed when it ends;
* when the supervisor dies, however it dies, this process sees the end of its socket and kills all groups;
* when this process dies too, the kernel kills the workers (Linux);
* a worker holds `worker.lock` from before its first action until its death, so two never work on one run.

In come requests `Start` and `Signal`, out go `StartEvent` and `ExitEvent` (`harness.execution.workers`).
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import NoReturn

from harness.configuration.error import ConfigError
from harness.execution.attempt import EXIT_REFUSED, EXIT_STORE
from harness.execution.workers import ExitEvent, Signal, Start, StartEvent
from harness.store import RunDir, StoreError, StoreFull, StoreReadOnly, layout
from harness.store.atomic import FULL
from harness.training.torchrun import die_with

# Workers of a supervisor that was just killed may live for some moments; longer than this is worth an error.
WAIT_FOR_OLD_WORKER_SECONDS = 60.0
_STOP_SIGNALS = {signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2}


class ForkServer:
    def __init__(self, control: Connection) -> None:
        self._control = control
        self._runs: dict[int, str] = {}  # process id of a worker that is not reaped -> its run
        self._wake_read, self._wake_write = os.pipe()
        for end in (self._wake_read, self._wake_write):
            os.set_blocking(end, False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)

    def serve(self) -> Start | None:
        """Serve until the supervisor is gone (then None). In a forked worker: return its request."""
        while True:
            ready = wait([self._control, self._wake_read])
            if self._wake_read in ready:
                os.read(self._wake_read, 4096)
                self._reap()
            if self._control not in ready:
                continue
            try:
                request = self._control.recv()
            except (EOFError, ConnectionResetError):
                self._kill_all()
                return None
            if isinstance(request, Signal):
                self._signal(request)
            elif self._fork(request):
                return request

    def _send(self, event: StartEvent | ExitEvent) -> None:
        # A supervisor that is gone is noticed, and dealt with, by `serve`.
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._control.send(event)

    def _fork(self, request: Start) -> bool:
        """Fork; True in the new worker."""
        server = os.getpid()
        pid = os.fork()
        if pid == 0:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            die_with(server)
            self._control.close()
            os.close(self._wake_read)
            os.close(self._wake_write)
            return True
        self._runs[pid] = request.run_id
        self._send(StartEvent(request.run_id, pid))
        return False

    def _signal(self, request: Signal) -> None:
        for pid, run_id in self._runs.items():
            if run_id == request.run_id:
                os.kill(pid, request.number)

    def _reap(self) -> None:
        while self._runs:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            if pid in self._runs:  # not a helper that some library started when it was imported
                _kill_group(pid)  # what the worker started and left behind
                self._send(ExitEvent(self._runs.pop(pid), os.waitstatus_to_exitcode(status)))

    def _kill_all(self) -> None:
        for pid in self._runs:
            _kill_group(pid)
            os.kill(pid, signal.SIGKILL)  # a worker that has not yet made its own group


def work(request: Start, entry: str) -> int:
    """The life of a worker: own log files, environment and lock, then the entry. Returns its exit code."""
    _redirect(0, "/dev/null", os.O_RDONLY)
    for number, name in ((1, layout.STDOUT), (2, layout.STDERR)):
        _redirect(number, str(request.attempt_dir / name), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    os.environ.update(request.environment)
    for number in _STOP_SIGNALS:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _STOP_SIGNALS)
    run = RunDir(request.run_dir)
    with run.worker_lock(WAIT_FOR_OLD_WORKER_SECONDS):
        run.remove_leftovers()
        return int(_load(entry)(run.path))


def main(arguments: list[str]) -> NoReturn:
    """Serve the supervisor at the other end of the socket `arguments[0]` with the entry `arguments[1]`."""
    # Blocked, not ignored: a worker gets what arrives while it starts as soon as it unblocks them.
    signal.pthread_sigmask(signal.SIG_BLOCK, _STOP_SIGNALS)
    control, entry = Connection(int(arguments[0])), arguments[1]
    # An entry that cannot be imported fails again in each worker, which writes the reason to its own log.
    with contextlib.suppress(Exception):
        _load(entry)
    gc.freeze()  # workers share these pages: a pass of the collector would copy them
    request = ForkServer(control).serve()
    if request is None:
        sys.exit()
    try:
        code = work(request, entry)
    except Exception as error:
        code = _exit_code(error)
    sys.stdout.flush()
    sys.stderr.flush()
    # Python's own end takes the interpreter apart object by object, and so copies every page that this fork shares: 0.3 s a run.
    os._exit(code)


def _exit_code(error: Exception) -> int:
    """Write the error to the worker's log, in a line where it names its cause and fix, and return the code that it ends with."""
    if (
        isinstance(error, OSError) and error.errno in FULL
    ):  # of what the store does not write: a record, a data set's cache
        sys.stderr.write(f"no space left ({error}); free space, then run the same command again\n")
        return EXIT_STORE
    if isinstance(error, StoreError | ConfigError):
        sys.stderr.write(f"{error}\n")
        return EXIT_STORE if isinstance(error, StoreFull | StoreReadOnly) else EXIT_REFUSED
    traceback.print_exception(error)
    return 1


def _load(entry: str) -> Callable[[Path], int]:
    module, _, function = entry.partition(":")
    return getattr(importlib.import_module(module), function)


def _redirect(number: int, path: str, flags: int) -> None:
    descriptor = os.open(path, flags, 0o644)
    os.dup2(descriptor, number)
    os.close(descriptor)


def _kill_group(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


if __name__ == "__main__":
    main(sys.argv[1:])

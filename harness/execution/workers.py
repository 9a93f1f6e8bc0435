"""Worker processes of a supervisor, forked by `multiprocessing`'s fork server, which has loaded the worker's libraries once.

* Every worker leads a session of its own, and what it leaves running is killed with it.
* When the supervisor dies, however it dies, the kernel ends the fork server (Linux), and every worker kills its session.
* A worker holds `worker.lock` from before its first action until its death, so two never work on one run.
"""

import contextlib
import importlib
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from multiprocessing import (
    forkserver,
    get_all_start_methods,
    get_context,
    get_start_method,
    parent_process,
    set_start_method,
)
from multiprocessing.connection import wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import NoReturn

from harness.configuration.error import ConfigError
from harness.execution.exit_codes import EXIT_REFUSED, EXIT_STORE
from harness.execution.fork_server import STOP_SIGNALS, SUPERVISOR_DIED, of_this_process
from harness.store import RunDir, StoreError, StoreFull, StoreReadOnly, layout
from harness.store.atomic import FULL

_PROJECT = Path(__file__).resolve().parents[2]
# Workers of a supervisor that was just killed may live for some moments; longer than this is worth an error.
_WAIT_FOR_OLD_WORKER_SECONDS = 60.0
_WAIT_FOR_OLD_SERVER_SECONDS = 10.0
_SERVER_DIED = 255  # of `multiprocessing`, where its fork server can tell no exit code


@dataclass(frozen=True)
class End:
    """A worker ended; `code` as in `subprocess`: negative for the signal that ended it."""

    run_id: str
    code: int
    note: str = ""


class Workers:
    """Worker processes of one supervisor. The fork server lives as long as this process, for other supervisors in it as well.

    Args:
        entry: `module:function`, called with the run directory and returning the exit code.
        threads: value of OMP_NUM_THREADS, which has to stand before the libraries are loaded.
    """

    def __init__(self, entry: str, threads: int) -> None:
        self._entry = entry
        # The project before what PYTHONPATH has: a process of ours finds it from whatever directory.
        python_path = os.pathsep.join(filter(None, [str(_PROJECT), os.environ.get("PYTHONPATH", "")]))
        self._environment = {"OMP_NUM_THREADS": str(threads), "PYTHONPATH": python_path}
        if (
            get_start_method() not in get_all_start_methods()
        ):  # a job of joblib: every child would look for joblib's own method
            set_start_method("forkserver", force=True)
        self._context = get_context("forkserver")
        modules = ["harness.execution.fork_server", *_modules_of_main(), entry.partition(":")[0]]
        self._context.set_forkserver_preload(modules)
        self._processes: dict[str, ForkServerProcess] = {}
        self._warm_up: threading.Thread | None = None

    def warm_up(self) -> None:
        """Start the fork server, if it does not run, so that it loads its libraries meanwhile."""
        with _environment({**self._environment, **of_this_process()}):
            forkserver.ensure_running()
        # It answers only when it has loaded them: in a thread, so that signals are heard meanwhile.
        self._warm_up = threading.Thread(target=self._try_one, daemon=True)
        self._warm_up.start()

    def _try_one(self) -> None:
        process = self._context.Process(target=os.getpid)
        with contextlib.suppress(OSError, EOFError):  # a server that died is made again by the first worker
            process.start()
            process.join()

    @property
    def ready(self) -> bool:
        """Say if the libraries are loaded, so that a worker starts at once."""
        return self._warm_up is None or not self._warm_up.is_alive()

    def start(self, run_id: str, run_dir: Path, attempt_dir: Path, environment: Mapping[str, str]) -> int:
        """Start a worker and return its process id."""
        everything = {**os.environ, **self._environment, **environment}
        arguments = (self._entry, run_dir.resolve(), attempt_dir.resolve(), everything)
        process = self._processes[run_id] = self._start_process(arguments)
        assert process.pid is not None
        return process.pid

    def _start_process(self, arguments: tuple[object, ...]) -> ForkServerProcess:
        deadline = time.monotonic() + _WAIT_FOR_OLD_SERVER_SECONDS
        while True:
            process = self._context.Process(target=_work, args=arguments)
            try:
                with _environment({**self._environment, **of_this_process()}):  # for a server that died meanwhile
                    process.start()
                return process
            except (ConnectionError, EOFError):  # it was killed, and the kernel has not yet taken it away
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def signal(self, run_id: str, number: int) -> None:
        """Send a signal to the worker of a run, if it still lives."""
        if (process := self._processes.get(run_id)) is not None and process.pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, number)

    def wait(self, seconds: float) -> list[End]:
        """Return the workers that have ended, waiting up to `seconds` for one, or for the libraries."""
        if not self._processes and self._warm_up is not None and self._warm_up.is_alive():
            self._warm_up.join(seconds)
            return []
        run_ids = {process.sentinel: run_id for run_id, process in self._processes.items()}
        return [self._end(run_ids[sentinel]) for sentinel in wait(list(run_ids), seconds) if isinstance(sentinel, int)]

    def close(self) -> None:
        """Kill the workers that still live."""
        for run_id in list(self._processes):
            self.signal(run_id, signal.SIGKILL)  # one that does not lead its session yet
            self._end(run_id)

    def _end(self, run_id: str) -> End:
        process = self._processes.pop(run_id)
        assert process.pid is not None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)  # what it left behind; all of it where the fork server died
        process.join()
        code = process.exitcode
        process.close()
        if code is None or code == _SERVER_DIED:
            return End(run_id, -signal.SIGKILL, "the process that forks the workers ended")
        return End(run_id, code)


def _modules_of_main() -> list[str]:
    """What a script that was started by its path imports from: every worker imports that script again."""
    main = sys.modules["__main__"]
    names = {getattr(value, "__module__", None) for value in vars(main).values()} if main.__spec__ is None else set()
    return sorted(name for name in names if isinstance(name, str) and name in sys.modules and name != "__main__")


@contextlib.contextmanager
def _environment(values: Mapping[str, str]) -> Iterator[None]:
    """Have these in the environment for a while."""
    old = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in old.items():
            os.environ.pop(name) if value is None else os.environ.update({name: value})


def _work(entry: str, run_dir: Path, attempt_dir: Path, environment: Mapping[str, str]) -> NoReturn:
    """The life of a worker: own session, log files, environment and lock, then the entry."""
    os.setsid()
    threading.Thread(target=_die_with_supervisor, daemon=True).start()
    _redirect(0, "/dev/null", os.O_RDONLY)
    for number, name in ((1, layout.STDOUT), (2, layout.STDERR)):
        _redirect(number, str(attempt_dir / name), os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    sys.stdout = os.fdopen(1, "w", buffering=1, closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, closefd=False)
    os.environ.clear()
    os.environ.update(environment)
    for number in (*STOP_SIGNALS, SUPERVISOR_DIED):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, STOP_SIGNALS)
    try:
        run = RunDir(run_dir)
        with run.worker_lock(_WAIT_FOR_OLD_WORKER_SECONDS):
            run.remove_leftovers()
            module, _, function = entry.partition(":")
            code = int(getattr(importlib.import_module(module), function)(run.path))
    except Exception as error:
        code = _exit_code(error)
    sys.stdout.flush()
    sys.stderr.flush()
    # Python's own end takes the interpreter apart object by object, and so copies every page that this fork shares: 0.3 s a run.
    os._exit(code)


def _die_with_supervisor() -> None:
    if (supervisor := parent_process()) is not None:
        wait([supervisor.sentinel])
    os.killpg(0, signal.SIGKILL)


def _exit_code(error: Exception) -> int:
    """Write the error to the worker's log, in a line where it names its cause and fix, and return the code that it ends with."""
    # Of what the store does not write: a record, a data set's cache.
    if isinstance(error, OSError) and error.errno in FULL:
        sys.stderr.write(f"no space left ({error}); free space, then run the same command again\n")
        return EXIT_STORE
    if isinstance(error, StoreError | ConfigError):
        sys.stderr.write(f"{error}\n")
        return EXIT_STORE if isinstance(error, StoreFull | StoreReadOnly) else EXIT_REFUSED
    traceback.print_exception(error)
    return 1


def _redirect(number: int, path: str, flags: int) -> None:
    descriptor = os.open(path, flags, 0o644)
    os.dup2(descriptor, number)
    os.close(descriptor)

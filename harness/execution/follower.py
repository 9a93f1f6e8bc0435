"""The supervisor's end of the follower: start it, tell it which runs begin and end, and never wait for it."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from harness.execution.progress import Progress, Relay
from harness.execution.supervise.process import python_path
from harness.store import ResultStore

PATIENCE_SECONDS = 30.0


@contextmanager
def tracked(progress: Progress, store: ResultStore, wanted: bool) -> Iterator[Progress]:
    """`progress`, with a follower of all runs that start beside it if `wanted`. Its log: `cache/tracking/follower-<pid>.log`.

    At the end the follower gets `PATIENCE_SECONDS` to send the rest and is killed then: the store has everything, and
    `harness sync` sends it later.
    """
    if not wanted:
        yield progress
        return
    follower = _Follower(progress, store)
    try:
        yield follower
    finally:
        follower.end()


class _Follower(Relay):
    """Tells a process, too, which runs begin and end."""

    def __init__(self, display: Progress, store: ResultStore) -> None:
        super().__init__(display)
        self._store = store
        log = store.cache_dir("tracking") / f"follower-{os.getpid()}.log"
        with open(log, "wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "harness.tracking._follow"],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env={**os.environ, "PYTHONPATH": python_path()},
                start_new_session=True,
            )
        assert self._process.stdin is not None
        self._pipe = self._process.stdin
        os.set_blocking(self._pipe.fileno(), False)

    def started(self, name: str, run_id: str, attempt: int) -> None:
        super().started(name, run_id, attempt)
        self._tell("run", run_id)

    def ended(self, name: str, run_id: str, outcome: str, detail: str) -> None:
        super().ended(name, run_id, outcome, detail)
        self._tell("ended", run_id)

    def _tell(self, event: str, run_id: str) -> None:
        """One line; lost where the process is gone or has stopped reading (`harness sync` sends these runs later)."""
        line = json.dumps({event: str(self._store.run(run_id).path.resolve())}).encode() + b"\n"
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            os.write(self._pipe.fileno(), line)

    def end(self) -> None:
        """Let the process send the rest."""
        with contextlib.suppress(BrokenPipeError):
            self._pipe.close()
        try:
            self._process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

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
    follower = _Follower(store)
    try:
        yield _Told(progress, follower)
    finally:
        follower.close()


class _Follower:
    def __init__(self, store: ResultStore) -> None:
        self.store = store
        directory = store.cache_dir("tracking")
        environment = {**os.environ, "PYTHONPATH": python_path()}
        log = directory / f"follower-{os.getpid()}.log"
        with open(log, "wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "harness.tracking._follow"],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
            )
        assert self._process.stdin is not None
        self._pipe = self._process.stdin.fileno()
        os.set_blocking(self._pipe, False)

    def tell(self, event: str, run_id: str) -> None:
        """One line; lost where the follower is gone or has stopped reading (`harness sync` sends these runs later)."""
        line = json.dumps({event: str(self.store.run(run_id).path.resolve())}).encode() + b"\n"
        with contextlib.suppress(BlockingIOError, BrokenPipeError):
            os.write(self._pipe, line)

    def close(self) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(PATIENCE_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


class _Told(Relay):
    """Tells the follower, too, which runs begin and end."""

    def __init__(self, display: Progress, follower: _Follower) -> None:
        super().__init__(display)
        self._follower = follower

    def started(self, name: str, run_id: str, attempt: int) -> None:
        super().started(name, run_id, attempt)
        self._follower.tell("run", run_id)

    def ended(self, name: str, run_id: str, outcome: str, detail: str) -> None:
        super().ended(name, run_id, outcome, detail)
        self._follower.tell("ended", run_id)

"""verl's trainer as a child process: its own process group, its own log, ended with its whole group."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.store.log_tail import read_tail

LOG = "verl.log"
_PR_SET_PDEATHSIG = 1
_GRACE_SECONDS = 60.0


class VerlFailed(RuntimeError):
    """verl ended with an error; the message has the last lines of its log."""


class Child:
    """A started process. It dies with this one, however this one dies."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
        self._log = log
        with log.open("ab") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=dict(environment),
                start_new_session=True,
                preexec_fn=_die_with_parent,
            )

    @property
    def running(self) -> bool:
        """True until it ends."""
        return self._process.poll() is None

    def wait(self, seconds: float) -> bool:
        """Wait for its end at most so long; returns whether it runs on."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self.running

    def check(self) -> None:
        """Raise `VerlFailed` if it ended with an error."""
        code = self._process.returncode
        if code:
            how = f"exit code {code}" if code > 0 else f"killed by {signal.Signals(-code).name}"
            raise VerlFailed(f"verl ended with {how}; the end of {self._log}:\n{read_tail(self._log)}")

    def stop(self, grace_seconds: float = _GRACE_SECONDS) -> None:
        """SIGTERM to its group, and SIGKILL to what is left of it after the grace time."""
        self._signal(signal.SIGTERM)
        self.wait(grace_seconds)
        self._signal(signal.SIGKILL)
        self._process.wait()

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


def run_to_end(command: Sequence[str], environment: Mapping[str, str], log: Path) -> None:
    """Run a command of verl's environment. Raises `VerlFailed`."""
    child = Child(command, environment, log)
    try:
        while child.wait(1.0):
            pass
    finally:
        child.stop(0.0)
    child.check()


def _die_with_parent() -> None:
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)

"""Child processes of a worker: none outlives it."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_GRACE_SECONDS = 60.0


def die_with(parent: int, number: int = signal.SIGKILL) -> None:
    """Have the kernel send this process a signal when `parent` ends (Linux; elsewhere nothing does)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:  # it ended before the call
            os.kill(os.getpid(), signal.SIGKILL)


class Child:
    """A started process with a session of its own. When this process ends, however it ends, the child gets the signal `death`.

    Without `environment` and `log` the child has the environment and the output of this process.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str] | None = None,
        log: Path | None = None,
        *,
        death: int = signal.SIGKILL,
    ) -> None:
        with log.open("ab") if log else contextlib.nullcontext() as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
                preexec_fn=functools.partial(_prepare, os.getpid(), death),
            )

    @property
    def code(self) -> int | None:
        """The exit code, negative for the signal that ended it; None while it runs."""
        return self._process.poll()

    def wait(self, seconds: float) -> bool:
        """Wait for its end at most so long; returns whether it runs on."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)
        return self.code is None

    def stop(self, grace_seconds: float = _GRACE_SECONDS) -> None:
        """SIGTERM to its group, and SIGKILL to what is left of it after the grace time."""
        self._signal(signal.SIGTERM)
        self.wait(grace_seconds)
        self._signal(signal.SIGKILL)
        self._process.wait()

    def _signal(self, number: int) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, number)


def _prepare(parent: int, death: int) -> None:
    """Run in the child before its program."""
    die_with(parent, death)
    # Slurm warns every process of a step of its time limit; a child stops when it is asked to.
    for number in (signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)

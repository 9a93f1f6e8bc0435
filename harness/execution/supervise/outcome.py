"""The meaning of a worker process's end."""

from __future__ import annotations

import signal
from pathlib import Path

from harness.store.log_tail import read_tail

EXIT_INTERRUPTED = 75  # EX_TEMPFAIL: the worker was asked to stop and has written a checkpoint
# A scheduler may signal the workers themselves, before they listen for it.
_STOPS = (signal.SIGTERM, signal.SIGKILL, signal.SIGUSR1, signal.SIGUSR2, signal.SIGINT)


def classify(code: int, *, stopping: bool) -> str:
    """Outcome ("finished", "interrupted", "failed") of an exit code; negative is the signal that ended it.

    `stopping`: the supervisor had asked this worker to end, so dying of that signal is no failure.
    """
    if code == 0:
        return "finished"
    if code == EXIT_INTERRUPTED or (stopping and -code in _STOPS):
        return "interrupted"
    return "failed"


def describe_failure(code: int, stderr: Path) -> str:
    """Say how the worker ended, and the last lines it wrote to `stderr`, for the manifest and the summary."""
    if code >= 0:
        how = f"exit code {code}"
    else:
        known = -code in set(signal.Signals)
        how = f"killed by {signal.Signals(-code).name if known else f'signal {-code}'}"
        if -code == signal.SIGKILL:
            how += " (out of memory, or killed by hand)"
    tail = read_tail(stderr)
    return f"{how}; {tail}" if tail else f"{how}; it wrote nothing to {stderr.name}"

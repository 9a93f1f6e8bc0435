"""Progress of one long count on standard error: a line that rewrites itself on a terminal, a line now and then elsewhere."""

from __future__ import annotations

import sys
import time
from typing import TextIO

from harness.experiment.history import format_seconds

_TERMINAL_SECONDS, _LOG_SECONDS = 0.2, 10.0


class Counter:
    """Call it with (done, total); it prints `label: done/total, rate, time left` often enough and not more."""

    def __init__(self, label: str, stream: TextIO | None = None) -> None:
        self.label, self.stream = label, stream or sys.stderr
        self._start: tuple[float, int] | None = None
        self._next = 0.0

    def __call__(self, done: int, total: int) -> None:
        """Say how far it is; the last call has done == total."""
        now = time.monotonic()
        if self._start is None:
            self._start = (now, done)
        terminal = self.stream.isatty()
        if now < self._next and done < total:
            return
        self._next = now + (_TERMINAL_SECONDS if terminal else _LOG_SECONDS)
        text = f"{self.label}: {done}/{total}"
        seconds, more = now - self._start[0], done - self._start[1]
        if seconds > 0 and more > 0 and done < total:
            text += f", about {format_seconds((total - done) * seconds / more)} left"
        end = "\n" if done >= total or not terminal else ""
        self.stream.write(f"\r\033[K{text}{end}" if terminal else f"{text}\n")
        self.stream.flush()

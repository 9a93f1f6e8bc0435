"""The clock of one case in a process, read from outside."""

from __future__ import annotations

import sys
import time

_PROGRESS_SHARE = 0.1


class CaseClock:
    """Counts the processor time of one case from the moment that its process got it.

    A case has run out when its process has used `cpu_seconds`, or when it has gone `backstop_wall_seconds` without using a
    tenth of that: it is blocked or stopped. On a loaded machine a process still comes to its tenth, so the backstop does not
    end a case that only waits for a processor; ten times the backstop bounds the elapsed time of any case.

    Args:
        pid: the process.
        cpu_seconds: processor time that the case may use.
        backstop_wall_seconds: elapsed time without progress after which the case ends.
        now: elapsed seconds of a monotonic clock.
    """

    def __init__(self, pid: int, cpu_seconds: float, backstop_wall_seconds: float, now: float) -> None:
        self._pid = pid
        self._limit = cpu_seconds
        self._backstop = backstop_wall_seconds
        self._taken = now
        self._before = processor_seconds(pid) or 0.0
        self._marked = 0.0
        self._marked_at = now

    def elapsed(self, now: float) -> float:
        """Elapsed seconds since the process took the case."""
        return now - self._taken

    def used(self, now: float) -> float:
        """Processor seconds since the process took the case."""
        total = processor_seconds(self._pid)
        if total is not None:
            return total - self._before
        return self._marked if sys.platform == "linux" else self.elapsed(now)

    def ran_out(self, used: float, now: float) -> bool:
        """Return whether the case must end, given what it has used by now."""
        if used - self._marked >= _PROGRESS_SHARE * self._limit:
            self._marked, self._marked_at = used, now
        return used >= self._limit or now - self._marked_at >= self._backstop


def processor_seconds(pid: int) -> float | None:
    """Processor time that a process has used, None when it is gone or when the platform cannot tell.

    The identifier is what clock_getcpuclockid(3) computes on Linux, for a clock of the whole process. The kernel counts it,
    so code that blocks signals or never returns to Python is counted as well.
    """
    if sys.platform != "linux":
        return None  # elapsed time stands in; a case is still graded a second time, alone
    try:
        return time.clock_gettime((~pid << 3) | 2)
    except OSError:
        return None

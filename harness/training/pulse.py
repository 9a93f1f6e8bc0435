"""What a run does inside a step: told to whoever watches where the step takes long, and there a stop is heard."""

import time
from collections.abc import Callable

from harness.model.ranks import Ranks

_QUIET_SECONDS, _EVERY_SECONDS = 2.0, 1.0  # before the first words of a phase, and between later ones


class Stopped(Exception):
    """A stop came inside a step, or before its evaluation; what was begun is dropped."""


class Pulse:
    """Is called by engine and updater with what is done of how much; says it now and then.

    Raises `Stopped` where a stop came and `may_stop`: on one process at any call, on several between rounds alone.
    """

    def __init__(self, ranks: Ranks) -> None:
        self._ranks, self._said, self.may_stop = ranks, "", True
        self.listen(lambda: False, lambda _: None)
        self.begin("")

    def listen(self, stop: Callable[[], bool], say: Callable[[str], None]) -> None:
        self._stop, self._say_text = stop, say

    def begin(self, phase: str, *, at_once: bool = False) -> None:
        """A phase begins; it is said `at_once` or when it takes long."""
        self.phase, self.counts = phase, dict[str, str]()
        self._due = time.monotonic() + _QUIET_SECONDS
        if at_once:
            self._say(phase)

    def _say(self, text: str) -> None:
        if text != self._said:
            self._said = text
            self._say_text(text)

    def __call__(self, unit: str, done: int, total: int) -> None:
        self.counts[unit] = f"{unit} {done} of {total}"
        if (now := time.monotonic()) >= self._due:
            self._due = now + _EVERY_SECONDS
            self._say(", ".join([self.phase, *self.counts.values()]))
        if self.may_stop and self._ranks.world == 1 and self._stop():
            raise Stopped

    def end_if_stopped(self) -> None:
        """Raise `Stopped` on all processes where a stop came to one. Collective."""
        if self.may_stop and self._ranks.any(self._stop()):
            raise Stopped

"""Exit codes of the command line, one meaning each for all verbs (docs/scripts.md)."""

from __future__ import annotations

import signal
from enum import IntEnum


class Exit(IntEnum):
    """The code that a verb ends with."""

    meaning: str

    def __new__(cls, code: int, meaning: str) -> Exit:
        member = int.__new__(cls, code)
        member._value_, member.meaning = code, meaning
        return member

    DONE = 0, "done: what was asked for is there"
    FOUND = 1, "a run failed, or the verb found what it looks for: a difference, a fault, a conflict"
    REFUSED = (
        2,
        "a configuration, an argument or the store is wrong; one line on standard error names the fix",
    )
    AGAIN = 75, "stopped, or the work is going on elsewhere: repeat the command"
    INTERRUPTED = 128 + signal.SIGINT, "interrupted (Ctrl-C); what is written stays"
    CUT_OFF = 128 + signal.SIGPIPE, "the reader of the output went away"

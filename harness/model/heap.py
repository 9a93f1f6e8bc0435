"""Memory that the allocator keeps although nothing uses it."""

from __future__ import annotations

import ctypes
import sys


def give_back() -> None:
    """Return free pages of glibc's heap to the system; elsewhere nothing happens.

    The activations of an update come in pieces that glibc keeps for the next one. What sampling takes would come on top of them.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)

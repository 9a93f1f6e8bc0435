"""This machine's processor, and the memory that its allocator keeps. Imports no torch."""

from __future__ import annotations

import ctypes
import functools
import platform
import sys
from dataclasses import dataclass
from pathlib import Path

AMD = "AuthenticAMD"
_CPUINFO = Path("/proc/cpuinfo")


@dataclass(frozen=True)
class Processor:
    """`vendor` is the x86 vendor string (`AuthenticAMD`, `GenuineIntel`), empty where there is none; `name` is for people."""

    vendor: str
    name: str


@functools.cache
def processor() -> Processor:
    return parse_cpuinfo(_CPUINFO.read_text() if _CPUINFO.exists() else "")


def parse_cpuinfo(text: str) -> Processor:
    """Vendor and name from the first processor of Linux's `/proc/cpuinfo`; the platform's words where the text has none."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        key, _, value = line.partition(":")
        fields.setdefault(key.strip(), value.strip())
    return Processor(
        fields.get("vendor_id", ""), fields.get("model name") or platform.processor() or "unknown"
    )


def trim_heap() -> None:
    """Return free pages of glibc's heap to the system; elsewhere nothing happens.

    The activations of an update come in pieces that glibc keeps for the next one. What sampling takes would come on top of them.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    if trim is not None:
        trim(0)

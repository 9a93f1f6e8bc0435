"""The end of a log file."""

from __future__ import annotations

from pathlib import Path

_TAIL_BYTES = 8192
_TAIL_LINES = 30


def read_tail(path: Path) -> str:
    """The last lines of a log, empty if there are none."""
    if not path.exists():
        return ""
    with open(path, "rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        text = file.read().decode(errors="replace")
    return "\n".join(text.strip().splitlines()[-_TAIL_LINES:])

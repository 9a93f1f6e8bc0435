"""A verb run in this process, and its words."""

from __future__ import annotations

from typing import Protocol


class Said(Protocol):
    """Runs a verb, which must end with `code` and no traceback; returns what it printed, of a refusal on the stream of errors alone."""

    def __call__(self, *arguments: str, code: int = 0) -> str: ...

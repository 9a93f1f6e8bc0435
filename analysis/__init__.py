"""Answers from the result store: statistics, tables, figures, report, and the Python front (docs/python.md).

May import: configuration, engagement, evaluation, experiment, statistics, store, verify. Imports no torch.
"""

from __future__ import annotations

import importlib
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from analysis.api import *  # noqa: F403


def __dir__() -> list[str]:
    return sorted(importlib.import_module("analysis.api").__all__)


def __getattr__(name: str) -> Any:
    """A name of the front, which is imported when it is first used; ``__all__`` is its list."""
    if name == "__all__" or (not name.startswith("_") and find_spec(f"analysis.{name}") is None):
        front = importlib.import_module("analysis.api")
        if name in ("__all__", *front.__all__):
            return getattr(front, name)
    raise AttributeError(f"module 'analysis' has no attribute {name!r}")

"""The error that ends an engine, as opposed to a request that it refuses."""

from __future__ import annotations


class EngineDied(RuntimeError):
    """The engine cannot answer any more: its process or loop is gone, or it holds half of a weight update. Build it anew."""

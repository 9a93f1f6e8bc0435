"""How long ranks wait for one another."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from harness.model import ranks


def test_values_may_take_hours_and_tensors_minutes(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rank in the wrong collective is found after minutes; a download on one rank may take longer."""
    waits: dict[str, Any] = {}
    monkeypatch.setenv("RANK", "0")
    monkeypatch.setattr(ranks.dist, "is_initialized", lambda: False)
    monkeypatch.setattr(ranks.dist, "init_process_group", lambda *_, timeout: waits.update(tensors=timeout))
    monkeypatch.setattr(ranks.dist, "new_group", lambda *, backend, timeout: waits.update(objects=timeout))
    ranks.open_group()
    ranks.cpu_group("a test")
    ranks.cpu_group.cache_clear()
    assert waits == {"tensors": timedelta(minutes=20), "objects": timedelta(hours=4)}

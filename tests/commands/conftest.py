"""What every test of the verbs has: what stands for the supervisor."""

from __future__ import annotations

import pytest


@pytest.fixture
def launched(monkeypatch):
    """Takes what stands for the supervisor."""
    return lambda launch: monkeypatch.setattr(
        "harness.execution.supervisor.supervise", lambda work, progress, **_: launch(work)
    )

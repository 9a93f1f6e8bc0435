"""The device that made a run. It is no part of a run's identity, so one store can hold runs of several."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

CPU = "cpu"


def devices_of(manifest: Mapping[str, Any] | None) -> tuple[str, ...]:
    """List every device that an attempt at the run had, sorted: `cpu`, or a GPU's name; empty where the manifest does not say.

    A run that was stopped on one and resumed on another has both.
    """
    attempts = (manifest or {}).get("attempts", [])
    return tuple(sorted({str(attempt["device"]) for attempt in attempts if attempt.get("device")}))

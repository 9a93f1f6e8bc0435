"""Which device made a run. It is no part of a run's identity, so one store can hold runs of several."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

CPU = "cpu"


def devices_of(manifest: Mapping[str, Any] | None) -> tuple[str, ...]:
    """Every device that an attempt at the run had, sorted: `cpu`, or a GPU's name; empty where the manifest does not say.

    A run that was stopped on one and resumed on another has both.
    """
    manifest = manifest or {}
    names = {_device(attempt, manifest.get("provenance", {})) for attempt in manifest.get("attempts", [])}
    return tuple(sorted(names - {""}))


def _device(attempt: Mapping[str, Any], provenance: Mapping[str, Any]) -> str:
    if "device" in attempt:
        return str(attempt["device"])
    if "gpus" not in attempt:
        return ""
    if not attempt["gpus"]:
        return CPU
    # Before the device was recorded: the first GPU of the machine, `name, driver`.
    known = provenance.get("hardware", {}).get("gpus") or ["gpu"]
    return str(known[0]).split(",")[0]

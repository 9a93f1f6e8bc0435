"""Runs that are finished already, but on another kind of device than the one that is asked for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from harness.configuration.runtime import RuntimeConfig
from harness.store import ResultStore
from harness.store.device import CPU, devices_of


def found_elsewhere(store: ResultStore, run_ids: Iterable[str], runtime: RuntimeConfig) -> str:
    """One sentence with the way to a comparison of its own; empty where all finished runs are of the device that is asked for."""
    wanted = "a GPU" if runtime.device == "cuda" else CPU
    others: Counter[str] = Counter()
    for run_id in run_ids:
        manifest = store.run(run_id).manifest() or {}
        devices = devices_of(manifest)
        if manifest.get("status") == "finished" and any((name == CPU) != (wanted == CPU) for name in devices):
            others[" and ".join(devices)] += 1
    if not others:
        return ""
    listed = ", ".join(f"{count} on {name}" for name, count in sorted(others.items()))
    name = "gpu" if runtime.device == "cuda" else CPU
    return (
        f"runs that count as finished here were not made on {wanted}: {listed}. The device is no part of a run's identity; for a "
        f"comparison on {wanted} alone add runtime.results={store.root}-{name}"
    )

"""The words to a tracker: about a run at its beginning, then row by row."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from harness.configuration.families import TRACKING
from harness.configuration.registry import implementation
from harness.store import RunDir, layout
from harness.store.atomic import write_file

_NOT_METRICS = ("step", "attempt")


@dataclass(frozen=True)
class About:
    """A run as trackers present it. `sent` is the newest step that the tracker already has, 0 for none."""

    run_id: str
    experiment: str
    arm: str
    arm_id: str
    seed: int
    config: Mapping[str, Any]
    provenance: Mapping[str, Any]
    results: Path
    sent: int = 0


def absent(trackers: Mapping[str, Any]) -> dict[str, str]:
    """Trackers whose package is not installed, each with what to do."""
    found = {}
    for name, config in trackers.items():
        module = implementation(TRACKING, config)
        needed = getattr(module, "MODULES", ())
        missing = [package for package in needed if importlib.util.find_spec(package) is None]
        if missing:
            extra = f"-e '.[{module.EXTRA}]'" if hasattr(module, "EXTRA") else missing[0]
            found[name] = f"{missing[0]} is not installed: pip install {extra}"
    return found


class Sink(Protocol):
    """One run in one tracker. Any method may raise: the follower drops the sink and goes on."""

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        """Take in one step."""
        ...

    def close(self, finished: bool) -> None:
        """The run ended, or the follower does."""
        ...


def about(run: RunDir, sent: int) -> About:
    """Read it from the run's directory."""
    manifest = run.manifest() or {}
    labels = manifest.get("labels", {})
    return About(
        run_id=run.run_id,
        experiment=labels.get("experiment", "runs"),
        arm=labels.get("arm", manifest.get("arm_id", run.run_id)),
        arm_id=manifest.get("arm_id", ""),
        seed=int(manifest.get("seed", 0)),
        config=run.settings(),
        provenance=manifest.get("provenance", {}),
        results=run.path.parent.parent,
        sent=sent,
    )


def metrics_of(row: Mapping[str, Any]) -> dict[str, float]:
    """The numbers of a metrics row that are worth a curve."""
    return {
        name: float(value)
        for name, value in row.items()
        if name not in _NOT_METRICS and isinstance(value, int | float) and not isinstance(value, bool)
    }


def path_part(name: str) -> str:
    """A name as one component of a path."""
    return re.sub(r"[^A-Za-z0-9._=+-]+", "_", name).lstrip(".") or "_"


def sent_step(run: RunDir, tracker: str, destination: str) -> int:
    """The newest step that a tracker has acknowledged at this destination, 0 for none."""
    try:
        return int(_read_mark(run, tracker)["sent"][destination])
    except (KeyError, TypeError, ValueError):
        return 0


def mark_sent(run: RunDir, tracker: str, step: int, destination: str) -> None:
    """Remember how far a tracker is at this destination; others keep their marks."""
    before = _read_mark(run, tracker).get("sent")
    sent = {**(before if isinstance(before, dict) else {}), destination: step}
    write_file(_mark(run, tracker), json.dumps({"sent": sent}).encode())


def _read_mark(run: RunDir, tracker: str) -> dict[str, Any]:
    try:
        mark = json.loads(_mark(run, tracker).read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return mark if isinstance(mark, dict) else {}


def _mark(run: RunDir, tracker: str) -> Path:
    return run.path / layout.TRACKING / f"{path_part(tracker)}.json"

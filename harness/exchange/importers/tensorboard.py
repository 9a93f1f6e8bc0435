"""TensorBoard's event files, read by TensorBoard: a file, or the folder of a run. The metrics are the trainer's that wrote them."""

from __future__ import annotations

import importlib
import logging
from pathlib import Path
from typing import Any

from harness.exchange.importers._log import ForeignLogError, Log, log_of

EVENTS = "*tfevents*"


def read(path: Path, run: str | None = None, *, trainer: str | None = None) -> Log:
    """Read one run; `run` chooses a folder below `path` where several hold scalars. Raises `ForeignLogError`."""
    if not path.exists():
        raise ForeignLogError(f"cannot read {path}: there is no such file")
    places = [path] if path.is_file() else sorted({file.parent for file in path.rglob(EVENTS)})
    if not places:
        raise ForeignLogError(f"{path} holds no event files ({EVENTS})")
    found = {str(place.relative_to(path)): rows for place in places if (rows := _rows(place))}
    if not found:
        raise ForeignLogError(
            f"{path}: its event files hold no scalars; a torn or empty file says nothing of the run"
        )
    if run is None and len(found) > 1:
        raise ForeignLogError(
            f"{path} holds {len(found)} runs; choose one with run=: {', '.join(found)}, or take all with folder="
        )
    if run is not None and run not in found:
        raise ForeignLogError(f"{path} has no run {run!r}; runs: {', '.join(found)}")
    return log_of(found[run] if run is not None else next(iter(found.values())), path, named=trainer)


def _rows(place: Path) -> list[dict[str, Any]]:
    """Return all scalars of a file or of the files of one folder, a row a step; of steps that a restart repeated the later ones."""
    try:
        events = importlib.import_module("tensorboard.backend.event_processing.event_accumulator")
    except ImportError as error:
        raise ForeignLogError(f"{place} needs TensorBoard's reader: pip install -e '.[track]'") from error
    logging.getLogger("tensorboard").setLevel(logging.ERROR)  # it tells every purge
    accumulator = events.EventAccumulator(str(place), size_guidance={events.SCALARS: 0})
    accumulator.Reload()
    rows: dict[int, dict[str, Any]] = {}
    for tag in accumulator.Tags()[events.SCALARS]:
        for event in accumulator.Scalars(tag):
            rows.setdefault(event.step, {"_step": event.step})[tag] = event.value
    return list(rows.values())

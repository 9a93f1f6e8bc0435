"""TensorBoard event files, written without torch: one folder per run, `<directory>/<experiment>/<arm>/seed-<n>-<run id>`.

The id's first eight characters keep runs apart that share the names, such as those of an experiment repeated with other overrides.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.tracking._feed import About, path_part

MODULES = ("tensorboard",)
EXTRA = "track"


@dataclass
class Config:
    """`directory`: where event files go; null: `tensorboard` under the results root."""

    kind: str = "tensorboard"
    directory: str | None = None


def open_sink(config: Config, about: About) -> _Sink:
    """Event files of a run. Raises `ModuleNotFoundError` where TensorBoard is not installed."""
    root = Path(config.directory) if config.directory else about.results / "tensorboard"
    folder = root / path_part(about.experiment) / path_part(about.arm)
    return _Sink(folder / f"seed-{about.seed}-{about.run_id[:8]}")


class _Sink:
    def __init__(self, folder: Path) -> None:
        writer = importlib.import_module("tensorboard.summary.writer.event_file_writer")
        self._events: Any = importlib.import_module("tensorboard.compat.proto.event_pb2")
        self._summaries: Any = importlib.import_module("tensorboard.compat.proto.summary_pb2")
        self._writer = writer.EventFileWriter(str(folder))
        # What an earlier attempt wrote is shown no more: all rows come again.
        start = self._events.SessionLog(status=self._events.SessionLog.START)
        self._writer.add_event(self._events.Event(wall_time=time.time(), step=0, session_log=start))

    def log(self, step: int, metrics: Mapping[str, float]) -> None:
        values = [self._summaries.Summary.Value(tag=tag, simple_value=value) for tag, value in metrics.items()]
        summary = self._summaries.Summary(value=values)
        self._writer.add_event(self._events.Event(wall_time=time.time(), step=step, summary=summary))

    def close(self, finished: bool) -> None:
        self._writer.close()

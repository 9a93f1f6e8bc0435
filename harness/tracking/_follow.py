"""The process that feeds trackers: `python -m harness.tracking._follow`, runs by name on standard input.

It reads what runs write to the store and never the other way round. One JSON line per event: `{"run": path}` when a run starts,
`{"ended": path}` when it ends; the end of the input means that nothing more will come.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO

from harness.configuration.families import TRACKING, own_members
from harness.configuration.loader import load_dataclass
from harness.configuration.registry import member
from harness.store import RunDir, layout
from harness.store.metrics_log import new_rows
from harness.tracking._sink import Sink, about, mark_sent, metrics_of, sent_step

_POLL_SECONDS = 1.0


class Followed:
    """One run and its sinks."""

    def __init__(self, path: Path) -> None:
        self.run = RunDir(path)
        self.ended = False
        self._offset = 0
        self._sinks: dict[str, tuple[Sink, str]] = {}
        self._sent: dict[str, int] = {}
        runtime = self.run.settings()["runtime"]
        own_members(map(Path, runtime.get("config_dir", ())))
        for name, values in runtime.get("trackers", {}).items():
            with _reported(f"{self.run.run_id}: tracker {name} not opened"):
                module = member(TRACKING, values["kind"])
                config = load_dataclass(module.Config, values, f"runtime.trackers.{name}")
                destination = module.destination(config)
                self._sent[name] = sent_step(self.run, name, destination)
                sink = module.open_sink(config, about(self.run, self._sent[name]))
                self._sinks[name] = (sink, destination)

    def advance(self) -> None:
        """Send the rows that are new."""
        rows, self._offset = new_rows(self.run.path / layout.METRICS, self._offset)
        for row in rows:
            for name in list(self._sinks):
                if int(row["step"]) <= self._sent[name]:
                    continue
                with _reported(f"{self.run.run_id}: tracker {name} dropped"):
                    self._sinks[name][0].log(int(row["step"]), metrics_of(row))
                    self._sent[name] = int(row["step"])
                    continue
                del self._sinks[name]

    def close(self) -> None:
        """Send what is left, say goodbye, and remember how far each tracker is."""
        self.advance()
        finished = self.run.status == "finished"
        for name, (sink, destination) in self._sinks.items():
            with _reported(f"{self.run.run_id}: tracker {name} not closed"):
                sink.close(finished)
                mark_sent(self.run, name, self._sent[name], destination)
        self._sinks.clear()


@contextmanager
def _reported(what: str) -> Iterator[None]:
    """Write an exception to the log and go on: no tracker may end the others."""
    try:
        yield
    except Exception as error:
        sys.stderr.write(f"{what}: {error}\n")
        traceback.print_exception(error)
        sys.stderr.flush()


def main(stream: TextIO) -> int:
    """Follow until the input ends and every run is sent. Signals meant for the job are ignored: the input's end is the sign."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)
    events: list[dict[str, str]] = []
    over = threading.Event()

    def read() -> None:
        try:
            for line in stream:
                with _reported("a line of the input is lost"):
                    events.append(json.loads(line))
        finally:
            over.set()

    threading.Thread(target=read, daemon=True).start()
    followed: dict[str, Followed] = {}
    while True:
        last = over.is_set()
        while events:
            _take(events.pop(0), followed)
        for path in list(followed):
            with _reported(f"{path}: not read"):
                if followed[path].ended or last:
                    followed.pop(path).close()
                else:
                    followed[path].advance()
        if last and not events:
            return 0
        over.wait(_POLL_SECONDS)


def _take(event: dict[str, str], followed: dict[str, Followed]) -> None:
    path = event.get("run") or event["ended"]
    if path not in followed:
        with _reported(f"{path}: not followed"):
            followed[path] = Followed(Path(path))
    if "ended" in event and path in followed:
        followed[path].ended = True


if __name__ == "__main__":
    sys.exit(main(sys.stdin))

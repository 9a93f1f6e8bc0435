"""Progress of a sweep: a live table on a terminal, plain lines elsewhere; a status table from the store."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Column, Table
from rich.text import Text

from harness.experiment.duration import format_seconds
from harness.store import ResultStore, layout
from harness.store.progress import STARTING, position, run_state

_LIVE_SECONDS = 0.5
_HEARTBEAT_SECONDS = 10.0
_ERROR_LINES = 3


@dataclass
class RunProgress:
    """One running run. The step rate is measured over this attempt, from the first step seen."""

    name: str
    total: int | None
    step: int = 0
    reward: float | None = None
    phase: str = STARTING
    _first: tuple[int, float] | None = None
    _latest: float = 0.0

    def observe(self, row: Mapping[str, Any] | None, now: float, phase: str = "") -> None:
        """Take in the newest metrics row (None before the first step) and phase at monotonic time `now` in seconds."""
        self.phase = phase or self.phase
        if row is None or (self._first is not None and row["step"] == self.step):
            return
        self.step, self.reward, self._latest = row["step"], row.get("reward_mean"), now
        if self._first is None or row["step"] < self._first[0]:
            self._first = (row["step"], now)

    @property
    def where(self) -> str:
        """The step of all steps, and what the run does if that is not training: `12/60`."""
        silent = self.phase == STARTING and self.step  # a backend that says nothing
        return position(self.step, self.total, "" if silent or self.phase == layout.TRAINING else self.phase)

    @property
    def steps_per_second(self) -> float | None:
        """The rate of this attempt, None until two different steps were seen."""
        if self._first is None or self._latest <= self._first[1] or self.step <= self._first[0]:
            return None
        return (self.step - self._first[0]) / (self._latest - self._first[1])

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds to the last step, None if unknown."""
        rate = self.steps_per_second
        return None if rate is None or self.total is None else max(0, self.total - self.step) / rate


@dataclass
class Snapshot:
    """The state of a sweep. `waiting_steps`: steps of runs not yet started, None if one does not tell."""

    total: int
    finished: int
    failed: int
    waiting: int
    waiting_steps: int | None
    running: Sequence[RunProgress] = field(default_factory=list)
    stopping: bool = False

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds to the end of the sweep at the summed rate of what runs now, None if unknown."""
        rates = [run.steps_per_second for run in self.running]
        totals = [run.total for run in self.running]
        if self.waiting_steps is None or not rates or None in rates or None in totals:
            return None
        left = sum(max(0, (run.total or 0) - run.step) for run in self.running) + self.waiting_steps
        return left / sum(rate for rate in rates if rate is not None)

    def headline(self) -> str:
        """One line: counts and the estimate."""
        parts = [f"{self.finished}/{self.total} finished", f"{len(self.running)} running"]
        parts += [f"{self.waiting} waiting"] if self.waiting else []
        parts += [f"{self.failed} failed"] if self.failed else []
        if self.stopping:
            parts.append("stopping: workers write a checkpoint (once more to kill them)")
        elif self.seconds_left is not None:
            parts.append(f"about {format_seconds(self.seconds_left)} left")
        return ", ".join(parts)


class Progress:
    """Listens to a supervisor. This one says nothing; it is the base of those that do."""

    def begin(self, total: int, finished: int) -> None:
        """A sweep of `total` runs begins, of which `finished` need nothing."""

    def started(self, name: str, run_id: str, attempt: int) -> None:
        """A worker was asked for."""

    def ended(self, name: str, run_id: str, outcome: str, detail: str) -> None:
        """A run ended; `detail` says why if it failed."""

    def update(self, snapshot: Snapshot) -> None:
        """Called often, with the state of the sweep."""

    def show(self, text: str) -> None:
        """Lines for whoever watches, such as the table so far."""

    def close(self) -> None:
        """The sweep is over."""


class Relay(Progress):
    """Passes everything on to another listener; the base of those that do something beside it."""

    def __init__(self, inner: Progress) -> None:
        self._inner = inner

    def begin(self, total: int, finished: int) -> None:
        self._inner.begin(total, finished)

    def started(self, name: str, run_id: str, attempt: int) -> None:
        self._inner.started(name, run_id, attempt)

    def ended(self, name: str, run_id: str, outcome: str, detail: str) -> None:
        self._inner.ended(name, run_id, outcome, detail)

    def update(self, snapshot: Snapshot) -> None:
        self._inner.update(snapshot)

    def show(self, text: str) -> None:
        self._inner.show(text)

    def close(self) -> None:
        self._inner.close()


class PlainProgress(Progress):
    """One line per event and a heartbeat, for logs."""

    def __init__(self, stream: TextIO, heartbeat_seconds: float = _HEARTBEAT_SECONDS) -> None:
        self._stream, self._heartbeat = stream, heartbeat_seconds
        self._last = time.monotonic()

    def begin(self, total: int, finished: int) -> None:
        if total:  # a search begins without
            self._line(f"{total} runs, {finished} finished already")

    def started(self, name: str, run_id: str, attempt: int) -> None:
        again = f", attempt {attempt + 1}" if attempt else ""
        self._line(f"started {name} ({run_id}{again})")

    def ended(self, name: str, run_id: str, outcome: str, detail: str) -> None:
        self._line(f"{outcome} {name} ({run_id})" + _indented(detail))

    def update(self, snapshot: Snapshot) -> None:
        now = time.monotonic()
        if now - self._last >= self._heartbeat:
            self._last = now
            runs = "; ".join(f"{run.name} step {run.where}" for run in snapshot.running)
            self._line(snapshot.headline() + (f": {runs}" if runs else ""))

    def show(self, text: str) -> None:
        self._stream.write(text)
        self._stream.flush()

    def _line(self, text: str) -> None:
        stamp = datetime.now(UTC).strftime("%H:%M:%S")
        self._stream.write(f"[{stamp}] {text}\n")
        self._stream.flush()


class LiveProgress(Progress):
    """A table that redraws itself, for terminals; failures stay above it."""

    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._last = 0.0

    def begin(self, total: int, finished: int) -> None:
        self._live.start()

    def ended(self, name: str, run_id: str, outcome: str, detail: str) -> None:
        if outcome != "finished":
            self._live.console.print(Text(f"{outcome} {name} ({run_id})" + _indented(detail), style="red"))

    def update(self, snapshot: Snapshot) -> None:
        now = time.monotonic()
        if now - self._last >= _LIVE_SECONDS:
            self._last = now
            self._live.update(
                Group(_running_table(snapshot.running), Text(snapshot.headline())), refresh=True
            )

    def show(self, text: str) -> None:
        self._live.console.print(Text(text))

    def close(self) -> None:
        self._live.stop()


def progress_on(stream: TextIO = sys.stderr) -> Progress:
    """The progress display that suits `stream`."""
    return LiveProgress(Console(file=stream)) if stream.isatty() else PlainProgress(stream)


def status_table(store: ResultStore, run_ids: Iterable[str], *, finished: bool = False) -> RenderableType:
    """Show what the store says of these runs now: counts, runs (those that are `finished` if asked), why runs failed."""
    states = [run_state(store, run_id) for run_id in dict.fromkeys(run_ids)]
    counts = Counter(state.status for state in states)
    headline = ", ".join(f"{count} {status}" for status, count in sorted(counts.items())) or "no runs"
    table = Table(Column("run", min_width=16), "name", "status", "step", "reward", "left", box=None)
    for one in states:
        if one.status in ("waiting", "unreadable") or (one.status == "finished" and not finished):
            continue
        left = format_seconds(one.seconds_left)
        table.add_row(one.run_id, Text(one.name), one.status, one.where, _number(one.reward), left)
    problems = [
        f"{one.run_id} {one.name}: {one.problem}" if one.name else one.problem
        for one in states
        if one.problem
    ]
    return Group(Text(headline), *([table] if table.row_count else []), *map(Text, problems))


def _running_table(running: Sequence[RunProgress]) -> Table:
    table = Table("run", "step", "reward", "left", box=None, pad_edge=False)
    for run in running:
        table.add_row(Text(run.name), run.where, _number(run.reward), format_seconds(run.seconds_left))
    return table


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _indented(detail: str) -> str:
    lines = detail.splitlines()[-_ERROR_LINES:]
    return "".join(f"\n    {line}" for line in lines)

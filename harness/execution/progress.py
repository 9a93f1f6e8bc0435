"""Progress of a sweep: a live table on a terminal, plain lines elsewhere; a status table from the store."""

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TextIO

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, TextColumn
from rich.progress import Progress as Bars
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from harness.configuration.numbers import format_count, format_seconds
from harness.store.foreign_text import raw_stream, visible
from harness.store.reader import RunState

_LIVE_SECONDS = 0.5
_HEARTBEAT_SECONDS = 10.0
_ERROR_LINES = 3


class Terminal(Console):
    """A console that sends its own control characters, and shows those of the texts that it is given."""

    def __init__(self, stream: TextIO | None = None, **settings: Any) -> None:
        super().__init__(file=raw_stream(stream or sys.stdout), **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(visible(segment.text), segment.style)


@dataclass
class Snapshot:
    """The state of a sweep. `waiting_steps`: steps of runs not yet started, None if one does not tell."""

    total: int
    finished: int
    failed: int
    waiting: int
    waiting_steps: int | None
    running: Sequence[RunState] = field(default_factory=list)
    stopping: bool = False

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds to the end of the sweep at the pace of what runs now, None before the first step of any run.

        A run that has made no step yet counts as fast as the others.
        """
        paces = [run.pace for run in self.running if run.pace]
        step_counts = [self.waiting_steps, *(run.steps_left if run.step else run.total for run in self.running)]
        if not paces or None in step_counts:
            return None
        steps_left = sum(steps for steps in step_counts if steps is not None)
        return steps_left / (sum(1 / pace for pace in paces) * len(self.running) / len(paces))

    @property
    def completed_runs(self) -> float:
        """Runs that are done, those under way by the share of their steps."""
        return self.finished + self.failed + sum((run.step or 0) / run.total for run in self.running if run.total)

    def headline(self) -> str:
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

    def start_run(self, name: str, run_id: str, attempt: int) -> None:
        """A worker was asked for."""

    def end_run(self, name: str, run_id: str, outcome: str, detail: str) -> None:
        """A run ended; `detail` says why if it failed."""

    def update(self, snapshot: Snapshot) -> None:
        """Called often, with the state of the sweep."""

    def show(self, text: str) -> None:
        """Lines for whoever watches, such as what runs warn of."""

    def close(self) -> None:
        """The sweep is over."""


class PlainProgress(Progress):
    def __init__(self, stream: TextIO, heartbeat_seconds: float = _HEARTBEAT_SECONDS) -> None:
        self._stream, self._heartbeat = stream, heartbeat_seconds
        self._last = time.monotonic()

    def begin(self, total: int, finished: int) -> None:
        self._line(f"{format_count(total)}, {finished} finished already")

    def start_run(self, name: str, run_id: str, attempt: int) -> None:
        suffix = f", attempt {attempt + 1}" if attempt else ""
        self._line(f"started {name} ({run_id}{suffix})")

    def end_run(self, name: str, run_id: str, outcome: str, detail: str) -> None:
        self._line(f"{outcome} {name} ({run_id})" + _indent(detail))

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
    def __init__(self, console: Console) -> None:
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._last = 0.0

    def begin(self, total: int, finished: int) -> None:
        self._live.start()

    def end_run(self, name: str, run_id: str, outcome: str, detail: str) -> None:
        if outcome != "finished":
            self._live.console.print(Text(f"{outcome} {name} ({run_id})" + _indent(detail), style="red"))

    def update(self, snapshot: Snapshot) -> None:
        now = time.monotonic()
        if now - self._last >= _LIVE_SECONDS:
            self._last = now
            self._live.update(Group(_bars(snapshot), Text(snapshot.headline())), refresh=True)

    def show(self, text: str) -> None:
        self._live.console.print(Text(text))

    def close(self) -> None:
        self._live.stop()


class Hooked(Progress):
    """Another progress; beside it `start` is called with a run's id when it begins, and `end` when it has ended for good."""

    def __init__(self, shown: Progress, start: Callable[[str], None], end: Callable[[str], None]) -> None:
        self._start, self._end = start, end
        self._open: dict[str, None] = {}
        self.begin, self.update, self.show = shown.begin, shown.update, shown.show  # type: ignore[method-assign]
        self._shown = shown

    def start_run(self, name: str, run_id: str, attempt: int) -> None:
        self._shown.start_run(name, run_id, attempt)
        if run_id not in self._open:  # a second attempt is no second job
            self._open[run_id] = None
            self._start(run_id)

    def end_run(self, name: str, run_id: str, outcome: str, detail: str) -> None:
        self._shown.end_run(name, run_id, outcome, detail)
        if outcome != "failed" and run_id in self._open:
            del self._open[run_id]
            self._end(run_id)

    def close(self) -> None:
        self._shown.close()
        for run_id in self._open:
            self._end(run_id)


def _bars(snapshot: Snapshot) -> RenderableType:
    """A bar for each run under way, by its steps, and one for all runs."""
    names = TextColumn(
        "{task.description}", markup=False, table_column=Column(ratio=1, no_wrap=True, overflow="ellipsis")
    )
    numbers = (TextColumn(f"{{task.fields[{key}]}}", markup=False) for key in ("step", "reward", "eta"))
    bars = Bars(names, BarColumn(bar_width=20), *numbers, expand=True)
    for run in snapshot.running:
        step, reward, eta = _numbers(run)
        reward = f"reward {reward}" if reward else ""
        bars.add_task(run.name, total=run.total, completed=run.step or 0, step=step, reward=reward, eta=eta)
    percent = f"{100 * snapshot.completed_runs / max(snapshot.total, 1):.0f} %"
    eta = format_seconds(snapshot.seconds_left)
    total, position = 100 * snapshot.total, round(100 * snapshot.completed_runs)
    bars.add_task("all runs", total=total, completed=position, step=percent, reward="", eta=eta)
    return bars


def progress_on(stream: TextIO | None = None) -> Progress:
    stream = stream or sys.stderr
    return LiveProgress(Terminal(stream)) if stream.isatty() else PlainProgress(stream)


def status_table(states: Sequence[RunState], *, finished: bool = False) -> RenderableType:
    """Show runs as they are now: counts, runs (those that are `finished` if asked), why runs failed."""
    experiments, headlines = dict.fromkeys(state.experiment for state in states), list[str]()
    several = len(experiments) > 1
    for name in ["", *filter(None, experiments)] if several else [""]:
        counts = sorted(Counter(one.status for one in states if name in ("", one.experiment)).items())
        headlines.append(f"{name}: " * bool(name) + (", ".join(f"{n} {status}" for status, n in counts) or "no runs"))
    # Names wrap; the other columns are never cut.
    names = [Column(head, overflow="fold") for head in ["experiment"] * several + ["arm"]]
    run, *others = (Column(head, no_wrap=True) for head in ("run", "seed", "status", "step", "reward", "left"))
    table = Table(run, *names, *others, box=None, pad_edge=False)
    for state in states:
        if state.status in ("waiting", "unreadable") or (state.status == "finished" and not finished):
            continue
        experiment = [Text(state.experiment)] * several
        arm, _, seed = state.name.rpartition(" seed ")
        table.add_row(state.run_id, *experiment, Text(arm), seed, state.status, *_numbers(state))
    problems = [
        f"{state.run_id} {state.experiment} {state.name}: {state.problem}" if state.name else state.problem
        for state in states
        if state.problem
    ]
    return Group(*map(Text, headlines), *([table] if table.row_count else []), *map(Text, problems))


def _numbers(run: RunState) -> tuple[str, str, str]:
    reward = "" if run.reward is None else f"{run.reward:.3f}".replace("-", "−")
    return run.where, reward, format_seconds(run.seconds_left)


def _indent(detail: str) -> str:
    lines = detail.splitlines()[-_ERROR_LINES:]
    return "".join(f"\n    {line}" for line in lines)

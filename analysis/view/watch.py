"""Pages of a store that grows, computed where somebody asks and something changed."""

from __future__ import annotations

import hashlib
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from analysis.evidence.cells import RunCells
from analysis.evidence.load import load_plan
from analysis.evidence.reduced import Question, reduce_run
from analysis.evidence.results import results_of
from analysis.html.page import Live, document, render_page
from analysis.view.progress import plan_of, progress_of
from harness.store import ResultStore, StoreError, layout


def pause_after(seconds: float) -> float:
    """Two seconds, or as long as the page took: whoever looks takes half of one core at most, the runs have the rest."""
    return max(2.0, seconds)


@dataclass(frozen=True)
class Page:
    """A page, the version of the store that it shows, when it was there (monotonic seconds) and how long it took."""

    version: str
    body: bytes
    made_at: float
    seconds: float


class Watch:
    """The experiments of a results root as they are now. Reads only; safe to share between threads.

    A page is computed when it is asked for and its version is not that of the store, by one thread at a time. ``pause``
    has the seconds that one took to the seconds until the next one; in between the page of before is what there is.
    """

    def __init__(
        self, root: Path | str, only: str | None = None, pause: Callable[[float], float] = pause_after
    ) -> None:
        self.store = ResultStore(root)
        self._only, self._pause = only, pause
        self._lock = threading.Lock()
        self._pages: dict[str, Page] = {}
        self._reduced: dict[tuple[str, str], tuple[str, RunCells]] = {}

    def names(self) -> list[str]:
        """The experiments to show: the chosen one, else all that have a plan."""
        return self.store.plans() if self._only is None else [self._only]

    def progress(self, name: str) -> dict[str, Any]:
        """Say what the runs do now (see `progress_of`), and the version of the results in the store. Cheap."""
        return {"version": self.version(name), **progress_of(self.store, name)}

    def version(self, name: str) -> str:
        """16 hex digits that change with whatever the page of results is made of: plan, manifests, metrics, samples."""
        plan = layout.plan_file(self.store.root, name)
        return _digest([_stamp(plan), *self._run_stamps(name)])

    def page(self, name: str) -> Page:
        """The page of an experiment; a store that cannot be read gives a page that says why."""
        with self._lock:
            version, known = self.version(name), self._pages.get(name)
            if known is not None:
                rest = time.monotonic() - known.made_at
                if known.version == version or rest < self._pause(known.seconds):
                    return known
            begun = time.monotonic()
            body = self._render(name, version).encode()
            now = time.monotonic()
            self._pages[name] = Page(version, body, now, now - begun)
            return self._pages[name]

    def _render(self, name: str, version: str) -> str:
        live = Live(version, progress_of(self.store, name))
        try:
            plan = plan_of(self.store, name)
            results = results_of(load_plan(self.store, plan, further=True, reduce=self._reduce))
            return render_page(results, self.store.root, live)
        except StoreError as error:
            return _trouble(name, str(error), live)
        # A run may change or vanish while it is read; the next version is tried again.
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            return _trouble(
                name, f"the results cannot be computed now: {type(error).__name__}: {error}", live
            )

    def _reduce(self, store: ResultStore, run_id: str, benchmark: str, question: Question) -> RunCells:
        """`reduce_run`, remembered until the samples of the run or what the plan asks of them change."""
        stamp = _digest([question.text, *_sample_stamps(store.run(run_id).path, benchmark)])
        known = self._reduced.get((run_id, benchmark))
        if known is None or known[0] != stamp:
            known = stamp, reduce_run(store, run_id, benchmark, question)
            self._reduced[run_id, benchmark] = known
        return known[1]

    def _run_stamps(self, name: str) -> Iterator[str]:
        try:
            arms = plan_of(self.store, name).arms
        except StoreError:
            return
        found = (run_id for arm in arms for run_id in arm.runs.values())
        for run_id in filter(layout.RUN_ID.fullmatch, found):
            path = layout.run_dir(self.store.root, run_id)
            yield f"{run_id} {_stamp(path / layout.MANIFEST)} {_stamp(path / layout.METRICS)}"
            yield from _sample_stamps(path)


def _sample_stamps(run: Path, pattern: str = "*") -> Iterator[str]:
    """One line for each evaluated step; parts are published whole, so the directory's date changes with them."""
    for directory in sorted(run.glob(f"samples/{pattern}/step-*")):
        yield f"{directory.parent.name}/{directory.name} {_stamp(directory)}"


def _stamp(path: Path) -> str:
    """Date and size, or nothing for a file that is not there."""
    try:
        found = path.stat()
    except OSError:
        return ""
    return f"{found.st_mtime_ns}+{found.st_size}"


def _digest(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _trouble(name: str, text: str, live: Live) -> str:
    section = ("trouble", "Results", f'<p class="warning">{escape(text)}</p>')
    return document(name, "", [section], {}, (), live)

"""The web server of the pages: this machine only, two methods, three routes, nothing written."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import signal
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from analysis.answer import headlines
from analysis.frames import load_plan
from analysis.html.page import Entry, Live, Section, document, index_page, render_page
from analysis.results import results_of
from analysis.samples import Question, RunCells, reduce_run
from harness.experiment.plan import Plan, PlanError
from harness.store import ResultStore, StoreError, layout
from harness.store.reader import RunState, run_state

ADDRESS = "127.0.0.1"
# A page from elsewhere can have its own name resolve to this machine; the browser then says that name here.
HOSTS = {"localhost", ADDRESS, "[::1]"}
_HTML, _JSON, _TEXT = ("text/html; charset=utf-8", "application/json", "text/plain; charset=utf-8")
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


_NICENESS = 10  # runs on the same cores come first


def serve(root: Path, experiment: str | None, port: int) -> None:
    """Serve the pages of a results root, or of one experiment, until an interrupt; the address is printed.

    Raises:
        OSError: the port cannot be had.
    """
    with PageServer(Watch(root, experiment), port) as server:
        os.nice(_NICENESS)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        print(f"http://{ADDRESS}:{server.server_address[1]}/{experiment or ''} (Ctrl-C ends it)", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            print(file=sys.stderr)  # the terminal has written ^C


class PageServer(ThreadingHTTPServer):
    """Serves `/` (the experiments), `/EXPERIMENT` (its page) and `/EXPERIMENT.json` (its progress) on 127.0.0.1.

    Raises:
        OSError: the port cannot be had.
    """

    daemon_threads = True

    def __init__(self, watch: Watch, port: int) -> None:
        self.watch = watch
        super().__init__((ADDRESS, port), _Handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say what went wrong, unless the reader has only gone away."""
        if not isinstance(sys.exception(), ConnectionError | TimeoutError):
            super().handle_error(request, client_address)


class _Handler(BaseHTTPRequestHandler):
    server: PageServer
    timeout = 30  # seconds for a request to arrive
    server_version, sys_version = "harness-view", ""

    def do_GET(self) -> None:
        hosts = self.headers.get_all("Host") or []
        if len(hosts) != 1 or _host(hosts[0]) not in HOSTS:
            self._answer(HTTPStatus.FORBIDDEN, f"open http://{ADDRESS}:{self.server.server_address[1]}/\n")
            return
        watch, path = self.server.watch, unquote(self.path.partition("?")[0])
        name = path.removeprefix("/")
        names = watch.names()
        if path == "/":
            entries = [Entry(name, watch.answer(name), watch.progress(name)) for name in names]
            self._answer(HTTPStatus.OK, index_page(entries), _HTML)
        elif name.removesuffix(".json") in names and name.endswith(".json"):
            progress = watch.progress(name.removesuffix(".json"))
            self._answer(HTTPStatus.OK, json.dumps(progress, allow_nan=False), _JSON)
        elif name in names:
            page = watch.page(name)
            tag = f'"{page.version}"'
            if self.headers.get("If-None-Match") == tag:
                self._answer(HTTPStatus.NOT_MODIFIED, "", tag=tag)
            else:
                self._answer(HTTPStatus.OK, page.body, _HTML, tag)
        else:
            known = ", ".join(names) or "none"
            self._answer(HTTPStatus.NOT_FOUND, f"nothing here; the experiments are: {known}\n")

    do_HEAD = do_GET

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """A request that is malformed, or of another method than the two there are."""
        if code == HTTPStatus.NOT_IMPLEMENTED:
            self._answer(HTTPStatus.METHOD_NOT_ALLOWED, "only GET and HEAD are answered\n")
        else:
            self._answer(HTTPStatus(code), f"{message or HTTPStatus(code).phrase}\n")

    def log_message(self, format: str, *args: Any) -> None:
        """A page asks every two seconds; nobody reads that."""

    def _answer(self, status: HTTPStatus, body: str | bytes, kind: str = _TEXT, tag: str = "") -> None:
        data = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        headers = _HEADERS | {"Content-Type": kind, "Content-Length": str(len(data))}
        headers |= {"ETag": tag} if tag else {}
        headers |= {"Allow": "GET, HEAD"} if status == HTTPStatus.METHOD_NOT_ALLOWED else {}
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


def _host(header: str) -> str:
    """`localhost` of `localhost:8000`: a tunnel may have another port at its other end."""
    name, colon, port = header.strip().lower().rpartition(":")
    return name if colon and port.isdigit() else header.strip().lower()


def progress_of(store: ResultStore, name: str) -> dict[str, Any]:
    """Make ``{"title", "counts", "fraction", "runs", "error"}`` of an experiment, ready for JSON; nothing is raised or written.

    ``counts`` has a status to its number of runs, ``fraction`` the share of all steps that is done (runs of unknown
    length count when they end), ``error`` why the plan cannot be read (else null). A run has label, seed and what
    `harness.store.reader.RunState` has.
    """
    try:
        plan = plan_of(store, name)
    except StoreError as error:
        return {"title": name, "counts": {}, "fraction": 0.0, "runs": [], "error": str(error)}
    seeds = [(arm.label, seed, run_id) for arm in plan.arms for seed, run_id in arm.runs.items()]
    states = [run_state(store, run_id) for _, _, run_id in seeds]
    runs = [
        {"label": label, "seed": seed, **dataclasses.asdict(state), "seconds_left": state.seconds_left}
        for (label, seed, _), state in zip(seeds, states, strict=True)
    ]
    counts = dict(sorted(Counter(state.status for state in states).items()))
    fraction = sum(map(_share, states)) / len(states) if states else 0.0
    return {"title": plan.title, "counts": counts, "fraction": fraction, "runs": runs, "error": None}


def plan_of(store: ResultStore, name: str) -> Plan:
    """Read the plan of an experiment, from whoever wrote it. Raises StoreError, or PlanError for whatever is no plan."""
    raw = store.plan(name)
    try:
        return Plan.read(raw)
    except PlanError:
        raise
    except (TypeError, ValueError, AttributeError, LookupError) as error:
        raise PlanError(f"plan {name} cannot be read: {error}; write it with `harness run`") from error


def _share(state: RunState) -> float:
    if state.status == "finished":
        return 1.0
    return min(state.step / state.total, 1.0) if state.step and state.total else 0.0


_OLDER = " (before the newest results)"


def pause_after(seconds: float) -> float:
    """Two seconds, or as long as the page took: whoever looks takes half of one core at most, the runs have the rest."""
    return max(2.0, seconds)


@dataclass(frozen=True)
class Page:
    """A page, the version of the store that it shows, when it was there (monotonic seconds), how long it took, its first sentence."""

    version: str
    body: bytes
    made_at: float
    seconds: float
    answer: str = ""


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

    def answer(self, name: str) -> str:
        """The first sentence of the answer: of the page if one was made, else as `harness run` or `report` wrote it last; may be empty.

        Cheap: nothing is computed. One that was written before the newest result says so.
        """
        known = self._pages.get(name)
        if known is not None and known.answer:
            return known.answer + _OLDER * (known.version != self.version(name))
        file = layout.plan_file(self.store.root, name).parent / "tables" / "answer.md"
        try:
            sentence = file.read_text(encoding="utf-8").partition("\n")[0]
            newest = max(path.stat().st_mtime_ns for path in self._manifests(name))
        except (OSError, ValueError):
            return ""
        return sentence + _OLDER * (newest > file.stat().st_mtime_ns)

    def page(self, name: str) -> Page:
        """The page of an experiment; a store that cannot be read gives a page that says why."""
        with self._lock:
            version, known = self.version(name), self._pages.get(name)
            if known is not None:
                rest = time.monotonic() - known.made_at
                if known.version == version or rest < self._pause(known.seconds):
                    return known
            begun = time.monotonic()
            body, answer = self._render(name, version)
            now = time.monotonic()
            self._pages[name] = Page(version, body.encode(), now, now - begun, answer)
            return self._pages[name]

    def _render(self, name: str, version: str) -> tuple[str, str]:
        """The page of an experiment and the first sentence of its answer."""
        feed = Live(version, progress_of(self.store, name))
        try:
            plan = plan_of(self.store, name)
            results = results_of(load_plan(self.store, plan, further=True, reduce=self._reduce))
            return render_page(results, self.store.root, feed), headlines(results)[0]
        except StoreError as error:
            return _trouble(name, str(error), feed), ""
        # A run may change or vanish while it is read; the next version is tried again.
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            text = f"the results cannot be computed now: {type(error).__name__}: {error}"
            return _trouble(name, text, feed), ""

    def _reduce(self, store: ResultStore, run_id: str, benchmark: str, question: Question) -> RunCells:
        """`reduce_run`, remembered until the samples of the run or what the plan asks of them change."""
        stamp = _digest([question.text, *_sample_stamps(store.run(run_id).path, benchmark)])
        known = self._reduced.get((run_id, benchmark))
        if known is None or known[0] != stamp:
            known = stamp, reduce_run(store, run_id, benchmark, question)
            self._reduced[run_id, benchmark] = known
        return known[1]

    def _folders(self, name: str) -> Iterator[tuple[str, Path]]:
        """Each run of the plan with its folder, which may not be there yet."""
        try:
            arms = plan_of(self.store, name).arms
        except StoreError:
            return
        run_ids = (run_id for arm in arms for run_id in arm.runs.values())
        for run_id in filter(layout.RUN_ID.fullmatch, run_ids):
            yield run_id, layout.run_dir(self.store.root, run_id)

    def _manifests(self, name: str) -> list[Path]:
        return [path for _, run in self._folders(name) if (path := run / layout.MANIFEST).exists()]

    def _run_stamps(self, name: str) -> Iterator[str]:
        for run_id, path in self._folders(name):
            yield f"{run_id} {_stamp(path / layout.MANIFEST)} {_stamp(path / layout.METRICS_FILE)}"
            yield from _sample_stamps(path)


def _sample_stamps(run: Path, pattern: str = "*") -> Iterator[str]:
    """One line for each evaluated step; parts are published whole, so the directory's date changes with them."""
    for directory in sorted(run.glob(f"samples/{pattern}/step-*")):
        yield f"{directory.parent.name}/{directory.name} {_stamp(directory)}"


def _stamp(path: Path) -> str:
    """Date and size, or nothing for a file that is not there."""
    try:
        status = path.stat()
    except OSError:
        return ""
    return f"{status.st_mtime_ns}+{status.st_size}"


def _digest(lines: list[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16]


def _trouble(name: str, text: str, feed: Live) -> str:
    section = Section("trouble", "Results", f'<p class="warning">{escape(text)}</p>')
    return document(name, "", [section], {}, (), feed)

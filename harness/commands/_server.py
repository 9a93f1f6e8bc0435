"""The web server of the pages: this machine only, three routes, nothing written."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import asdict
from functools import partial
from hmac import compare_digest
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import inf
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from analysis.frames import load_plan
from analysis.html.page import Section, document, index_page, render_page
from analysis.results import results_of
from analysis.samples import Question, RunCells, reduce_run
from harness.commands._answer import answer_is_old
from harness.experiment.plan import Plan
from harness.store import ResultStore, StoreError, layout
from harness.store.reader import run_state

ADDRESS = "127.0.0.1"
# A page from elsewhere can have its own name resolve to this machine; the browser then says that name here.
# Any port: a tunnel may have another one at its other end.
_HOST = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d+)?", re.IGNORECASE)
_HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
_NICENESS = 10  # runs on the same cores come first
_OLDER = " (before the newest results)"


def serve(root: Path, experiment: str | None, port: int, token: str = "") -> None:
    """Serve the pages of a results root, or of one experiment, until an interrupt. Raises OSError: the port cannot be had.

    With a `token` every address begins with it, so that other users of this machine, who can reach the port, see nothing.
    """
    with Server((ADDRESS, port), Watch(root, experiment), token) as server, suppress(KeyboardInterrupt):
        os.nice(_NICENESS)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        print(f"http://{ADDRESS}:{server.server_port}{server.prefix}{experiment or ''} (Ctrl-C ends it)", flush=True)
        server.serve_forever()


class Server(ThreadingHTTPServer):
    """A thread for each client."""

    request_queue_size = 256  # clients that come at the same moment

    def __init__(self, address: tuple[str, int], watch: Watch, token: str = "") -> None:
        self.prefix = f"/{token}/" if token else "/"
        super().__init__(address, partial(Handler, watch, self.prefix))


class Handler(BaseHTTPRequestHandler):
    """Answers `/` (the experiments), `/EXPERIMENT` (its page) and `/EXPERIMENT.json` (its progress)."""

    timeout = 30  # seconds for a request to arrive
    server_version, sys_version = "harness-view", ""
    error_content_type, error_message_format = "text/plain; charset=utf-8", "%(message)s: %(explain)s\n"

    def __init__(self, watch: Watch, prefix: str, *connection: Any) -> None:
        self.watch, self._prefix = watch, prefix
        super().__init__(*connection)  # answers the request

    def handle(self) -> None:
        with suppress(ConnectionError):  # the reader has gone away
            super().handle()

    def do_GET(self) -> None:
        hosts, prefix = self.headers.get_all("Host", []), self._prefix
        path = unquote(self.path.partition("?")[0])
        watch, names, name = self.watch, self.watch.names(), path[len(prefix) :]
        if len(hosts) != 1 or not _HOST.fullmatch(hosts[0].strip()):
            self.send_error(HTTPStatus.FORBIDDEN, explain=f"open http://{ADDRESS} at this port")
        elif not compare_digest(path[: len(prefix)].encode(errors="replace"), prefix.encode()):
            self.send_error(HTTPStatus.FORBIDDEN, explain="open the address that `harness view` has printed")
        elif not name:
            rows = [{**watch.progress(name), "runs": [], "name": name, "answer": watch.answer(name)} for name in names]
            self._answer(index_page(rows))
        elif name in names:
            self._answer(watch.page(name))
        elif name.endswith(".json") and name.removesuffix(".json") in names:
            self._answer(json.dumps(watch.progress(name.removesuffix(".json")), allow_nan=False), "application/json")
        else:
            self.send_error(HTTPStatus.NOT_FOUND, explain=f"the experiments are {', '.join(names) or 'none'}")

    do_HEAD = do_GET

    def end_headers(self) -> None:
        for header in _HEADERS.items():
            self.send_header(*header)
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """A page asks every two seconds; nobody reads that."""

    def _answer(self, text: str, kind: str = "text/html") -> None:
        data = text.encode()
        self.send_response(HTTPStatus.OK)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)


class Watch:
    """The experiments of a results root as they are now. A page is computed when it is asked for and the store has newer results."""

    def __init__(self, root: Path | str, only: str | None = None) -> None:
        self.store = ResultStore(root)
        self._only = only
        self._lock = threading.Lock()
        self._pages: dict[str, tuple[str, str]] = {}  # version of the store, page
        self._run_cells: dict[tuple[str, str, str], tuple[str, RunCells]] = {}

    def names(self) -> list[str]:
        """The experiments to show: the chosen one, else all that have a plan."""
        return self.store.plans() if self._only is None else [self._only]

    def plan(self, name: str) -> Plan:
        """Read the plan of an experiment. Raises StoreError for whatever is no plan."""
        return Plan.read(self.store.plan(name))

    def progress(self, name: str) -> dict[str, Any]:
        """Say what the runs do now, ready for JSON; of each label, seed and a `harness.store.reader.RunState`. Nothing is raised.

        ``version`` is that of the results, ``counts`` has the number of runs of each status, ``fraction`` is the share of all steps that is
        done (a run of unknown length counts when it ends), ``error`` why the plan cannot be read (else null).
        """
        state = {"version": self.version(name), "title": name, "counts": {}, "fraction": 0.0, "runs": [], "error": None}
        try:
            plan = self.plan(name)
        except StoreError as error:
            return state | {"error": str(error)}
        runs = [
            {"label": arm.label, "seed": seed, **asdict(state), "seconds_left": state.seconds_left}
            for arm in plan.arms
            for seed, run_id in arm.runs.items()
            for state in [run_state(self.store, run_id)]
        ]
        counts = dict(sorted(Counter(run["status"] for run in runs).items()))
        shares = [(run["step"] or 0) / (run["total"] or inf) if run["status"] != "finished" else 1 for run in runs]
        fraction = sum(min(share, 1) for share in shares) / max(len(shares), 1)
        return state | {"title": plan.title, "counts": counts, "fraction": fraction, "runs": runs}

    def version(self, name: str) -> str:
        """16 hex digits that change with whatever the page of results is made of: plan, manifests, metrics, samples."""
        runs = self._files(name, layout.MANIFEST, layout.METRICS_FILE, "samples/*/step-*")
        return _stamp([layout.plan_file(self.store.root, name), *runs])

    def answer(self, name: str) -> str:
        """The headline of the answer as `harness run` or `report` wrote it; empty where none did."""
        file = layout.plan_file(self.store.root, name).parent / "tables" / "answer.md"
        with suppress(OSError, ValueError, StoreError):
            sentence = file.read_text(encoding="utf-8").partition("\n")[0].strip("*")
            return sentence + _OLDER * answer_is_old(self.store, name)
        return ""

    def page(self, name: str) -> str:
        """The page of an experiment, computed by one thread at a time; a store that cannot be read gives a page that says why."""
        progress = self.progress(name)
        with self._lock:
            if self._pages.get(name, ("",))[0] != progress["version"]:
                self._pages[name] = progress["version"], self._render(name, progress)
            return self._pages[name][1]

    def _render(self, name: str, progress: Mapping[str, Any]) -> str:
        try:
            results = results_of(load_plan(self.store, self.plan(name), further=True, reduce=self._reduce))
            return render_page(results, self.store.root, progress)
        except StoreError as error:
            trouble = str(error)
        # A run may change or vanish while it is read; the next version is tried again.
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            trouble = f"the results cannot be computed now: {type(error).__name__}: {error}"
        section = Section("trouble", "Results", f'<p class="warning">{escape(trouble)}</p>')
        return document(name, "", [section], {}, (), progress)

    def _reduce(self, store: ResultStore, run_id: str, benchmark: str, question: Question) -> RunCells:
        """`reduce_run`, remembered until the samples change: with 48 runs it takes half of the time of a page."""
        key = (run_id, benchmark, question.text)
        stamp = _stamp(store.run(run_id).path.glob(f"samples/{benchmark}/step-*"))
        if self._run_cells.get(key, ("",))[0] != stamp:
            self._run_cells[key] = stamp, reduce_run(store, run_id, benchmark, question)
        return self._run_cells[key][1]

    def _files(self, name: str, *patterns: str) -> Iterator[Path]:
        """What the runs of an experiment have of these files, by their names within a run."""
        with suppress(StoreError):
            ids = {run_id for arm in self.plan(name).arms for run_id in arm.runs.values()}
            for run_id in filter(layout.RUN_ID.fullmatch, ids):
                for pattern in patterns:
                    yield from layout.run_dir(self.store.root, run_id).glob(pattern)


def _stamp(paths: Iterable[Path]) -> str:
    """16 hex digits that change with the date or size of a file or folder, and where one comes or goes."""
    dates = [(str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in sorted(paths) if path.exists()]
    return hashlib.sha256(repr(dates).encode()).hexdigest()[:16]

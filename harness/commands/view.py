"""Watch experiments in a browser while they run: progress, table and curves so far, samples. Never writes into the store.

harness view                              all experiments of the store, on http://127.0.0.1:8000/
harness view experiment=NAME port=8123    prints the address of one; port=0 takes a free port
harness view token=true                   for a machine with other users: only who knows the printed address sees anything

Only this machine can connect, every user of it; from another one: ssh -L 8000:127.0.0.1:8000 HOST. Ctrl-C ends it, and no run.
"""

import argparse
import hashlib
import os
import re
import secrets
import signal
import threading
import traceback
from contextlib import suppress
from hmac import compare_digest
from html import escape
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote, unquote

from analysis.frames import load_plan
from analysis.html.page import Section, document, progress_section, render_page
from analysis.results import results_of
from harness.commands._answer import headline_of
from harness.commands._arguments import select, take_switch, take_values
from harness.configuration.error import ConfigError
from harness.experiment.plan import Plan
from harness.store import ResultStore, StoreError, layout

_ADDRESS, _PORT, _MOST_PORT = "127.0.0.1", 8000, 65535
# A page from elsewhere can have its own name resolve to this machine; the browser then says that name here.
# Any port: a tunnel may have another one at its other end.
_HOST = re.compile(r"(localhost|127\.0\.0\.1|\[::1\])(:\d+)?", re.IGNORECASE)
_HEADERS = {
    "Cache-Control": "no-store", "Cross-Origin-Resource-Policy": "same-origin", "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
}  # fmt: skip
_WATCHED = (layout.MANIFEST, layout.METRICS_FILE, "samples/*/step-*", f"attempts/*/{layout.PHASE}")
ARGUMENTS = {"overrides": {"nargs": "*", "help": "[experiment=NAME] [port=8000] [token=true] [runtime.results=DIR]"}}


def run(options: argparse.Namespace) -> int:
    values, rest = take_values(options.overrides, ("port", "token"), "view")
    has_token, port, selection = take_switch(values, "token"), values.get("port", _PORT), select(rest)
    if len(selection.experiments) > 1:
        raise ConfigError("name one experiment at most: harness view experiment=NAME")
    if type(port) is not int or not 0 <= port <= _MOST_PORT:
        raise ConfigError(f"port={port} is no port: a number up to {_MOST_PORT}, or 0 for any free one")
    try:
        server = Server(selection.store.root, port, secrets.token_urlsafe() if has_token else "")
    except OSError as error:
        raise ConfigError(f"port={port} cannot be had ({error.strerror}); port=0 takes any free one") from error
    with server, suppress(KeyboardInterrupt):
        os.nice(10)  # runs on the same cores come first
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        name = "".join(selection.experiments)
        print(f"http://{_ADDRESS}:{server.server_port}{server.prefix}{name} (Ctrl-C ends it)", flush=True)
        server.serve_forever()
    return 0


class Server(ThreadingHTTPServer):
    """The pages of a results root. With a `token` every address begins with it. Raises OSError: the port is taken."""

    request_queue_size = 256  # clients that come at the same moment

    def __init__(self, root: Path | str, port: int = 0, token: str = "") -> None:
        self.store, self.prefix = ResultStore(root), f"/{token}/" if token else "/"
        self._lock, self._pages = threading.Lock(), dict[str, tuple[str, str]]()  # version of the store, page
        super().__init__((_ADDRESS, port), Handler)

    def version(self, name: str) -> str:
        """16 hex digits that change with whatever the page of an experiment is made of, or, without a name, with the list of all."""
        paths = [layout.experiment_dir(self.store.root, one) for one in ([name] if name else self.store.plans())]
        with suppress(StoreError):
            arms = Plan.read(self.store.plan(name)).arms if name else ()
            runs = [self.store.run(run_id).path for arm in arms for run_id in arm.runs.values()]
            paths += [path for run in runs for pattern in _WATCHED for path in run.glob(pattern)]
        dates = [(str(path), path.stat().st_mtime_ns, path.stat().st_size) for path in sorted(paths) if path.exists()]
        return hashlib.sha256(repr(dates).encode()).hexdigest()[:16]

    def page(self, name: str) -> str:
        """The page of an experiment, or the list of all, made by one thread at a time; one that cannot be made says why."""
        version = self.version(name)
        with self._lock:
            if self._pages.get(name, ("",))[0] != version:
                self._pages[name] = version, self._made(name, version)
            return self._pages[name][1]

    def _made(self, name: str, version: str) -> str:
        try:
            if name:
                plan = Plan.read(self.store.plan(name))
                results = results_of(load_plan(self.store, plan))
                return render_page(results, self.store.root, version, progress_section(plan, self.store))
            rows = ((quote(one), escape(one), escape(headline_of(self.store, one))) for one in self.store.plans())
            items = "".join(f'<li><a href="{link}">{name}</a> {said}</li>' for link, name, said in rows)
            text = f"<ul>{items or 'No experiment has been started in this results root.'}</ul>"
        except Exception as error:  # a run may change or vanish while it is read; the next version is tried again
            if not isinstance(error, StoreError):
                traceback.print_exc()
            text = f'<p class="warning">{escape(str(error))}</p>'
        title = name or "Experiments"
        return document(title, "", [Section("list", title, text)], {}, (), version)


class Handler(BaseHTTPRequestHandler):
    """Answers `/` (the experiments) and `/EXPERIMENT` (its page); with `?version` only the version of what they would show."""

    timeout = 30  # seconds for a request to arrive
    server_version, sys_version = "harness-view", ""
    error_content_type, error_message_format = "text/plain; charset=utf-8", "%(message)s: %(explain)s\n"

    def handle(self) -> None:
        with suppress(ConnectionError):  # the reader has gone away
            super().handle()

    def do_GET(self) -> None:
        server, (path, _, query) = cast(Server, self.server), self.path.partition("?")
        hosts, path, prefix = self.headers.get_all("Host", []), unquote(path), server.prefix
        names, name = server.store.plans(), path[len(prefix) :]
        if len(hosts) != 1 or not _HOST.fullmatch(hosts[0].strip()):
            self.send_error(HTTPStatus.FORBIDDEN, explain=f"open http://{_ADDRESS} at this port")
        elif not compare_digest(path[: len(prefix)].encode(errors="replace"), prefix.encode()):
            self.send_error(HTTPStatus.FORBIDDEN, explain="open the address that `harness view` has printed")
        elif name and name not in names:
            self.send_error(HTTPStatus.NOT_FOUND, explain=f"the experiments are {', '.join(names) or 'none'}")
        else:
            kind, text = ("plain", server.version(name)) if query == "version" else ("html", server.page(name))
            self.send_response(HTTPStatus.OK)
            self.send_header("Content-Type", f"text/{kind}; charset=utf-8")
            self.send_header("Content-Length", str(len(text.encode())))
            self.end_headers()
            self.wfile.write(b"" if self.command == "HEAD" else text.encode())

    do_HEAD = do_GET

    def end_headers(self) -> None:
        for header in _HEADERS.items():
            self.send_header(*header)
        super().end_headers()

    def log_message(self, format: str, *args: Any) -> None:
        """A page asks every two seconds; nobody reads that."""

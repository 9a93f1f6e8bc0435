"""The web server of the pages: this machine only, two methods, three routes, nothing written."""

from __future__ import annotations

import json
import os
import signal
import sys
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from analysis.html.page import Entry, index_page
from analysis.view.watch import Watch

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

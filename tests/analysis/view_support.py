"""A server of `harness view` over a store, and requests to it."""

from __future__ import annotations

import contextlib
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.commands.view import Server

RUNGS = [("a", "first arm", 0.4, 1.0), ("b", "+ second arm", 0.8, 1.0)]
SMALL = {"rungs": RUNGS, "seeds": (0, 1), "problems": 6, "n": 4, "steps": 6, "evaluate": (0, 3, 6)}


@contextlib.contextmanager
def served(root: Path, **options: Any) -> Iterator[str]:
    """The address of a server, without a slash at its end."""
    server = Server(root, **options)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def ask(url: str, method: str = "GET", **headers: str) -> tuple[int, str, dict[str, str]]:
    """Status, text and headers (names in lower case) of an answer, whatever its status."""
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    request = urllib.request.Request(url, method=method, headers=names)
    try:
        with urllib.request.urlopen(request, timeout=60) as answer:
            status, text, found = answer.status, answer.read().decode(), answer.headers
    except urllib.error.HTTPError as error:
        status, text, found = error.code, error.read().decode(), error.headers
    return status, text, {name.lower(): value for name, value in found.items()}

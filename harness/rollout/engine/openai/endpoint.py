"""JSON over HTTP to a server that may be busy, restarting or wrong: time limits, retries with growing pauses, errors that quote it."""

from __future__ import annotations

import json
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from http.client import HTTPException
from multiprocessing.pool import ThreadPool
from typing import Any, TypeVar

from harness.configuration.error import ConfigError
from harness.rollout.errors import EngineDied

T = TypeVar("T")
R = TypeVar("R")

_RETRIED = frozenset({408, 425, 429, 500, 502, 503, 504})
_NO_KEY = "; name the variable that holds the key in engine.api_key_env"
_HINTS = {
    401: _NO_KEY,
    403: _NO_KEY,
    404: "; engine.base_url ends in /v1 on most servers, and engine.model must be a name it serves",
}
_QUOTED = 300  # characters of a server's answer in an error message


@dataclass(frozen=True)
class Endpoint:
    """A server's base address and how patiently it is asked.

    Attributes:
        base_url: up to and with `/v1`.
        key: sent as a bearer token; empty: none.
        timeout_s: for one answer, in seconds.
        retries: further tries after a failed one.
        pause_s: before the first further try, doubled before every next one; the server's own `Retry-After` is kept to where it is longer.
    """

    base_url: str
    key: str = ""
    timeout_s: float = 600.0
    retries: int = 4
    pause_s: float = 1.0

    def ask(self, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """The JSON object that the server answers to a GET, or to a POST of `body`.

        Raises:
            ConfigError: it refuses the request (4xx): repeating would not help.
            EngineDied: no usable answer after all tries.
        """
        pause, said = self.pause_s, ""
        for last in [False] * self.retries + [True]:
            wait = 0.0
            try:
                return self._try(path, body)
            except urllib.error.HTTPError as error:
                said, wait = _quoted(error), _retry_after(error)
                if error.code not in _RETRIED:
                    hint = _HINTS.get(error.code, "")
                    raise ConfigError(
                        f"{self.base_url}{path} refuses the request ({error.code}): {said}{hint}"
                    ) from error
            # No connection, a time-out, a torn or a malformed answer.
            except (OSError, HTTPException, ValueError) as error:
                said = f"{type(error).__name__}: {error}"
            if not last:
                time.sleep(max(pause, wait))
                pause *= 2
        raise EngineDied(
            f"{self.base_url}{path} gave no usable answer in {self.retries + 1} tries; the last: {said}. Is the server up "
            "(engine.base_url), and are engine.timeout_s and engine.concurrency right for it?"
        )

    def _try(self, path: str, body: dict[str, Any] | None) -> dict[str, Any]:
        headers = {"Content-Type": "application/json"}
        if self.key:
            headers["Authorization"] = f"Bearer {self.key}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.base_url + path, data=data, headers=headers)
        with urllib.request.urlopen(request, timeout=self.timeout_s) as response:
            text = response.read()
        answer = json.loads(text)
        if not isinstance(answer, dict):
            raise ValueError(f"not a JSON object: {text[:_QUOTED]!r}")
        return answer


def _quoted(error: urllib.error.HTTPError) -> str:
    try:
        text = error.read().decode(errors="replace")
    except (OSError, HTTPException):
        text = ""
    return f"HTTP {error.code} {text[:_QUOTED].strip() or error.reason}"


def _retry_after(error: urllib.error.HTTPError) -> float:
    value = error.headers.get("Retry-After", "") if error.headers else ""
    return float(value) if value.isdigit() else 0.0


def ask_all(function: Callable[[T], R], items: Sequence[T], concurrency: int) -> list[R]:
    """`function` of every item, at most `concurrency` at once, results in order; after the first error nothing further is begun."""
    found: dict[int, R] = {}
    failed = threading.Event()

    def ask(place: int) -> None:
        if failed.is_set():
            return
        try:
            found[place] = function(items[place])
        except BaseException:
            failed.set()
            raise

    # Its threads are daemons: an interrupted program does not wait for a slow server's last answers.
    with ThreadPool(max(1, min(concurrency, len(items)))) as pool:
        for _ in pool.imap_unordered(ask, range(len(items))):
            pass
    return [found[place] for place in range(len(items))]

"""An OpenAI-compatible completions server over the native engine, in a thread, that can be told to misbehave."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from harness.model.policy import NativePolicy
from harness.rollout.engine.native.sampler import NativeEngine
from harness.rollout.types import Completions, SamplingParams


class FakeServer:
    """Serves `engine` at `base_url` until closed.

    Attributes:
        faults: taken one a request, from the front: a status to answer with, or a function that turns the right answer into what is sent.
        requests: bodies of the completion requests, in order of arrival.
        headers: the newest request's headers.
        at_once: the most requests that were under way together.
        models: what `/models` lists.
        pause_s: how long each answer takes.
    """

    def __init__(self, engine: NativeEngine | None) -> None:
        self.engine = engine
        self.faults: list[int | Callable[[dict[str, Any]], Any]] = []
        self.requests: list[dict[str, Any]] = []
        self.headers: dict[str, str] = {}
        self.models = ["tiny"]
        self.pause_s, self.at_once, self._under_way = 0.0, 0, 0
        self._lock, self._engine_lock = threading.Lock(), threading.Lock()
        self._waiting: list[_Asked] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.base_url = f"http://127.0.0.1:{self._server.server_address[1]}/v1"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, body: dict[str, Any]) -> dict[str, Any]:
        asked = _Asked(body)
        with self._lock:
            self.requests.append(body)
            self._waiting.append(asked)
            self._under_way += 1
            self.at_once = max(self.at_once, self._under_way)
        time.sleep(self.pause_s)
        try:
            with self._engine_lock:
                if asked.choice is None:
                    self._complete_waiting()
            return {"object": "text_completion", "model": body["model"], "choices": [asked.choice]}
        finally:
            with self._lock:
                self._under_way -= 1

    def _complete_waiting(self) -> None:
        """All requests that wait: those of the same parameters in one batch, as a real server does."""
        assert self.engine is not None
        with self._lock:
            waiting, self._waiting = self._waiting, []
        for params in dict.fromkeys(asked.params for asked in waiting):
            batch = [asked for asked in waiting if asked.params == params]
            seeds = np.array([[asked.body["seed"]] for asked in batch], dtype=np.uint64)
            made = self.engine.generate([asked.body["prompt"] for asked in batch], seeds, params)
            for row, asked in enumerate(batch):
                asked.choice = _choice(asked.body, made.select(torch.tensor([row])))


class _Asked:
    """A request and, once the engine was through, its answer's choice."""

    def __init__(self, body: dict[str, Any]) -> None:
        self.body = body
        self.choice: dict[str, Any] | None = None
        self.params = SamplingParams(
            body["max_tokens"],
            body["temperature"],
            body["top_p"],
            max(0, body.get("top_k", 0)),  # -1: none
            tuple(body["stop_token_ids"]),
        )


def _choice(body: dict[str, Any], made: Completions) -> dict[str, Any]:
    return {
        "index": 0,
        "text": "",
        "finish_reason": "stop" if bool(made.finished_R[0]) else "length",
        "token_ids": made.tokens_N.tolist(),
        "prompt_token_ids": body["prompt"],
        "logprobs": {"token_logprobs": made.log_probs_N.tolist()},
    }


def _handler(server: FakeServer) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self._send(200, {"data": [{"id": name} for name in server.models]})

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            server.headers = {name.lower(): value for name, value in self.headers.items()}
            fault = server.faults.pop(0) if server.faults else None
            if isinstance(fault, int):
                self._send(fault, {"error": {"message": f"told to answer {fault}"}})
                return
            answer = server.answer(body)
            self._send(200, fault(answer) if fault else answer)

        def _send(self, status: int, answer: Any) -> None:
            data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
            try:
                self.send_response(status)
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)
            except (BrokenPipeError, ConnectionResetError):
                pass  # the client's time was up

        def log_message(self, *_: object) -> None:
            pass

    return Handler


@pytest.fixture(name="server")
def server_of_base_policy(base_policy: Path) -> Iterator[FakeServer]:
    """A server of the testbed's base policy."""
    fake = FakeServer(NativeEngine(NativePolicy.load(base_policy, "torch").decoder))
    yield fake
    fake.close()

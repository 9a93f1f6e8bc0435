"""What is planned needs no network."""

from __future__ import annotations

import socket

import pytest


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*args: object) -> None:
        raise AssertionError("a plan must not need a network")

    monkeypatch.setattr(socket.socket, "connect", connect)

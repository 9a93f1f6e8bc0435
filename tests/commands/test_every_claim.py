"""`harness run claim=all`: every declared claim in turn, with the other arguments; a stop ends all of them."""

from __future__ import annotations

import pytest

from harness import train
from harness.configuration.compose import options


@pytest.mark.parametrize(("codes", "runs", "code"), [([0, 1, 0], 3, 1), ([0, 75, 0], 2, 75)])
def test_every_claim_runs_until_one_is_stopped(
    monkeypatch: pytest.MonkeyPatch, codes: list[int], runs: int, code: int
) -> None:
    ran: list[list[str]] = []
    whole = train.main

    def one(arguments: list[str]) -> int:
        ran.append(list(arguments))
        return codes[len(ran) - 1]

    names = options("claim")[:3]
    monkeypatch.setattr(train, "options", lambda group: names)
    monkeypatch.setattr(train, "main", one)
    assert whole(["claim=all", "training.steps=5"]) == code
    assert ran == [[f"claim={name}", "training.steps=5"] for name in names[:runs]]

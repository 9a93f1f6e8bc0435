"""Workers of a few metrics rows; the fork server imports this module by PYTHONPATH."""

from __future__ import annotations

from pathlib import Path

from harness.store import RunDir


def three_steps(path: Path) -> int:
    run = RunDir(path)
    for step in range((run.last_step() or {"step": 0})["step"] + 1, 4):
        run.append_step({"step": step, "attempt": 0, "reward_mean": 0.5, "generated_tokens": 10, "note": "x"})
    return 0


def two_then_stop(path: Path) -> int:
    run = RunDir(path)
    for step in (1, 2):
        run.append_step({"step": step, "attempt": 0, "reward_mean": 0.5})
    return 75

"""A stand-in for wandb that records its calls, or misbehaves as FAKE_WANDB says."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any


def Settings(**options: Any) -> dict[str, Any]:
    return options


def init(**options: Any) -> Run:
    if os.environ["FAKE_WANDB"] == "raise_on_init":
        raise RuntimeError("no network")
    if os.environ["FAKE_WANDB"] == "hang":
        time.sleep(1000)
    return Run(options)


class Run:
    def __init__(self, options: dict[str, Any]) -> None:
        self._file, self._id = Path(options["dir"]) / "fake_wandb.jsonl", options["id"]
        keys = ("group", "job_type", "mode", "resume", "config")
        # As W&B: the step after the last one that it has under this id.
        calls = map(json.loads, self._file.read_text().splitlines() if self._file.exists() else ())
        self.step = max(
            (call["step"] + 1 for call in calls if call["call"] == "log" and call["id"] == self._id), default=0
        )
        self._write(call="init", **{key: options[key] for key in keys})

    def log(self, metrics: dict[str, float], step: int) -> None:
        if os.environ["FAKE_WANDB"] == "raise_on_log":
            raise OSError("broken pipe")
        self._write(call="log", step=step)

    def finish(self, exit_code: int = 0) -> None:
        self._write(call="finish", exit_code=exit_code)

    def _write(self, **call: Any) -> None:
        with open(self._file, "a") as file:
            file.write(json.dumps({"id": self._id, **call}) + "\n")

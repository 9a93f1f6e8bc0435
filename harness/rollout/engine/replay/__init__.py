"""Recorded responses served again: the same rollouts for another trainer, or an evaluation of what was generated elsewhere."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from harness.configuration.error import ConfigError
from harness.configuration.limits import Checked, choice

READS_WEIGHTS = False
WHOLE_RUNS = True


@dataclass
class Config(Checked, key="engine"):
    """Settings of what is served.

    Attributes:
        path: the file (see `harness.rollout.engine.replay.recording` for its lines; `runtime.record_rollouts=true` writes one).
        match: a response belongs to a request by prompt and seed, or is the prompt's next in the file's order.
    """

    kind: str = "replay"
    path: str = ""
    match: str = choice("seed", of=("seed", "order"))

    def identity(self) -> dict[str, Any]:
        """Return what a run's id holds: the file's content, wherever it lies."""
        return {"kind": self.kind, **identity(self)}


def build(config: Config, policy: Any, runtime: Any) -> Any:
    """See the family's contract."""
    return _open(config)


def open_folder(
    config: Config, folder: Any, runtime: Any, device: str, dtype: Any, linear_kernel: str
) -> Any:
    """See the family's contract. Of the folder only the tokenizer is used, by the caller."""
    return _open(config)


def identity(config: Config) -> dict[str, Any]:
    """See the family's contract: the file's content."""
    path = _file(config)
    about = path.stat()
    return {"replay": _hash(path, about.st_size, about.st_mtime_ns), "match": config.match}


@lru_cache(maxsize=64)
def _hash(path: Path, size: int, changed_ns: int) -> str:
    """Of the content; size and time of change make another key of a file that was written again."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:16]


def _open(config: Config) -> Any:
    from harness.rollout.engine.replay.recording import ReplayEngine

    return ReplayEngine(_file(config), config.match)


def _file(config: Config) -> Path:
    path = Path(config.path).expanduser()
    if not path.is_file():
        raise ConfigError(
            f"engine.path={config.path!r}: no such file; runtime.record_rollouts=true writes one"
        )
    return path

"""The format of a log, told by its name and its beginning."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from harness.configuration.registry import kinds
from harness.exchange.importers import tensorboard, verl, wandb
from harness.exchange.importers._log import ForeignLogError, json_lines, numbers, read_text
from harness.exchange.importers._trainer import FAMILY, trainer_of

TEXTS = {".json", ".jsonl", ".log", ".txt", ".out", ".ndjson"}
TABLES = {".csv", ".tsv"}
_TELLING = 3  # names of a trainer's


def format_of(path: Path) -> str:
    """Return the format of a file or of a run's folder. Raises `ForeignLogError` where it cannot be told."""
    if str(path).startswith(wandb.SERVER):
        return "wandb"
    if not path.exists():
        raise ForeignLogError(f"cannot read {path}: there is no such file or folder")
    found = _of_folder(path) if path.is_dir() else _of_file(path)
    if found is None:
        raise ForeignLogError(
            f"{path}: nothing in it says which format it is; give format={'|'.join(kinds(FAMILY))}"
        )
    return found


def _of_folder(path: Path) -> str | None:
    if any(path.glob("trainer_state.json")) or any(path.glob("checkpoint-*/trainer_state.json")):
        return "trl"
    patterns = {"prime_rl": "metrics.jsonl", "wandb": "*.wandb", "tensorboard": tensorboard.EVENTS}
    return next((kind for kind, pattern in patterns.items() if any(path.rglob(pattern))), None)


def _of_file(path: Path) -> str | None:
    suffix = path.suffix.lower()
    if suffix == ".wandb" or suffix in TABLES:
        return "wandb"
    if "tfevents" in path.name:
        return "tensorboard"
    if suffix not in TEXTS:
        return None
    if verl.prints(read_text(path)):
        return "verl"
    return _of_objects(json_lines(path)[0])


def _of_objects(items: list[dict[str, Any]]) -> str | None:
    """Return the format of the objects of a file: a state of TRL, verl's lines, a history of wandb's, or lines of a trainer."""
    if any(isinstance(item.get("log_history"), list) for item in items):
        return "trl"
    if any(isinstance(item.get("data"), dict) and isinstance(item.get("step"), int) for item in items):
        return "verl"
    if any(name in item for item in items for name in ("_step", "_runtime", "train/global_step")):
        return "wandb"
    rows = [numbers(item) for item in items]
    trainer = trainer_of(rows)
    several = {name for row in rows for name in trainer.knows(row)}
    return trainer.name if len(several) >= _TELLING else None  # recorded responses have a `reward`, too

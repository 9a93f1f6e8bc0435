"""wandb: a run's `.wandb` file or folder (by wandb's own reader), an exported history, or `wandb:ENTITY/PROJECT/RUN` from its server.

An export is CSV (`_step` or `Step` and one column per metric, or `run - metric`) or JSON (a list or lines). The metrics are those of the
trainer that logged them.
"""

from __future__ import annotations

import csv
import importlib
import importlib.util
import io
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from harness.exchange.importers._log import ForeignLogError, Log, json_lines, log_of, read_text

SERVER = "wandb:"
_READER = ("-m", "wandb", "leet", "inspect", "--json")
_TOO_OLD = "the installed wandb has no `wandb leet inspect --json`: pip install -U wandb (0.31 has it)"


def read(path: Path, run: str | None = None, *, trainer: str | None = None) -> Log:
    """Read one run; `run` chooses among several in one export or folder. Raises `ForeignLogError`."""
    if str(path).startswith(SERVER):
        return served(_asked(lambda api: api.run(str(path).removeprefix(SERVER)), path), path, trainer)
    if path.is_dir() or path.suffix == ".wandb":
        return _offline(_file(path, run), trainer)
    if path.suffix.lower() in (".csv", ".tsv"):
        return log_of(_csv_rows(path, run), path, named=trainer)
    rows, said = json_lines(path)
    return log_of(rows, path, named=trainer, said=said)


# ---- its server ----


def project(address: str) -> list[Any]:
    """Return the runs of `wandb:ENTITY/PROJECT`, oldest first, as wandb's public API has them. Raises `ForeignLogError`."""
    name = address.removeprefix(SERVER)
    return _asked(lambda api: sorted(api.runs(name), key=lambda one: str(one.created_at)), address)


def served(run: Any, where: object, trainer: str | None = None) -> Log:
    """Return the whole history of a run of wandb's public API; its `history` would be a sample. Raises `ForeignLogError`."""
    rows = _asked(lambda _: list(run.scan_history()), where)
    config = {key: value for key, value in dict(run.config).items() if not key.startswith("_")}
    return log_of(rows, where, named=trainer, config=config)


def _asked(ask: Callable[[Any], Any], where: object) -> Any:
    if importlib.util.find_spec("wandb") is None:
        raise ForeignLogError(f"{where} needs wandb: pip install -e '.[track]'")
    try:
        return ask(importlib.import_module("wandb").Api())
    except Exception as error:  # wandb's and its transport's: not logged in, no such run, no network
        said = str(error).strip().partition("\n")[0]
        raise ForeignLogError(
            f"wandb does not give {where}: {said}; it wants WANDB_API_KEY (or `wandb login`) and ENTITY/PROJECT/RUN as its page's "
            "address has them"
        ) from error


# ---- files of a run ----


def _file(path: Path, run: str | None) -> Path:
    """Return the `.wandb` file of a folder, or the one of several that `run` names."""
    if path.is_file():
        return path
    files = sorted(path.rglob("*.wandb")) if path.is_dir() else []
    if not files:
        raise ForeignLogError(
            f"{path} is no wandb file and holds none; give run-ID.wandb or the folder that it lies in"
        )
    ids = {file.stem.removeprefix("run-"): file for file in files}
    if len(ids) == 1:
        return files[-1]
    if run not in ids:
        raise ForeignLogError(
            f"{path} holds {len(ids)} runs; choose one with run=: {', '.join(sorted(ids))}, or take all with folder="
        )
    return ids[run]


def _offline(path: Path, trainer: str | None) -> Log:
    """Read a run's file by `wandb leet inspect`; what is torn or corrupt is left out there, and said."""
    if importlib.util.find_spec("wandb") is None:
        raise ForeignLogError(
            f"{path} needs wandb's own reader: pip install -e '.[track]', or export the history as CSV"
        )
    command = [sys.executable, *_READER, str(path)]
    quiet = {**os.environ, "WANDB_ERROR_REPORTING": "false", "WANDB_MODE": "offline"}
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env=quiet, stdin=subprocess.DEVNULL
    )
    said = [
        line.partition("inspect: ")[2]
        for line in done.stderr.splitlines()
        if line.startswith("wandb leet inspect: ")
    ]
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no word"])[-1]
        raise ForeignLogError(
            f"{path}: {_TOO_OLD if 'No such' in done.stderr else f'wandb does not read it: {last}'}"
        )
    rows, config = records(done.stdout.splitlines())
    if not rows:
        raise ForeignLogError(
            f"{path} holds no history{f' ({said[0]})' if said else ''}; a run that logged nothing cannot be compared"
        )
    return log_of(rows, path, named=trainer, said=[f"{path.name}: {line}" for line in said], config=config)


def records(lines: Iterable[str]) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """Return a run's history and its configuration from the reader's lines of JSON."""
    rows: list[dict[str, Any]] = []
    config: dict[str, Any] = {}
    for record in map(json.loads, filter(None, lines)):
        kind, content = record.get("type"), record.get(record.get("type"), {})
        if kind == "history":
            rows.append({"_step": content.get("step", {}).get("num", 0), **content.get("item", {})})
        elif kind == "run":
            config |= _settings(content.get("config", {}))
        elif kind == "config":
            config |= _settings(content)
    return rows, config


def _settings(content: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in content.get("update", {}).items() if not key.startswith("_")}


# ---- exports ----


def _csv_rows(path: Path, run: str | None) -> list[dict[str, Any]]:
    """Rows of an exported table; `name - metric` headers are one run's, `__MIN` and `__MAX` are the chart's envelope."""
    reader, headers = _table(path)
    runs = _runs(headers)
    if len(runs) > 1 and run not in runs:
        raise ForeignLogError(f"{path} holds {len(runs)} runs; choose one with run=: {', '.join(runs)}")
    chosen = run if run is not None else (runs[0] if runs else None)
    if run is not None and run not in runs:
        raise ForeignLogError(f"{path} has no run {run!r}; runs: {', '.join(runs) or 'one, without a name'}")
    names = {name: name.removeprefix(f"{chosen} - ") for name in headers}
    kept = {name: own for name, own in names.items() if " - " not in name or name.startswith(f"{chosen} - ")}
    return [{own: row[name] for name, own in kept.items() if row.get(name)} for row in reader]


def runs_of(path: Path) -> list[str]:
    """Return the names of the runs in an exported table, none where it is one run's without a name. Raises `ForeignLogError`."""
    return _runs(_table(path)[1])


def _table(path: Path) -> tuple[csv.DictReader[str], list[str]]:
    delimiter = "\t" if path.suffix.lower() == ".tsv" else ","
    reader = csv.DictReader(io.StringIO(read_text(path)), delimiter=delimiter)
    return reader, [name for name in reader.fieldnames or [] if not re.search(r"__(MIN|MAX)$", name or "")]


def _runs(headers: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(name.partition(" - ")[0] for name in headers if " - " in name))

"""A folder of runs as one experiment."""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harness.configuration.error import require
from harness.configuration.flat import flatten
from harness.exchange.importers import wandb
from harness.exchange.importers._arms import group
from harness.exchange.importers._config import config_of
from harness.exchange.importers._format import TABLES, TEXTS, format_of
from harness.exchange.importers._log import ForeignLogError, Log, same_run
from harness.exchange.importers._store import SCORE_UNITS, Import, Imported, import_log, read_log
from harness.store import ResultStore

_SHOWN = 4  # names of files in a line
_LARGEST = 200 * 10**6  # bytes of a text
_INSIDE = re.compile(
    r"/(?:checkpoint-\d+|runs/[^/]+(?:/[^/]+)?|wandb/(?:offline-)?run-[^/]+|wandb|trainer|orchestrator|run_default)$"
)


@dataclass
class Run:
    """One run of a folder: its name there, the log that is read, its configuration, and the logs beside it."""

    name: str
    path: Path
    format: str
    log: Log
    config: Mapping[str, Any] = field(default_factory=dict)


@dataclass
class Folder:
    """An account of a folder: runs with what became of them, what was left out and why, what is to be known, files that are no logs."""

    imported: list[tuple[str, str, int, Imported]] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    no_logs: list[str] = field(default_factory=list)


def import_folder(store: ResultStore, folder: str, request: Import, by: Sequence[str]) -> Folder:
    """Make one experiment of the runs in a folder, or of `wandb:ENTITY/PROJECT`: arms by what differs in their configurations.

    Args:
        store: where to.
        folder: where from.
        request: what all runs share: experiment, score, unit and so on; its path, arm and seed are not looked at.
        by: see `group`.

    Raises:
        ConfigError: no such unit, key or arm.
        ForeignLogError: no run can be read.
        StoreError: the store cannot be written.
    """
    require("unit", request.unit, list(SCORE_UNITS))
    found = Folder()
    served = folder.startswith(wandb.SERVER)
    runs = _one_log_each(
        list(_of_project(folder, request, found) if served else _of_folder(Path(folder), request, found)),
        found,
    )
    if found.no_logs:
        shown = ", ".join(found.no_logs[:_SHOWN]) + ", ..." * (len(found.no_logs) > _SHOWN)
        found.said.append(
            f"{len(found.no_logs)} files are no logs that are known: {shown}; path= and format= take one all the same"
        )
    if not runs:
        raise ForeignLogError(
            "\n  ".join(
                [f"{folder} has no run that can be read; path= takes one log", *found.left, *found.said]
            )
        )
    grouping = group(
        {run.name: run.config for run in runs}, {run.name: run.log.steps[-1].step for run in runs}, by
    )
    found.said += grouping.said
    found.left += [f"{name}: {why}" for name, why in sorted(grouping.left.items())]
    arms = list(dict.fromkeys(grouping.placed[run.name].arm for run in runs if run.name in grouping.placed))
    if request.parent is not None:
        require("parent", request.parent, arms)
    first = request.parent or next(iter(arms), "")
    base = next((place.settings for place in grouping.placed.values() if place.arm == first), {})
    # the first run makes the first arm, which the others are compared with
    for run in sorted(
        (run for run in runs if run.name in grouping.placed),
        key=lambda run: grouping.placed[run.name].arm != first,
    ):
        place = grouping.placed[run.name]
        changes = {
            key: [base.get(key), value] for key, value in place.settings.items() if value != base.get(key)
        }
        one = dataclasses.replace(
            request, path=run.path, arm=place.arm, seed=place.seed, format=run.format, parent=None
        )
        try:
            found.imported.append((run.name, place.arm, place.seed, import_log(store, one, run.log, changes)))
        except ForeignLogError as error:
            found.left.append(f"{run.name}: {error}")
    return found


def _of_project(address: str, request: Import, found: Folder) -> Iterator[Run]:
    """Read the runs of a project on wandb's server."""
    for run in wandb.project(address):
        place = Path(f"{address}/{run.id}")
        try:
            log = wandb.served(run, place, request.trainer)
        except ForeignLogError as error:
            found.left.append(f"{run.name}: {error}")
            continue
        found.said += [f"{run.name}: {line}" for line in log.said]
        yield Run(f"{run.name} ({run.id})", place, "wandb", log, flatten(dict(log.config)))


# ---- a folder's logs ----


def _of_folder(top: Path, request: Import, found: Folder) -> Iterator[Run]:
    """Read the best log of every run in a folder. Raises `ForeignLogError` where there is no such folder."""
    if not top.is_dir():
        raise ForeignLogError(f"{top} is no folder; path= takes one log")
    for (home, name), paths in sorted(_by_run(top, found).items()):
        if (
            paths[0].suffix.lower() in TABLES and len(runs := wandb.runs_of(paths[0])) > 1
        ):  # a chart of many runs
            for run in runs:
                log = _read(paths[0], request, found, run)
                yield from [] if log is None else [Run(run, paths[0], "wandb", log)]
            continue
        read = next(((path, log) for path in paths if (log := _read(path, request, found)) is not None), None)
        if read is None:
            continue
        path, log = read
        found.said += [f"{name}: {line}" for line in log.said]
        found.said += [
            f"{name}: read {path.name}, beside it {other.name}" for other in paths if other != path
        ]
        config = flatten(dict(log.config)) or config_of(home, path, top)
        yield Run(name, path, format_of(path), log, config)


def _read(path: Path, request: Import, found: Folder, run: str | None = None) -> Log | None:
    try:
        return read_log(dataclasses.replace(request, path=path, run=run), format_of(path))
    except ForeignLogError as error:
        found.left.append(f"{error}")
        return None


def _by_run(top: Path, found: Folder) -> dict[tuple[Path, str], list[Path]]:
    """Return the logs of each run by its folder and name, the most exact first: a trainer's state, wandb's, TensorBoard's, texts.

    A run is what lies in one folder; files in a folder without any of the first three are a run each, one name with several endings one.
    """
    folders: dict[Path, list[Path]] = {}
    files: dict[Path, list[Path]] = {}
    for path in _files(top):
        home = _home(path.parent, top)
        if path.name == "trainer_state.json":
            folders.setdefault(home, []).append(home)
        elif path.suffix == ".wandb" or "tfevents" in path.name:
            folders.setdefault(home, []).append(path if path.suffix == ".wandb" else path.parent)
        elif (
            path.suffix.lower() in TEXTS | TABLES
            and "wandb" not in path.parts[-4:-1]
            and _is_log(path, found)
        ):
            files.setdefault(home, []).append(path)
    runs: dict[tuple[Path, str], list[Path]] = {}
    for home, logs in folders.items():
        many = [path for path in logs if path.suffix == ".wandb"]
        if len(many) > 1 and not _has_state(home):  # of many runs into one folder `wandb`
            runs |= {(path.parent, _name(path.parent, top)): [path] for path in many}
            logs = [path for path in logs if path not in many]
        beside = [*logs, *files.pop(home, [])]
        if beside:
            runs[home, _name(home, top)] = sorted(dict.fromkeys(beside), key=_rank)
    for home, logs in files.items():
        for path in sorted(logs, key=_rank):
            runs.setdefault((home, _name(home / path.stem, top)), []).append(path)
    return runs


def _files(top: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(top):
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield from (Path(place) / name for name in sorted(names))


def _home(place: Path, top: Path) -> Path:
    """Return the folder of the run that a log lies in: less what trainers and trackers put between."""
    inside = f"/{place.relative_to(top).as_posix()}"
    while match := _INSIDE.search(inside):
        inside = inside[: match.start()]
    return top / inside.lstrip("/")


def _name(path: Path, top: Path) -> str:
    return path.relative_to(top).as_posix() if path != top else top.resolve().name


def _has_state(home: Path) -> bool:
    return (home / "trainer_state.json").is_file() or any(home.glob("checkpoint-*/trainer_state.json"))


def _rank(path: Path) -> tuple[int, str]:
    exact = (
        path.is_dir() and _has_state(path),
        path.suffix == ".wandb",
        path.is_dir(),
        path.suffix in (".json", ".jsonl"),
    )
    return exact.index(True) if True in exact else len(exact), path.name


def _is_log(path: Path, found: Folder) -> bool:
    if path.stat().st_size > _LARGEST:
        found.said.append(
            f"{path} is not looked at: over {_LARGEST // 10**6} MB; if it is a log, path= takes it"
        )
        return False
    try:
        return bool(format_of(path))
    except ForeignLogError:
        if path.suffix.lower() not in (".json", ".txt"):  # those are mostly something else
            found.no_logs.append(path.name)
        return False


# ---- two logs of one run ----


def _one_log_each(runs: Sequence[Run], found: Folder) -> list[Run]:
    """Leave one of two logs with the same numbers, the longer one: they are of one run, and no replicates."""
    kept: list[Run] = []
    for run in sorted(
        runs, key=lambda run: _rank(run.path)[0]
    ):  # the most exact of two that are equally long
        twin = next(
            (number for number, other in enumerate(kept) if same_run(other.log.rows(), run.log.rows())), None
        )
        if twin is None:
            kept.append(run)
            continue
        less, more = sorted((kept[twin], run), key=lambda one: one.log.steps[-1].step)
        if less.log.steps[-1].step == more.log.steps[-1].step:
            less, more = run, kept[twin]
        more.config = more.config or less.config
        kept[twin] = more
        found.said.append(
            f"{less.name} is another log of the run {more.name}: it has the same numbers; it is not counted again"
        )
    return sorted(kept, key=lambda run: runs.index(run))

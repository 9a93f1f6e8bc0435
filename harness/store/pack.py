"""An experiment as one file, and results of other places: plans, and of each run what a report reads (`layout.files_to_move`)."""

import lzma
import math
import shutil
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from harness.store import atomic, layout, seal
from harness.store.error import StoreError
from harness.store.lease import acquire
from harness.store.reader import ResultStore
from harness.store.run import RunDir

_OF_NOBODY: dict[str, Any] = {"mtime": 0, "mode": 0o644, "uid": 0, "gid": 0, "uname": "", "gname": ""}
# A pack of ours is a fifth to a third of its content, and a file takes at least some hundred bytes of it.
_LEAST_BYTES, _MOST_TIMES, _LEAST_FILES, _BYTES_OF_A_FILE = 1 << 28, 20, 1000, 32


def write_pack(store: ResultStore, experiment: str, out: Path) -> tuple[int, int, list[str]]:
    """Write what a report of an experiment and of its first parts reads, the same bytes for the same content.

    Returns how many runs it holds, how many are planned, and why runs are left out that finished and lack a file since, or whose manifest
    cannot be read. Raises `StoreError`.
    """
    parts = [str(part["experiment"]) for part in store.plan(experiment).get("parts") or ()]
    names = dict.fromkeys([experiment, *(name for name in parts if name in store.plans())])
    arms = [arm for name in names for arm in store.plan(name)["arms"]]
    runs = [store.run(run_id) for run_id in sorted({run_id for arm in arms for run_id in arm["runs"].values()})]
    faults = {run.run_id: fault for run in runs if (fault := run.fault())}
    whole = [run.path for run in runs if run.exists() and run.run_id not in faults]

    def write(path: Path) -> None:
        with tarfile.open(path, "w:xz", preset=9) as archive:
            for folder in (*(layout.experiment_dir(store.root, name) for name in names), *whole):
                for name, file in layout.files_to_move(store.root, folder).items():
                    archive.add(file, name, filter=lambda entry: entry.replace(**_OF_NOBODY, deep=False))

    atomic.publish_file(out, write)
    return len(whole), len(runs), list(faults.values())


def merge(store: ResultStore, source: Path) -> tuple[int, list[str]]:
    """Take over what a pack or another results root holds. Returns how many runs are new, and what stays there, with the reason.

    What finished here is never replaced. Raises `StoreError`: there is no pack and no root, or this one cannot be written.
    """
    runs = layout.runs_dir(store.root)
    with acquire(store.cache_dir("leases") / "merge.lock", wait_seconds=math.inf), atomic.write_errors(runs):
        atomic.make_folder(runs)
        atomic.remove_leftovers(runs)  # of a merge that was killed
        if source.is_dir():
            return _merge_root(store, ResultStore(source))
        with tempfile.TemporaryDirectory(dir=runs, prefix=".", suffix=".tmp") as folder:
            _unpack(source, Path(folder))
            return _merge_root(store, ResultStore(folder))


def _unpack(pack: Path, folder: Path) -> None:
    """Unpack what `write_pack` wrote. Raises `StoreError` for a torn file, and for one that holds anything else."""
    try:
        size = pack.stat().st_size
        room, most_files = max(_LEAST_BYTES, _MOST_TIMES * size), max(_LEAST_FILES, size // _BYTES_OF_A_FILE)
        with tempfile.TemporaryFile(dir=folder) as content, lzma.open(pack) as stream:
            while block := stream.read(1 << 20):
                if (room := room - content.write(block)) < 0:
                    raise StoreError(f"{pack} holds more than {_MOST_TIMES} times its size; nothing of it is taken")
            content.seek(0)
            with tarfile.open(fileobj=content, mode="r:") as archive:
                for number, entry in enumerate(archive):
                    is_plain = entry.isreg() and not entry.issparse() and number < most_files
                    if not (is_plain and layout.may_move(entry.name)):
                        raise StoreError(f"{pack}: {entry.name[:200]!r} is in no pack of ours; nothing of it is taken")
                    archive.extract(entry, folder, filter="data")
    except (tarfile.TarError, lzma.LZMAError, EOFError, ValueError, FileNotFoundError) as error:
        raise StoreError(f"{pack} is no folder and no pack, or it is torn ({error}); copy it again") from error


def _merge_root(store: ResultStore, other: ResultStore) -> tuple[int, list[str]]:
    if other.root.resolve() == store.root.resolve() or not layout.runs_dir(other.root).is_dir():
        raise StoreError(f"{other.root} is no results root of another place with runs/; name such a folder, or a pack")
    new, left = 0, other.problems()
    for run_id in other.run_ids():
        try:
            new += _merge_run(store.run(run_id), other.run(run_id))
        except (StoreError, OSError) as error:  # OSError: a folder where a file is, a disk that does not read
            left.append(f"run {run_id} stays there: {error}")
    for name in other.plans():
        try:
            other.plan(name)
        except StoreError:  # `problems` names it
            continue
        for file, path in layout.files_to_move(other.root, layout.experiment_dir(other.root, name)).items():
            here, content = store.root / file, path.read_bytes()
            if path.name == layout.DECLARED and here.exists():  # lines begin with their times
                content = b"".join(sorted({*here.read_bytes().splitlines(True), *content.splitlines(True)}))
            elif here.exists() and here.read_bytes() != content:
                left.append(f"{file} here stays; `harness run` with the arms and seeds of both finds all their runs")
                continue
            atomic.write_file(here, content)
    return new, left


def _merge_run(ours: RunDir, theirs: RunDir) -> bool:
    """Take a run that is not here, or that is not finished here and is there. Raises `StoreError` with the reason why it stays there."""
    if fault := theirs.fault():
        raise StoreError(fault)
    paths, is_finished = layout.files_to_move(theirs.path.parents[1], theirs.path).values(), theirs.status == "finished"
    if missing := set(layout.report_files(theirs.path).values()).difference(paths):
        raise StoreError(f"its file {min(missing).relative_to(theirs.path)} is a link, or has no name of ours")

    def write(folder: Path) -> None:
        for path in paths:
            copy = folder / path.relative_to(theirs.path)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, copy)

    with ours.lock():  # it may end here meanwhile
        if ours.status == "finished" and not ours.fault():
            if is_finished and _samples(ours) != _samples(theirs):
                raise StoreError("it finished here with other results; another runtime.results takes those")
            return False
        if is_taken := not ours.exists() or (is_finished and ours.status != layout.UNREADABLE):
            atomic.publish_directory(ours.path, write)
    return is_taken


def _samples(run: RunDir) -> object:
    return seal.seal_of({name: path for name, path in layout.report_files(run.path).items() if "/" in name})

"""An experiment as one file: a compressed tar of its plan and of what its report reads of its runs, and the way back.

The same content gives the same bytes: names are sorted, times and owners are zero.
"""

from __future__ import annotations

import json
import lzma
import math
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from collections.abc import Container, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import IO, Any

from harness.store import atomic, layout, seal
from harness.store.atomic import StoreError, StoreFull, StoreReadOnly, write_errors
from harness.store.layout import read_object
from harness.store.lease import Lease, acquire
from harness.store.metrics_log import new_rows
from harness.store.reader import ResultStore, plan_text, read_plan
from harness.store.run import RunDir

SUFFIX = ".tar.xz"
_OF_AN_EXPERIMENT = (layout.PLAN, layout.DECLARATION, layout.STUDY)


def experiment_files(folder: Path) -> list[Path]:
    """List the files that say what an experiment asked, without the tables and figures that are made of it."""
    return [path for name in _OF_AN_EXPERIMENT if (path := folder / name).is_file()]


def write_pack(store: ResultStore, experiment: str, out: str, *, checkpoints: bool = False) -> dict[str, str]:
    """Write an experiment as one file, a path or an address such as `s3://bucket/NAME.tar.xz`; returns the status of each run in it by id.

    A run that finished and lacks a file since, or whose manifest cannot be read, is left out.

    Raises:
        StoreError: there is no such experiment, or the file cannot be written.
    """
    ids = {str(run_id) for arm in store.plan(experiment)["arms"] for run_id in arm["runs"].values()}
    files: dict[Path, bytes | None] = dict.fromkeys(experiment_files(layout.plan_file(store.root, experiment).parent))
    statuses: dict[str, str] = {}
    for run in map(store.run, sorted(ids)):
        if run.fault():
            continue
        with suppress(FileNotFoundError, NotADirectoryError):  # not started, or deleted meanwhile
            # Read before its files are listed: a run that finishes from here on is packed as it was.
            manifest = (run.path / layout.MANIFEST).read_bytes()
            statuses[run.run_id] = json.loads(manifest)["status"]
            files |= {**dict.fromkeys(layout.report_files(run.path).values()), run.path / layout.MANIFEST: manifest}
            if checkpoints:
                folders = (folder.rglob("*") for _, folder in run.checkpoints())
                files |= dict.fromkeys(path for paths in folders for path in paths if path.is_file())
                # A resumed run keeps its kernel.
                files |= dict.fromkeys(run.path.glob(f"attempts/[0-9]*/{layout.NUMERICS}"))
    # Checkpoints are gigabytes that hardly shrink.
    preset = 1 if checkpoints else 9 | lzma.PRESET_EXTREME
    if "://" not in out:
        atomic.publish_file(Path(out), lambda temporary: _write_archive(store.root, files, temporary, preset))
        return statuses
    with tempfile.TemporaryDirectory(prefix="harness-pack-") as folder:
        _write_archive(store.root, files, Path(folder) / "pack", preset)
        with _storage_errors(out):
            import fsspec

            system, path = fsspec.core.url_to_fs(out)
            system.put_file(str(Path(folder) / "pack"), path)
    return statuses


def _write_archive(root: Path, files: Mapping[Path, bytes | None], out: Path, preset: int) -> None:
    """Write the files with this content; None: what they hold now."""
    with lzma.open(out, "wb", preset=preset) as stream, tarfile.open(fileobj=stream, mode="w") as archive:
        for path in sorted(files):
            content = files[path]
            # A file of a run under way may be gone since.
            with suppress(FileNotFoundError), path.open("rb") if content is None else BytesIO(content) as file:
                entry = tarfile.TarInfo(path.relative_to(root).as_posix())  # mode 644, times and owners zero
                entry.size = file.seek(0, os.SEEK_END)
                file.seek(0)
                archive.addfile(entry, file)


@contextmanager
def open_root(source: str) -> Iterator[Path]:
    """Give the results root at `source`: a folder as it is, a pack (a path or an address) unpacked into a folder that goes afterwards.

    Raises:
        StoreError: it is neither, it is torn, or it holds something that no pack of `harness pack` holds.
    """
    if Path(source).is_dir():
        yield _root(Path(source), source)
        return
    with _passing_folder() as folder:
        _extract_archive(source, folder)
        yield _root(folder, source)


@contextmanager
def _passing_folder() -> Iterator[Path]:
    """A folder that goes with this block, or with this process, however it ends: another process waits for that, and removes it."""
    with tempfile.TemporaryDirectory(prefix="harness-pack-", ignore_cleanup_errors=True) as folder:
        cleanup = ["sh", "-c", 'cat; rm -rf -- "$1"', "sh", folder]
        # A session of its own: Ctrl-C is for this process.
        with subprocess.Popen(cleanup, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True):
            yield Path(folder)


# What `write_pack` writes. Steps and parts have no more than one name each. One name begins with a dot: the index of torch's shards.
_NAMES = re.compile(
    r"experiments/{0}/(?:plan\.json|claim\.json|study\.journal)|runs/[0-9a-f]{{16}}/(?:config\.yaml|manifest\.json|metrics\.jsonl"
    r"|samples/{0}/step-\d{{6,9}}/part-{0}\.parquet|checkpoints/step-\d{{6,9}}/(?:shards/\.metadata|{0}(?:/{0}){{0,4}})"
    r"|attempts/\d{{3,9}}/numerics\.json)"
    .format(r"\w[\w=+.-]{0,200}"), re.ASCII
)  # fmt: skip
# A pack of ours is a fifth to a third of its content. Beyond the first GiB one that claims a hundredth is a bomb.
_LEAST_BYTES, _MOST_TIMES = 1 << 30, 100
_BLOCK = 4096  # bytes that the smallest file takes
_HEADER = 1 << 16  # bytes that stand between two files at most


class _BoundedStream:
    """A stream that gives no more than the archive has declared so far."""

    def __init__(self, stream: IO[bytes], source: str) -> None:
        self._stream, self._source, self.remaining_bytes = stream, source, _HEADER

    def read(self, size: int) -> bytes:
        content = self._stream.read(size)
        self.remaining_bytes -= len(content)
        if self.remaining_bytes < 0:
            raise StoreError(f"{self._source} has more in it than it declares; nothing of it is taken")
        return content


def _extract_archive(source: str, folder: Path) -> None:
    with write_errors(folder):
        try:
            with _storage_errors(source):
                import fsspec

                stream = fsspec.open(source, "rb").open()
                max_bytes = max(_LEAST_BYTES, _MOST_TIMES * stream.seek(0, os.SEEK_END))
                stream.seek(0)
            with stream as file, lzma.open(file) as content:
                bounded_stream = _BoundedStream(content, source)
                with tarfile.open(fileobj=bounded_stream, mode="r|") as archive:  # type: ignore[call-overload]
                    total, names = 0, set[str]()
                    for entry in archive:
                        total += max(entry.size, _BLOCK)
                        if fault := _fault(entry, names, total > max_bytes):
                            raise StoreError(f"{source}: {fault}; nothing of it is taken")
                        names.add(entry.name)
                        bounded_stream.remaining_bytes += entry.size + _HEADER
                        archive.extract(entry, folder, filter="data")
                # A broken header ends the archive like its end does; the checksums of all before stand at the very end.
                while rest := bounded_stream.read(_HEADER):
                    if rest.strip(b"\0"):
                        raise EOFError("its archive breaks off")
        except (tarfile.TarError, lzma.LZMAError, EOFError, FileExistsError, NotADirectoryError) as error:
            raise StoreError(f"{source} is torn, or no pack of `harness pack` ({error}); copy it again") from error


def _fault(entry: tarfile.TarInfo, names: Container[str], is_too_large: bool) -> str:
    """Say what a pack of ours would not hold, in words."""
    if not entry.isreg() or entry.issparse():
        return f"{entry.name[:200]!r} is no plain file, and a pack holds nothing else"
    if not _NAMES.fullmatch(entry.name):
        return f"{entry.name[:200]!r} is no file of an experiment or a run"
    if entry.name in names:
        return f"{entry.name} is in it twice"
    return f"it would take more than {_LEAST_BYTES >> 30} GiB and {_MOST_TIMES} times its size" if is_too_large else ""


@contextmanager
def _storage_errors(address: str) -> Iterator[None]:
    """Turn what `fsspec` raises into `StoreError`: a missing file, or a kind of storage whose package is not installed."""
    try:
        yield
    except FileNotFoundError as error:
        bucket = ", or no such bucket" if "://" in address else ""
        raise StoreError(f"there is no folder and no pack {address}{bucket}") from error
    except Exception as error:  # a storage's package raises its own: no address, no credentials
        raise StoreError(f"{address} cannot be reached: {error}") from error


def _root(folder: Path, source: str) -> Path:
    if not (layout.runs_dir(folder).is_dir() or layout.experiments_dir(folder).is_dir()):
        raise StoreError(f"{source} holds no results: neither runs/ nor experiments/ lies in it")
    return folder


_OF_THIS_MACHINE = {layout.CLAIM_LOCK, layout.WORKER_LOCK, layout.TRACKING}
# Seeds and runs of two plans that ask the same are put together; these say when and how they were asked.
OF_A_COMMAND = ("command", "checks", "decisions")


@dataclass
class MergeResult:
    """An account of the runs of one root: how many are new or were there, what was chosen, and what stays apart."""

    new: int = 0
    same: int = 0
    notes: list[str] = field(default_factory=list)
    conflicts: list[str] = field(default_factory=list)


def merge_lock(store: ResultStore, *, wait_seconds: float = 0.0) -> Lease:
    """The lock of whoever adds and removes whole runs and experiments. Raises as `acquire`."""
    return acquire(store.cache_dir("leases") / "merge.lock", wait_seconds=wait_seconds)


def merge(store: ResultStore, root: Path) -> MergeResult:
    """Take over what another root holds. A finished run beats an unfinished one, of two unfinished ones the further one stays.

    A run or plan that both have with different content stays as it is here and is named; everything else is taken all the same.

    Raises:
        StoreError: the roots are one folder, or this one cannot be written.
    """
    if root.resolve() == store.root.resolve():
        raise StoreError(f"{root} is the results root itself; give another folder or a pack")
    source, result = ResultStore(root), MergeResult()
    result.conflicts += source.problems()
    # One merge at a time, so that what a killed one was copying can go.
    with merge_lock(store, wait_seconds=math.inf):
        atomic.remove_leftovers(layout.runs_dir(store.root))
        for run_id in source.run_ids():
            try:
                _merge_run(store.run(run_id), source.run(run_id), result)
            except (StoreFull, StoreReadOnly):
                raise
            except (StoreError, OSError) as error:  # a folder where a file is, a disk that does not read
                result.conflicts.append(f"run {run_id}: {error}")
        _merge_experiments(store, source, result)
    return result


def _merge_experiments(store: ResultStore, source: ResultStore, result: MergeResult) -> None:
    for name in source.plans():
        try:
            for path in experiment_files(layout.plan_file(source.root, name).parent):
                ours = layout.plan_file(store.root, name).with_name(path.name)
                content = _read_content(path)
                if not ours.exists():
                    atomic.write_file(ours, path.read_bytes())
                elif ours.read_bytes() != path.read_bytes():
                    _join_files(ours, content, f"experiment {name}", result)
        except (StoreFull, StoreReadOnly):
            raise
        except (StoreError, OSError, ValueError, KeyError, TypeError) as error:
            if str(error) not in result.conflicts:  # `problems` said it
                result.conflicts.append(f"experiment {name}: {error}")


def _merge_run(ours: RunDir, theirs: RunDir, result: MergeResult) -> None:
    manifest = theirs.manifest(hashes=True) or {}
    if manifest.get("status") == layout.INCOMPLETE:
        result.conflicts.append(f"run {ours.run_id} is not taken: {manifest['error']}")
        return
    if not ours.path.exists():
        atomic.publish_directory_once(ours.path, partial(_copy_run, theirs.path))
        result.new += 1
        return
    if ours.exists() and _is_same(ours, theirs):
        result.same += 1
        for _, path in theirs.checkpoints():
            atomic.publish_directory_once(ours.path / "checkpoints" / path.name, partial(_copy_tree, path))
        return
    if _is_better(theirs, ours):
        with ours.lock():
            if _is_better(theirs, ours):  # it may have gone on, or ended, before the lock was free
                here = _describe(ours)
                atomic.publish_directory(ours.path, partial(_copy_run, theirs.path))
                result.notes.append(f"run {ours.run_id}: taken, {_describe(theirs)} (here: {here})")
                return
    if ours.status == layout.UNREADABLE:
        result.conflicts.append(f"run {ours.run_id} stays as it is here: {ours.fault()}")
    elif ours.status == theirs.status == "finished":
        result.conflicts.append(
            f"run {ours.run_id} finished in both places with different results; the one here stays. To keep the other one too, "
            "merge it into another runtime.results"
        )
    else:
        result.notes.append(f"run {ours.run_id}: kept, {_describe(ours)} (there: {_describe(theirs)})")


def _is_better(theirs: RunDir, ours: RunDir) -> bool:
    """Whether a run may take the place of the one here.

    One here that finished and lost or changed a file gives way to a finished one alone; one that cannot be read, perhaps of a newer
    version, to none.
    """
    status = _status(ours)
    if status in ("finished", layout.UNREADABLE):
        return False
    if theirs.status == "finished":
        return True
    return status != layout.INCOMPLETE and _progress(theirs) > _progress(ours)


def _copy_run(source: Path, target: Path) -> None:
    """Copy a run. Raises `StoreError` where the copy lacks a file that a report reads."""
    names = layout.report_files(source).keys()
    _copy_tree(source, target)
    files = layout.report_files(target)
    seals = (read_object(target / layout.MANIFEST, fix="merge again") or {}).get(layout.FILES)
    missing = sorted(names - files.keys())
    fault = f"{missing[0]} is missing" if missing else seals and seal.file_fault(files, seals, hashes=False)
    if fault:
        raise StoreError(
            f"not taken, for its copy is not whole ({fault}); if it went on meanwhile, merge again; links are not followed: put what they "
            "lead to in their place"
        )


def _copy_tree(source: Path, target: Path) -> None:
    shutil.copytree(source, target, ignore=partial(_list_omissions, str(source)), dirs_exist_ok=True)


def _list_omissions(run: str, folder: str, names: list[str]) -> set[str]:
    """A run's locks and what it sent to trackers, what is being written, and links, which may lead anywhere."""
    return {
        name
        for name in names
        if (name in _OF_THIS_MACHINE and folder == run)
        or (name.startswith(".") and name.endswith(".tmp"))
        or os.path.islink(os.path.join(folder, name))
    }


def _is_same(ours: RunDir, theirs: RunDir) -> bool:
    """Whether two runs hold the same: byte for byte, or what they found where both have finished."""
    if _content(ours) == _content(theirs):
        return True
    return _status(ours) == theirs.status == "finished" and _findings(ours) == _findings(theirs)


def _content(run: RunDir) -> dict[str, bytes]:
    files = {**layout.report_files(run.path), layout.MANIFEST: run.path / layout.MANIFEST}
    return {name: path.read_bytes() for name, path in files.items()}


def _findings(run: RunDir) -> tuple[dict[str, bytes], list[dict[str, Any]]]:
    """Samples and metrics, without what tells when, where and how fast: times, attempts, and the `runtime` of `config.yaml`."""
    samples = {name: path.read_bytes() for name, path in layout.report_files(run.path).items() if "/" in name}
    rows, _ = new_rows(run.path / layout.METRICS_FILE, 0)
    return samples, [
        {key: value for key, value in row.items() if key != "attempt" and not key.startswith("seconds_")}
        for row in rows
    ]


def _progress(run: RunDir) -> tuple[int, int]:
    """The newest checkpoint of a run, from which it would go on, and its last step; -1 for none."""
    return run.resume_step(), int((run.last_step() or {"step": -1})["step"])


def _status(run: RunDir) -> str | None:
    """The status of a run by what its files hold, too."""
    return layout.INCOMPLETE if run.status == "finished" and run.fault() else run.status


def _describe(run: RunDir) -> str:
    if (status := _status(run)) in ("finished", layout.INCOMPLETE):
        return "finished" if status == "finished" else "finished, a file is gone or changed"
    checkpoint, step = _progress(run)
    return f"unfinished, {max(step, 0)} steps, {f'checkpoint {checkpoint}' if checkpoint >= 0 else 'no checkpoint'}"


# ---- experiments ----


def _read_content(path: Path) -> dict[str, Any]:
    """The content of a plan or of a claim's declaration; nothing of a study. Raises `StoreError`."""
    if path.name == layout.STUDY:
        return {}
    return (read_plan(path) if path.name == layout.PLAN else read_object(path, fix="delete it")) or {}


def _join_files(ours: Path, their_content: Mapping[str, Any], subject: str, result: MergeResult) -> None:
    """Put together a file of an experiment and what the other root's says, or name what stays apart."""
    if ours.name != layout.STUDY:
        our_content = _read_content(ours)
        content = (
            _join_plans(our_content, their_content)
            if ours.name == layout.PLAN
            else min(our_content, their_content, key=lambda claim: str(claim.get("first_run_at")))
        )
        if content is not None:
            text = json.dumps(content, indent=1, allow_nan=False).encode() + b"\n"
            atomic.write_file(ours, plan_text(content) if ours.name == layout.PLAN else text)
            return
    result.conflicts.append(
        f"{subject}: {ours.name} asks something else there; the one here stays. Its runs are taken: `harness run` with the arms and "
        "seeds of both finds them finished. To keep both answers, merge it into another runtime.results"
    )


def _join_plans(plan: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any] | None:
    """The plan with the runs of both, None where they differ in more than seeds and where these start."""
    if _question(plan) != _question(other):
        return None
    arms = [
        {**arm, "runs": _by_seed({**arm["runs"], **other_arm["runs"]})}
        for arm, other_arm in zip(plan["arms"], other["arms"], strict=True)
    ]
    seeds = sorted({*plan["seeds"], *other["seeds"]})
    ours, theirs = plan.get("starts") or {}, other.get("starts") or {}
    if any(theirs.get(seed, start) != start for seed, start in ours.items()):
        return None
    starts = {"starts": _by_seed({**ours, **theirs})} if ours or theirs else {}
    return {**{key: value for key, value in plan.items() if key != "decisions"}, **starts, "seeds": seeds, "arms": arms}


def _by_seed(values: Mapping[str, Any]) -> dict[str, Any]:
    return dict(sorted(values.items(), key=lambda item: int(item[0])))


def _question(plan: Mapping[str, Any]) -> dict[str, Any]:
    question = {key: value for key, value in plan.items() if key not in ("name", *OF_A_COMMAND, "seeds", "starts")}
    return {**question, "arms": [{**arm, "runs": None} for arm in plan["arms"]]}

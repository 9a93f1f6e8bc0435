"""An experiment as one file: a compressed tar of its plan and of what its report reads of its runs, and the way back.

The same content gives the same bytes: names are sorted, times and owners are zero.
"""

from __future__ import annotations

import lzma
import tarfile
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.store import atomic, layout
from harness.store.errors import StoreError, write_errors
from harness.store.reader import ResultStore

SUFFIX = ".tar.xz"
_OF_A_REPORT = (layout.CONFIG, layout.MANIFEST, layout.METRICS, "samples/*/step-*/part-*.parquet")
_OF_AN_EXPERIMENT = (layout.PLAN, layout.DECLARATION, layout.STUDY)


def report_files(run: Path) -> list[Path]:
    """The files of a run that a report reads, those that are there."""
    return sorted(path for pattern in _OF_A_REPORT for path in run.glob(pattern) if path.is_file())


def experiment_files(folder: Path) -> list[Path]:
    """List the files that say what an experiment asked, without the tables and figures that are made of it."""
    return [path for name in _OF_AN_EXPERIMENT if (path := folder / name).is_file()]


def write_pack(store: ResultStore, experiment: str, out: str, *, checkpoints: bool = False) -> list[str]:
    """Write an experiment as one file, a path or an address such as `s3://bucket/NAME.tar.xz`; returns the ids of the runs in it.

    Raises:
        StoreError: there is no such experiment, or the file cannot be written.
    """
    ids = {str(run_id) for arm in store.plan(experiment)["arms"] for run_id in arm["runs"].values()}
    runs = [store.run(run_id) for run_id in sorted(ids) if store.run(run_id).exists()]
    files = experiment_files(layout.plan_file(store.root, experiment).parent)
    for run in runs:
        files += report_files(run.path)
        if checkpoints:
            files += [path for _, folder in run.checkpoints() for path in folder.rglob("*") if path.is_file()]
    # Checkpoints are gigabytes that hardly shrink.
    preset = 1 if checkpoints else 9 | lzma.PRESET_EXTREME
    if "://" not in out:
        atomic.publish_file(Path(out), lambda temporary: _archive(store.root, files, temporary, preset))
        return [run.run_id for run in runs]
    with tempfile.TemporaryDirectory(prefix="harness-pack-") as folder:
        _archive(store.root, files, Path(folder) / "pack", preset)
        with _elsewhere(out):
            import fsspec

            system, path = fsspec.core.url_to_fs(out)
            system.put_file(str(Path(folder) / "pack"), path)
    return [run.run_id for run in runs]


def _archive(root: Path, files: Iterable[Path], out: Path, preset: int) -> None:
    with lzma.open(out, "wb", preset=preset) as stream, tarfile.open(fileobj=stream, mode="w") as archive:
        for path in sorted(files):
            with path.open("rb") as file:
                entry = tarfile.TarInfo(path.relative_to(root).as_posix())  # mode 644, times and owners zero
                entry.size = path.stat().st_size
                archive.addfile(entry, file)


@contextmanager
def opened(source: str) -> Iterator[Path]:
    """Give the results root at `source`: a folder as it is, a pack (a path or an address) unpacked into a folder that goes afterwards.

    Raises:
        StoreError: it is neither, it is torn, or it holds something that is no plain file under the root.
    """
    if Path(source).is_dir():
        yield _root(Path(source), source)
        return
    with tempfile.TemporaryDirectory(prefix="harness-pack-") as folder:
        _unpack(source, Path(folder))
        yield _root(Path(folder), source)


def _unpack(source: str, folder: Path) -> None:
    with write_errors(folder):
        try:
            with _elsewhere(source):
                import fsspec

                stream = fsspec.open(source, "rb").open()
            with stream as file, tarfile.open(fileobj=file, mode="r:xz") as archive:
                for entry in archive:
                    if not entry.isreg():
                        raise StoreError(
                            f"{source}: {entry.name} is no plain file, and a pack holds nothing else; nothing of it is taken"
                        )
                    archive.extract(entry, folder, filter="data")  # refuses names that lead out of the folder
        except tarfile.FilterError as error:
            raise StoreError(f"{source}: {error}; nothing of it is taken") from error
        except (tarfile.TarError, lzma.LZMAError, EOFError) as error:
            raise StoreError(
                f"{source} is torn, or no pack of `harness pack` ({error}); copy it again"
            ) from error


@contextmanager
def _elsewhere(address: str) -> Iterator[None]:
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

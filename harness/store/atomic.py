"""Publishing files and directories so that a reader sees the old state or the new one, never a part.

Every function writes under a dot-name beside the target, flushes it to the disk, renames it into place and
flushes the directory, so that neither `kill -9` nor a power cut can publish half of it. What a killed writer
leaves behind begins with a dot; `remove_leftovers` deletes it.
"""

import errno
import os
import re
import shutil
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from harness.store.error import StoreFull, StoreReadOnly


def write_file(path: Path, data: bytes, *, durable: bool = True) -> None:
    """Publish `data` as `path` (parents are made). Raises `StoreFull`, `StoreReadOnly`.

    `durable=False` leaves out the flushes: for what is written anew by the next attempt if a power cut takes it.
    """
    publish_file(path, lambda temporary: temporary.write_bytes(data), durable=durable)


def make_folder(path: Path) -> None:
    """Make a folder and its parents where absent, their names on the disk: what is published in it is lost with any of them.

    Raises `OSError`, as `Path.mkdir`.
    """
    absent = [folder for folder in (path, *path.parents) if not folder.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for folder in reversed(absent):
        with suppress(PermissionError):  # a folder that one may not read: its own file system has to do it
            _sync(folder.parent)


def publish_file(path: Path, write: Callable[[Path], object], *, durable: bool = True) -> None:
    """Let `write` make a temporary file, then publish it as `path`. Nothing is left behind if it raises."""
    with write_errors(path):
        make_folder(path.parent)
        temporary = _temporary(path)
        try:
            write(temporary)
            if durable:
                _sync(temporary)
            os.replace(temporary, path)
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
        if durable:
            _sync(path.parent)


def publish_directory(path: Path, write: Callable[[Path], None]) -> None:
    """Let `write` fill a temporary directory, then publish it as `path`, replacing an older one. Nothing is left behind if it raises."""
    with write_errors(path):
        make_folder(path.parent)
        temporary = _temporary(path)
        temporary.mkdir()
        try:
            write(temporary)
            for item in (*temporary.rglob("*"), temporary):
                _sync(item)
            trash = _set_aside(path)
            os.rename(temporary, path)
        except BaseException:
            shutil.rmtree(temporary, ignore_errors=True)
            raise
        _sync(path.parent)
    if trash is not None:  # only now, since deleting a checkpoint takes seconds
        shutil.rmtree(trash)


def remove_directory(path: Path) -> None:
    """Delete a published directory; a reader never sees it half deleted. No error if it is absent."""
    if (trash := _set_aside(path)) is not None:
        shutil.rmtree(trash)


def _set_aside(path: Path) -> Path | None:
    """Take a directory away from its readers, and return where it is now, to be deleted; None where there is none."""
    trash = _temporary(path)
    try:
        os.rename(path, trash)
    except FileNotFoundError:
        return None
    return trash


def remove_leftovers(directory: Path, name: str = "") -> None:
    """Delete what killed writers left in `directory`, of `name` alone where given. Only the one writer of either may call this."""
    for entry in sorted(directory.glob(f".{name}*.tmp")):
        if entry.is_dir():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def sync_file(path: Path) -> None:
    """Flush an existing file to the disk; no error if it is absent."""
    with write_errors(path):
        if path.exists():
            _sync(path)


def _temporary(path: Path) -> Path:
    return path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.tmp")


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


FULL = {errno.ENOSPC, errno.EDQUOT}
_ROOM = "free space or set runtime.results to a larger disk, then run the same command again: it goes on from there"
_READ_ONLY = {errno.EROFS, errno.EACCES, errno.EPERM}
# What is there is of another kind: a folder where a file goes, a file or a link to nothing where a folder goes.
_NO_PLACE = {errno.EISDIR, errno.EEXIST, errno.ENOTDIR, errno.ENOENT, errno.ENAMETOOLONG, errno.ELOOP}


@contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Turn the operating system's write errors on `path` into `StoreFull` and `StoreReadOnly`."""
    try:
        yield
    except Exception as error:
        cause = _system_error(error)
        if cause is not None and cause.errno in FULL:
            raise StoreFull(f"no space left writing {path} ({cause.strerror}); {_ROOM}") from error
        if cause is error and cause.errno in _READ_ONLY | _NO_PLACE:
            place = "name another place (runtime.results, out=)"
            raise StoreReadOnly(f"cannot write {path} ({cause.strerror}); {place}") from error
        raise


def _system_error(error: Exception) -> OSError | None:
    """The operating system's error that a library's own one came of: torch raises its own while it closes a file, safetensors quotes it."""
    number = re.search(r"\(os error (\d+)\)", str(error))
    quoted = None if number is None else OSError(int(number[1]), os.strerror(int(number[1])))
    return next((one for one in (error, error.__context__, quoted) if isinstance(one, OSError)), None)

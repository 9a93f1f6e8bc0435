"""The errors of a result store; every message names the file and the fix."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class StoreError(Exception):
    """Base of everything the store raises on purpose."""


class SchemaMismatch(StoreError):
    """A file has another schema than this version of the harness reads, or parts of one table disagree."""


class TornFile(StoreError):
    """A file that is published whole, or a line that is not the last one, cannot be parsed."""


class StoreReadOnly(StoreError):
    """The results root cannot be written to."""


class StoreFull(StoreError):
    """No space (or no quota) is left under the results root."""


class LocksUnsupported(StoreError):
    """The file system of the results root has no working advisory locks."""


class AttemptSuperseded(StoreError):
    """A newer attempt at the run exists: this process has lost its claim, and what it writes would mix with the other's."""


class UnreadableCheckpoint(StoreError):
    """A checkpoint is not made of tensors and plain values."""

    @classmethod
    def at(cls, path: Path, found: str) -> UnreadableCheckpoint:
        """The error for a file and what was found in it, such as `holds os.system`."""
        return cls(
            f"{path} {found}; a checkpoint is read as tensors and plain values, and nothing in it is run. Delete the folder of this "
            "step to go on from an older one or from the start; if you trust where it comes from, the version of the harness that wrote "
            "it can resume it"
        )


class RunClaimed(StoreError):
    """Another live process holds the lock. `host` and `pid` name it where it has said so (else None)."""

    def __init__(self, path: Path, host: str | None, pid: int | None) -> None:
        self.path, self.host, self.pid = path, host, pid
        holder = f"process {pid} on {host}" if pid is not None else "a process that has not named itself yet"
        super().__init__(f"{path} is held by {holder}; wait for it to end or stop it, then run again")


_FULL = {errno.ENOSPC, errno.EDQUOT}
_READ_ONLY = {errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.ENOENT, errno.ENAMETOOLONG}


@contextmanager
def write_errors(path: Path) -> Iterator[None]:
    """Turn the operating system's write errors on `path` into `StoreFull` and `StoreReadOnly`."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise StoreFull(
                f"no space left writing {path} ({error.strerror}); free space or set runtime.results to a "
                "larger disk, then run the same command again: it resumes where it stopped"
            ) from error
        if error.errno in _READ_ONLY:
            raise StoreReadOnly(
                f"cannot write {path} ({error.strerror}); make it writable or set runtime.results to a "
                "directory you own"
            ) from error
        raise

"""Exclusive claims by advisory file locks.

The kernel frees a lock when its holder dies, however it dies, so claims need no heartbeat and no clock of ours. The locks are those of the
open file (`F_OFD_SETLK`), which can be queried without being taken; where the system has none (macOS) they are `flock`'s. The lock file is
never deleted, since deleting one is a race; its content, the holder's host and process id, is only there for messages.
"""

import contextlib
import errno
import fcntl
import json
import os
import socket
import struct
import time
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from harness.store.atomic import make_folder, write_errors
from harness.store.error import LocksUnsupported, RunClaimed, StoreError

_UNSUPPORTED = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}
_BUSY = {errno.EAGAIN, errno.EACCES}
# A claimant writes its name right after it has the lock, and a forked child closes its copy of one at once. On a busy machine both take a
# moment, so a lock without a name is waited for this long before it counts as a claim.
_NAMING_SECONDS = 1.0
_OWNERS_ALONE = 0o600  # who can open the file for reading can hold a shared lock, which keeps its owner out
_POLL_SECONDS = 0.01
# struct flock of 64-bit Linux: l_type, l_whence, l_start, l_len (0: the whole file), l_pid
_FLOCK = "hhqqi4x"


@dataclass(frozen=True)
class Holder:
    """The holder of a lock; both are None in the instant between locking and writing the name."""

    host: str | None
    pid: int | None


class Lease:
    """A held lock. Free it with `release`, by leaving its `with` block, or by dying."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor: int | None = descriptor
        _leases.add(self)

    def release(self) -> None:
        if self._descriptor is not None:
            with contextlib.suppress(OSError):  # what ended the disk is said by whoever met it
                os.ftruncate(self._descriptor, 0)
            self._close()

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


# A forked child shares the open file and would keep the lock after its parent's death: it closes its copy.
_leases: weakref.WeakSet[Lease] = weakref.WeakSet()


def _forget_in_child() -> None:
    for lease in list(_leases):
        lease._close()


os.register_at_fork(after_in_child=_forget_in_child)


def acquire(path: Path, *, wait_seconds: float = 0.0) -> Lease:
    """Lock `path` (made with its parents where absent), trying for `wait_seconds`, or a little longer if its holder has no name yet.

    Raises:
        RunClaimed: another live process, or another `Lease` of this one, holds it.
        LocksUnsupported: the file system has no locks.
        StoreFull, StoreReadOnly: the lock file cannot be made.
    """
    while True:
        with write_errors(path):
            make_folder(path.parent)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _OWNERS_ALONE)
            with contextlib.suppress(PermissionError):  # of another user, who lets us write
                os.fchmod(descriptor, _OWNERS_ALONE)
        try:
            _wait_for(path, descriptor, wait_seconds)
            # Somebody may have deleted the file while this waited: a lock on what has no name keeps nobody out.
            if not _is_at(descriptor, path):
                os.close(descriptor)
                continue
            with write_errors(path):
                os.ftruncate(descriptor, 0)
                os.pwrite(descriptor, json.dumps({"host": socket.gethostname(), "pid": os.getpid()}).encode(), 0)
        except BaseException:
            os.close(descriptor)
            raise
        return Lease(path, descriptor)


def holder(path: Path) -> Holder | None:
    """Say who holds the lock now, or None if it is free. Disturbs nobody and writes nothing, so it works on a read-only store.

    Raises `StoreError` for a lock that is not ours to read.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except PermissionError as error:
        raise StoreError(f"{path} is the lock of {_owner(path)}, who alone may say what holds it") from error
    try:
        return _read_holder(descriptor) if _is_locked(descriptor) else None
    finally:
        os.close(descriptor)


def _owner(path: Path) -> str:
    try:
        return f"user {path.owner()}"
    except (KeyError, OSError):  # a user whom this machine does not know
        return "another user"


def _wait_for(path: Path, descriptor: int, wait_seconds: float) -> None:
    begin = time.monotonic()
    while not _try_lock(path, descriptor):
        name = _read_holder(descriptor)
        patience = max(wait_seconds, _NAMING_SECONDS if name.pid is None else 0.0)
        if time.monotonic() - begin >= patience:
            raise RunClaimed(path, name.host, name.pid)
        time.sleep(_POLL_SECONDS)


def _try_lock(path: Path, descriptor: int) -> bool:
    """Try to have the lock without waiting. Raises `LocksUnsupported`."""
    try:
        if hasattr(fcntl, "F_OFD_SETLK"):
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, struct.pack(_FLOCK, fcntl.F_WRLCK, 0, 0, 0, 0))
        else:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in _BUSY:
            return False
        if error.errno in _UNSUPPORTED:
            raise LocksUnsupported(f"{path}: no file locks here ({error.strerror}); set runtime.results") from error
        raise
    return True


def _is_locked(descriptor: int) -> bool:
    """Query the lock; only `flock` has to take it for that, shared and for a moment."""
    if hasattr(fcntl, "F_OFD_GETLK"):
        query = struct.pack(_FLOCK, fcntl.F_WRLCK, 0, 0, 0, 0)
        answer = fcntl.fcntl(descriptor, fcntl.F_OFD_GETLK, query)
        return bool(struct.unpack(_FLOCK, answer)[0] != fcntl.F_UNLCK)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _read_holder(descriptor: int) -> Holder:
    try:
        name = json.loads(os.pread(descriptor, 4096, 0))
        return Holder(str(name["host"]), int(name["pid"]))
    except (ValueError, KeyError, TypeError):
        return Holder(None, None)

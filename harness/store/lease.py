"""Exclusive claims by advisory file locks (`flock`).

The kernel frees the lock when its holder dies, however it dies, so there is no lease time, no heartbeat and
no clock: a suspended laptop or a clock that jumps changes nothing. The lock file is never deleted (deleting
one is a race); its content, the holder's host and process id, is only there for messages.
On NFS Linux maps `flock` to byte-range locks on the server, which works across hosts.
"""

from __future__ import annotations

import errno
import fcntl
import json
import os
import socket
import time
import weakref
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from harness.store.errors import LocksUnsupported, RunClaimed, write_errors

_UNSUPPORTED = {errno.ENOLCK, errno.ENOSYS, errno.EOPNOTSUPP}
# Three kinds of holders keep a lock for moments only and have not claimed it: `holder`, a child until it has closed its copy, a
# claimant before it has written its name.
# A moment is as long as a busy machine gives that process no core, but not for ever: it may be stopped. On NFS a name takes a while to
# be seen elsewhere, so that nameless claims, which are many there, are not waited for as long. In seconds since it was found so.
_PATIENCE = {"looked at": 30.0, "nameless": 1.0, "claimed": 0.02}


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
        _held.add(self)

    def release(self) -> None:
        """Free the lock; a second call does nothing."""
        if self._descriptor is not None:
            os.ftruncate(self._descriptor, 0)
            self._close()

    def _close(self) -> None:
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)

    def __enter__(self) -> Lease:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


# A forked child shares the open file and would keep the lock after its parent's death: it closes its copy.
_held: weakref.WeakSet[Lease] = weakref.WeakSet()


def _forget_in_child() -> None:
    for lease in list(_held):
        lease._close()


os.register_at_fork(after_in_child=_forget_in_child)


def acquire(path: Path, *, wait_seconds: float = 0.0) -> Lease:
    """Lock `path` (made with its parents where absent), trying for `wait_seconds`, and longer while nobody is known to have claimed it.

    Raises:
        RunClaimed: another live process, or another `Lease` of this one, holds it (after 30 s: looks at it).
        LocksUnsupported: the file system has no locks.
        StoreFull, StoreReadOnly: the lock file cannot be made.
    """
    while True:
        with write_errors(path):
            path.parent.mkdir(parents=True, exist_ok=True)
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            _lock(path, descriptor, wait_seconds)
            # `harness clean` may have deleted the file while this waited: a lock on what has no name keeps nobody out.
            if not _is_at(descriptor, path):
                os.close(descriptor)
                continue
            with write_errors(path):
                os.ftruncate(descriptor, 0)
                os.pwrite(
                    descriptor, json.dumps({"host": socket.gethostname(), "pid": os.getpid()}).encode(), 0
                )
        except BaseException:
            os.close(descriptor)
            raise
        return Lease(path, descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def holder(path: Path) -> Holder | None:
    """Say who holds the lock now, or None if it is free. Writes nothing, so it works on a read-only store."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _read_holder(descriptor)
    finally:
        os.close(descriptor)
    return None


def _lock(path: Path, descriptor: int, wait_seconds: float) -> None:
    began = since = time.monotonic()
    state = ""
    while not _locked(path, descriptor, fcntl.LOCK_EX):
        found, before, now = _read_holder(descriptor), state, time.monotonic()
        # A claim keeps out a shared lock too, a look does not.
        if _locked(path, descriptor, fcntl.LOCK_SH):
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            state = "looked at"
        else:
            state = "nameless" if found.pid is None else "claimed"
        since = since if state == before else now
        if now - since >= _PATIENCE[state] and now - began >= wait_seconds:
            raise RunClaimed(path, found.host, found.pid)
        time.sleep(0.05 if state == "claimed" and now - since >= _PATIENCE[state] else 0.005)


def _locked(path: Path, descriptor: int, kind: int) -> bool:
    """Try to have the lock of this kind without waiting. Raises `LocksUnsupported`."""
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in _UNSUPPORTED:
            raise LocksUnsupported(
                f"{path}: this file system has no file locks ({error.strerror}); set runtime.results "
                "to a local disk or mount the share with locking"
            ) from error
        raise
    return True


def _read_holder(descriptor: int) -> Holder:
    try:
        found = json.loads(os.pread(descriptor, 4096, 0))
        return Holder(str(found["host"]), int(found["pid"]))
    except (ValueError, KeyError, TypeError):
        return Holder(None, None)

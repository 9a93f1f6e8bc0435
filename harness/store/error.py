"""What the store raises on purpose."""

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


class RunClaimed(StoreError):
    """Another live process holds the lock; `host` and `pid` are None where it has not named itself."""

    def __init__(self, path: Path, host: str | None, pid: int | None) -> None:
        holder = f"process {pid} on {host}" if pid is not None else "a process that has not named itself yet"
        super().__init__(f"{path} is held by {holder}; wait for it to end or stop it, then run again")

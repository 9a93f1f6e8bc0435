"""The result store: crash-safe run directories in, data frames out.

`layout` documents the files, `schema` the columns, `lease` the claims.

May import: nothing of ours. Imports no torch.
"""

from harness.store.errors import (
    AttemptSuperseded,
    LocksUnsupported,
    RunClaimed,
    SchemaMismatch,
    StoreError,
    StoreFull,
    StoreReadOnly,
    TornFile,
    UnreadableCheckpoint,
)
from harness.store.lease import Holder, Lease
from harness.store.reader import ResultStore
from harness.store.run import RunDir
from harness.store.schema import METRICS

__all__ = [
    "METRICS",
    "AttemptSuperseded",
    "Holder",
    "Lease",
    "LocksUnsupported",
    "ResultStore",
    "RunClaimed",
    "RunDir",
    "SchemaMismatch",
    "StoreError",
    "StoreFull",
    "StoreReadOnly",
    "TornFile",
    "UnreadableCheckpoint",
]

"""The result store: crash-safe run directories in, data frames out.

`layout` documents the files and names the columns, `lease` documents the claims.

May import: nothing of ours. Imports no torch.
"""

from harness.store.error import RunClaimed, SchemaMismatch, StoreError, StoreFull, StoreReadOnly, TornFile
from harness.store.layout import METRICS
from harness.store.lease import Lease
from harness.store.reader import ResultStore
from harness.store.run import RunDir

__all__ = [
    "METRICS", "Lease", "ResultStore", "RunClaimed", "RunDir", "SchemaMismatch", "StoreError", "StoreFull", "StoreReadOnly",
    "TornFile",
]  # fmt: skip

"""Runs of other trainers: one module per format of logs, read into the same store and marked as foreign.

A member module defines

    METRICS: Mapping[str, str]               what of the log becomes which column of the store
    SCORES: Sequence[Score]                  which of its entries are evaluation scores
    REMARKS: Sequence[str]                   what does not mean the same as ours
    read(path: Path, run: str | None) -> list[Logged]

`read` raises `ForeignLogError` naming the file and the fix; the rest (units, identity, manifest, plan) is common to all.
"""

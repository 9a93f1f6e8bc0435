"""`metrics.jsonl`: one JSON object per rollout step, appended whole lines, read back without torn ones."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.store.atomic import write_file
from harness.store.errors import SchemaMismatch, TornFile, write_errors
from harness.store.schema import INTEGER_METRICS, METRICS

if TYPE_CHECKING:
    import pandas as pd

_TAIL_BYTES = 4096


class MetricsLog:
    """The only writer of one metrics file. The first append mends what a killed writer left behind."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._mended = False

    def append(self, row: Mapping[str, Any]) -> None:
        """Append one line; NaN and infinities become null. A failed append leaves the file as it was."""
        line = json.dumps({key: _plain(value, key) for key, value in row.items()}).encode() + b"\n"
        with write_errors(self.path):
            descriptor = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
            try:
                if not self._mended:
                    _mend(descriptor)
                    self._mended = True
                size = os.fstat(descriptor).st_size
                try:
                    while line:
                        line = line[os.write(descriptor, line) :]
                except OSError:
                    os.ftruncate(descriptor, size)
                    raise
            finally:
                os.close(descriptor)

    def rewind(self, step: int) -> None:
        """Drop the rows beyond `step`, and a torn last line."""
        lines = _lines(self.path)
        kept = [line for line in lines if (row := _parse(line)) is not None and row["step"] <= step]
        if len(kept) < len(lines):
            write_file(self.path, b"".join(line + b"\n" for line in kept))


def read_steps(path: Path) -> pd.DataFrame:
    """All steps in ascending order, the last occurrence of each (a resumed attempt repeats some).

    Columns: `METRICS` first, then any others as found. They are float64 with NaN for null or
    absent, but those of `INTEGER_METRICS` are int64 where no value is missing. An unparsable last line is
    dropped; any other raises `TornFile`.
    """
    import numpy as np
    import pandas as pd

    rows: dict[int, dict[str, Any]] = {}
    for number, line in enumerate(lines := _lines(path), start=1):
        row = _parse(line)
        if row is None:
            if number == len(lines):
                break
            raise TornFile(
                f"{path}:{number}: not a JSON object with an integer step; delete this line if you can "
                "lose the step, or delete the run directory to run it again"
            )
        rows[row["step"]] = row
    ordered = [rows[step] for step in sorted(rows)]
    columns: dict[str, Any] = {}
    for name in METRICS:
        values = [row.get(name) for row in ordered]
        try:
            column = np.array(values, dtype=np.float64)
        except (TypeError, ValueError) as error:
            raise SchemaMismatch(f"{path}: column {name} is not a number: {error}") from error
        whole = name in INTEGER_METRICS and not np.isnan(column).any()
        columns[name] = np.array(values, dtype=np.int64) if whole else column
    others = dict.fromkeys(name for row in ordered for name in row if name not in METRICS)
    if others:
        found = pd.DataFrame.from_records([{k: row[k] for k in others if k in row} for row in ordered])
        columns |= {name: found[name] for name in others}
    return pd.DataFrame(columns)


def last_step(path: Path) -> dict[str, Any] | None:
    """The last whole line, by reading the end of the file only; None if there is none yet."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        size = os.fstat(descriptor).st_size
        window = _TAIL_BYTES
        while True:
            start = max(0, size - window)
            lines = os.pread(descriptor, size - start, start).split(b"\n")
            for line in reversed(lines if start == 0 else lines[1:]):
                row = _parse(line)
                if row is not None:
                    return row
            if start == 0:
                return None
            window *= 8
    finally:
        os.close(descriptor)


def _lines(path: Path) -> list[bytes]:
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")
    return lines[:-1] if lines[-1] == b"" else lines


def _parse(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    if not isinstance(row, dict) or not isinstance(row.get("step"), int):
        return None
    return row


def _mend(descriptor: int) -> None:
    """Cut an unparsable last line; end a whole last line that lacks its newline."""
    size = os.fstat(descriptor).st_size
    if size == 0:
        return
    window = _TAIL_BYTES
    while True:
        start = max(0, size - window)
        tail = os.pread(descriptor, size - start, start)
        body = tail[:-1] if tail.endswith(b"\n") else tail
        newline = body.rfind(b"\n")
        if newline >= 0 or start == 0:
            break
        window *= 8
    if _parse(body[newline + 1 :]) is None:
        os.ftruncate(descriptor, start + newline + 1)
    elif not tail.endswith(b"\n"):
        os.write(descriptor, b"\n")


def _plain(value: Any, key: str) -> Any:
    if hasattr(value, "item"):  # NumPy scalars and tensors of one element
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, int | str):
        return value
    raise TypeError(f"metric {key!r} is a {type(value).__name__}; log numbers, strings or None")

"""`metrics.jsonl`: one JSON object per rollout step, appended whole lines, read back without torn ones."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.store.atomic import write_errors, write_file
from harness.store.error import SchemaMismatch, TornFile
from harness.store.layout import INTEGER_METRICS, METRICS

if TYPE_CHECKING:
    import pandas as pd

_TAIL_BYTES = 4096
_MOST_STEPS = 1 << 53  # what a float64 holds


def append(path: Path, row: Mapping[str, Any]) -> None:
    """Append one line; NaN and infinities become null. A failed append leaves the file as it was."""
    line = json.dumps({key: _to_json_value(value, key) for key, value in row.items()}).encode() + b"\n"
    with write_errors(path):
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
        try:
            size = os.fstat(descriptor).st_size
            try:
                while line:
                    line = line[os.write(descriptor, line) :]
            except OSError:
                os.ftruncate(descriptor, size)
                raise
        finally:
            os.close(descriptor)


def rewind(path: Path, step: int) -> None:
    """Drop the rows beyond `step`, and the torn last line of a writer that was killed: an attempt begins with this."""
    rows = ((line, _parse_row(line)) for line in _read_lines(path))
    content = b"".join(line + b"\n" for line, row in rows if row is not None and row["step"] <= step)
    if path.exists() and path.read_bytes() != content:
        write_file(path, content)


def read_steps(path: Path) -> pd.DataFrame:
    """All steps in ascending order, the last occurrence of each (a resumed attempt repeats some).

    Columns: `METRICS` first, then any others as found. They are float64 with NaN for null or
    absent, but those of `INTEGER_METRICS` are int64 where no value is missing. An unparsable last line is
    dropped; any other raises `TornFile`.
    """
    import numpy as np
    import pandas as pd

    rows: dict[int, dict[str, Any]] = {}
    for number, line in enumerate(lines := _read_lines(path), start=1):
        row = _parse_row(line)
        if row is None:
            if number == len(lines):
                break
            raise TornFile(f"{path}:{number}: no JSON object with an integer step; delete this line or the folder")
        rows[row["step"]] = row
    sorted_rows = [rows[step] for step in sorted(rows)]
    columns: dict[str, Any] = {}
    for name in METRICS:
        values = [row.get(name) for row in sorted_rows]
        try:
            column = np.array(values, dtype=np.float64)
            whole = name in INTEGER_METRICS and not np.isnan(column).any()
            columns[name] = np.array(values, dtype=np.int64) if whole else column
        except (TypeError, ValueError, OverflowError) as error:
            raise SchemaMismatch(f"{path}: column {name} is not a number: {error}") from error
    extra_columns = dict.fromkeys(name for row in sorted_rows for name in row if name not in METRICS)
    for name in extra_columns:
        _require_column(path, name, [row[name] for row in sorted_rows if row.get(name) is not None])
    if extra_columns:
        extra = pd.DataFrame.from_records([{k: row[k] for k in extra_columns if k in row} for row in sorted_rows])
        columns |= {name: extra[name] for name in extra_columns}
    return pd.DataFrame(columns, copy=False)


def last_step(path: Path) -> dict[str, Any] | None:
    """The last whole line, by reading the end of the file only; None if there is none yet."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    try:
        rows = map(_parse_row, reversed(_last_lines(descriptor)))
        return next((row for row in rows if row is not None), None)
    finally:
        os.close(descriptor)


def new_lines(path: Path, offset: int) -> tuple[list[bytes], int]:
    """Read the lines that are whole beyond `offset`, and where the next ones begin. A file that is shorter now is read from its start."""
    if not path.exists():
        return [], offset
    with open(path, "rb") as file:
        offset = offset if offset <= os.fstat(file.fileno()).st_size else 0
        file.seek(offset)
        whole = file.read().rpartition(b"\n")[0]
    return (whole.split(b"\n"), offset + len(whole) + 1) if whole else ([], offset)


def new_rows(path: Path, offset: int) -> tuple[list[dict[str, Any]], int]:
    """The same as rows; what is none is left out."""
    lines, offset = new_lines(path, offset)
    return [row for row in map(_parse_row, lines) if row is not None], offset


def _read_lines(path: Path) -> list[bytes]:
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")
    return lines[:-1] if lines[-1] == b"" else lines


def _parse_row(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, dict) or not isinstance(row.get("step"), int) or not 0 <= row["step"] < _MOST_STEPS:
        return None
    return row


def _require_column(path: Path, name: str, values: Sequence[Any]) -> None:
    """Refuse what no frame and no file takes: nested values, text among numbers, numbers of more than 64 bits, halves of characters."""
    numbers = all(isinstance(value, int | float) and abs(value) < 2**63 for value in values)
    texts = all(isinstance(value, str) and not re.search("[\ud800-\udfff]", value) for value in values)
    if not name.isprintable() or not (numbers or texts):
        raise SchemaMismatch(f"{path}: column {name[:80]!r} is neither numbers nor text; delete it from its lines")


def _last_lines(descriptor: int) -> list[bytes]:
    """Read so many lines from the end of a file that one is a row, or all; the last is empty where the file ends with a newline."""
    size = os.fstat(descriptor).st_size
    window = _TAIL_BYTES
    while True:
        start = max(0, size - window)
        lines = os.pread(descriptor, size - start, start).split(b"\n")
        if start == 0:
            return lines
        if any(_parse_row(line) is not None for line in lines[1:]):
            return lines[1:]  # the first may have begun before the window
        window *= 8


def _to_json_value(value: Any, key: str) -> Any:
    if hasattr(value, "item"):  # NumPy scalars and tensors of one element
        value = value.item()
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if value is None or isinstance(value, int | str):
        return value
    raise TypeError(f"metric {key!r} is a {type(value).__name__}; log numbers, strings or None")

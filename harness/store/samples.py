"""Graded samples as immutable Parquet parts under `samples/<benchmark>/step-NNNNNN/`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from harness.store import atomic
from harness.store.error import SchemaMismatch, StoreError, TornFile
from harness.store.layout import check_version, part_paths

if TYPE_CHECKING:
    import pandas as pd

SAMPLES_VERSION = 2

_MAY_BE_NULL = {"answer", "second_correct"}
SAMPLES = pa.schema(
    [
        pa.field(name, kind, nullable=name in _MAY_BE_NULL)
        for name, kind in (
            ("problem_id", pa.string()),
            ("sample_index", pa.int32()),
            ("sampling_seed", pa.uint64()),
            ("max_response_tokens", pa.int32()),  # the cap this response was sampled or cut at
            ("response_tokens", pa.int32()),
            ("finish_reason", pa.string()),  # "stop" or "length"
            ("answer", pa.string()),
            ("correct", pa.bool_()),
            ("verdict", pa.string()),
            ("method", pa.string()),
            ("entropy_sum_nats", pa.float32()),  # summed over response tokens
            ("log_prob_sum", pa.float32()),
            ("response", pa.string()),
            ("second_correct", pa.bool_()),  # the second grader's verdict, null where it has none
        )
    ]
)
SAMPLE_KEY = ("problem_id", "sample_index", "max_response_tokens")


def write_part(path: Path, table: pa.Table | pd.DataFrame, metadata: dict[str, str]) -> None:
    """Publish one part with the explicit schema; an existing part of the same name is replaced."""
    if not isinstance(table, pa.Table):
        table = pa.Table.from_pandas(table, preserve_index=False)
    table = _to_samples_table(table, path)
    table = table.replace_schema_metadata({"schema_version": str(SAMPLES_VERSION), **metadata})
    atomic.publish_file(path, lambda temporary: pq.write_table(table, temporary, compression="zstd"))


def read_parts(directory: Path, columns: Sequence[str] | None = None, *, coded: bool = False) -> pa.Table:
    """The parts of one benchmark at one step as one table, `columns` only if given (skip `response`: fast).

    `coded` gives text columns as dictionaries, which takes half the time to read and a fraction of it to count.

    Raises `StoreError`: there is no part, or one sample in two; `SchemaMismatch`: of another schema or version; `TornFile`: no Parquet.
    """
    paths = part_paths(directory)
    if not paths:
        raise StoreError(f"{directory} holds no samples; evaluate the run first (`harness run` does)")
    names = list(SAMPLES.names if columns is None else columns)
    unknown = [name for name in names if name not in SAMPLES.names]
    if unknown:
        raise SchemaMismatch(f"unknown sample columns {unknown}; known: {', '.join(SAMPLES.names)}")
    text_columns = [name for name in names if SAMPLES.field(name).type == pa.string()] if coded else None
    read_columns = names if len(paths) == 1 else list(dict.fromkeys([*names, *SAMPLE_KEY]))
    tables, versions = [], set()
    for path in paths:
        try:
            with pq.ParquetFile(path, read_dictionary=text_columns, pre_buffer=False) as file:
                metadata = _read_metadata(file.metadata.schema.to_arrow_schema(), path)
                part = file.read(columns=read_columns, use_threads=False).replace_schema_metadata()
                tables.append(part.select(read_columns))
        except (pa.ArrowInvalid, OSError) as error:
            fault = " ".join(str(error).split())
            raise TornFile(f"{path} is not a readable Parquet file ({fault}); move the run's directory away") from error
        versions.add(metadata.get("benchmark_version", ""))
    if len(versions) > 1:
        raise SchemaMismatch(f"{directory} mixes benchmark versions {', '.join(sorted(versions))}; delete old parts")
    table = pa.concat_tables(tables)
    if len(paths) > 1:
        keys = table.select(SAMPLE_KEY)
        if keys.group_by(list(SAMPLE_KEY)).aggregate([]).num_rows != table.num_rows:
            raise StoreError(f"{directory}: the same sample stands in two parts; delete one of {len(paths)} parts")
    return table.select(names)


def _to_samples_table(table: pa.Table, path: Path) -> pa.Table:
    """`table` with exactly the columns and types of `SAMPLES`. Raises `SchemaMismatch` naming the column."""
    if "second_correct" not in table.column_names:
        table = table.append_column("second_correct", pa.nulls(len(table)))
    missing = [name for name in SAMPLES.names if name not in table.column_names]
    extra = [name for name in table.column_names if name not in SAMPLES.names]
    if missing or extra:
        raise SchemaMismatch(f"samples for {path}: missing columns {missing}, unknown columns {extra}")
    columns = []
    for field in SAMPLES:
        column = table.column(field.name)
        if column.null_count and not field.nullable:
            raise SchemaMismatch(f"samples for {path}: column {field.name} holds {column.null_count} nulls")
        try:
            columns.append(column.cast(field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise SchemaMismatch(f"samples for {path}: column {field.name} is not {field.type}: {error}") from error
    return pa.Table.from_arrays(columns, schema=SAMPLES)


def _read_metadata(schema: pa.Schema, path: Path) -> dict[str, str]:
    """The store's metadata of a sample part. Raises `SchemaMismatch` if the part is newer or foreign."""
    metadata = {key.decode(): value.decode() for key, value in (schema.metadata or {}).items()}
    version = metadata.get("schema_version", "")
    check_version(int(version) if version.isdigit() else None, SAMPLES_VERSION, path)
    for field in SAMPLES:
        index = schema.get_field_index(field.name)
        kind = schema.field(index).type if index >= 0 else "absent"
        if kind != field.type:
            raise SchemaMismatch(f"{path}: column {field.name} is {kind}, expected {field.type}; delete this part")
    return metadata

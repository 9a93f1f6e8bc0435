"""The columns of graded samples, and the checks made on reading them. Apart from `schema`, since pyarrow loads as long as all the rest."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from harness.store.errors import SchemaMismatch
from harness.store.schema import check_version

SAMPLES_VERSION = 1

_REQUIRED = {"answer": True}  # column -> may be null
SAMPLES = pa.schema(
    [
        pa.field(name, kind, nullable=_REQUIRED.get(name, False))
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
        )
    ]
)
SAMPLE_KEY = ("problem_id", "sample_index", "max_response_tokens")


def to_samples_table(table: pa.Table, path: Path) -> pa.Table:
    """`table` with exactly the columns and types of `SAMPLES`. Raises `SchemaMismatch` naming the column."""
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
            raise SchemaMismatch(
                f"samples for {path}: column {field.name} is not {field.type}: {error}"
            ) from error
    return pa.Table.from_arrays(columns, schema=SAMPLES)


def check_samples_schema(schema: pa.Schema, path: Path) -> dict[str, str]:
    """The store's metadata of a sample part. Raises `SchemaMismatch` if the part is newer or foreign."""
    metadata = {key.decode(): value.decode() for key, value in (schema.metadata or {}).items()}
    version = metadata.get("schema_version", "")
    check_version(int(version) if version.isdigit() else None, SAMPLES_VERSION, path)
    for field in SAMPLES:
        index = schema.get_field_index(field.name)
        found = schema.field(index).type if index >= 0 else "absent"
        if found != field.type:
            raise SchemaMismatch(
                f"{path}: column {field.name} is {found}, expected {field.type}; delete this part"
            )
    return metadata

"""The schemas of what the store holds, and the checks made on reading."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa

from harness.store.errors import SchemaMismatch

MANIFEST_VERSION = 1
PLAN_VERSION = 1
SAMPLES_VERSION = 1

STATUSES = ("claimed", "running", "finished", "failed", "interrupted", "refused")

_MANIFEST_KEYS: dict[str, type] = {"arm_id": str, "seed": int, "labels": dict, "attempts": list}
_JSON_NAMES = {str: "a text", int: "an integer", dict: "an object", list: "a list"}

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

INTEGER_METRICS = (
    "step",
    "updates",
    "attempt",
    "refill_rounds",
    "generated_tokens",
    "generated_tokens_total",
    "trained_tokens",
)
METRICS = (
    "step",
    "updates",
    "attempt",
    "reward_mean",
    "accuracy_mean",
    "entropy_nats",
    "response_tokens_mean",
    "response_tokens_p95",
    "response_tokens_mean_right",
    "response_tokens_mean_wrong",
    "response_tokens_mean_truncated",
    "truncated_fraction",
    "clip_fraction_low",
    "clip_fraction_high",
    "up_clipped_old_probability_mean",
    "ratio_max",
    "kl_to_reference",
    "gradient_norm",
    "gradient_clipped_fraction",
    "groups",
    "all_right_groups",
    "all_wrong_groups",
    "kept_groups",
    "discarded_groups",
    "gradient_groups",
    "refill_rounds",
    "generated_tokens",
    "generated_tokens_total",
    "trained_tokens",
    "learning_rate",
    "loss",
    "sampler_log_prob_gap_mean",
    "sampler_log_prob_gap_max",
    "sampler_kl_nats",
    "clip_released_fraction",
    "off_policy_masked_fraction",
    "masked_fraction",
    "punished_fraction",
    "length_penalty_mean",
    "weight_change_response_mean",
    "weight_change_group_token_mean",
    "weight_change_batch_token_mean",
    "sigma_weight_change",
    "removed_fraction",
    "refilled_fraction",
    "correction_moved_fraction",
    "correction_change_mean",
    "kl_share",
    "entropy_share",
    "nll_share",
    "seconds_rollout",
    "seconds_verify",
    "seconds_train",
    "seconds_sync",
    "seconds_evaluate",
    "seconds_total",
)


def check_version(found: object, known: int, path: Path) -> None:
    """Refuse what a newer harness wrote, and what says no version. Raises `SchemaMismatch`."""
    if not isinstance(found, int) or isinstance(found, bool) or found < 1:
        raise SchemaMismatch(
            f"{path} has no schema_version; it was not written by this harness: move it away"
        )
    if found > known:
        raise SchemaMismatch(
            f"{path} was written by a newer version of the harness (schema {found}, this one reads up to "
            f"{known}); upgrade rlvr-harness, or use another runtime.results"
        )


def check_manifest(manifest: Mapping[str, Any], run_id: str, path: Path) -> None:
    """Refuse a manifest of another schema, run or status, or without what readers need. Raises `SchemaMismatch`."""
    check_version(manifest.get("schema_version"), MANIFEST_VERSION, path)
    if manifest.get("run_id") != run_id:
        raise SchemaMismatch(
            f"{path} is the manifest of run {manifest.get('run_id')!r}, not of {run_id}; a run directory "
            "cannot be renamed: move it back or delete it"
        )
    if manifest.get("status") not in STATUSES:
        raise SchemaMismatch(
            f"{path} has status {manifest.get('status')!r}; expected one of {', '.join(STATUSES)}"
        )
    for key, kind in _MANIFEST_KEYS.items():
        if key not in manifest:
            raise SchemaMismatch(f"{path} has no {key}; move the run's directory away to run this run again")
        if not isinstance(manifest[key], kind) or isinstance(manifest[key], bool):
            raise SchemaMismatch(
                f"{path} has {key} {manifest[key]!r}, which is not {_JSON_NAMES[kind]}; move the run's directory away to run this "
                "run again"
            )


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

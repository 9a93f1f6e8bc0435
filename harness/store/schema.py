"""The schemas of what the store holds, and the checks made on reading."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.store.errors import SchemaMismatch, TornFile

MANIFEST_VERSION = 1
PLAN_VERSION = 1

STATUSES = ("claimed", "running", "finished", "failed", "interrupted")

_MANIFEST_KEYS: dict[str, type] = {"arm_id": str, "seed": int, "labels": dict, "attempts": list}
_JSON_NAMES = {str: "a text", int: "an integer", dict: "an object", list: "a list"}

INTEGER_METRICS = (
    "step", "updates", "attempt", "refill_rounds", "generated_tokens", "generated_tokens_total", "trained_tokens",
)  # fmt: skip
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
    "unevaluated_fraction",
    "restated_fraction",
    "flipped_verdicts_fraction",
    "graders_both_fraction",
    "graders_only_first_fraction",
    "graders_only_second_fraction",
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


def read_object(path: Path, fix: str) -> dict[str, Any] | None:
    """Read a file that holds one JSON object; None where it is not there. Raises `TornFile` with the fix for anything else."""
    try:
        found = json.loads(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (ValueError, RecursionError) as error:  # a file from elsewhere may be nested beyond all depths
        raise TornFile(f"{path} is not JSON ({error}); {fix}") from error
    if not isinstance(found, dict):
        raise TornFile(f"{path} is not a JSON object; {fix}")
    return found


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

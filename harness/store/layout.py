"""The folders and files under a results root.

```
<results>/
  runs/<run_id>/                      run_id: 16 lower-case hex characters
    config.yaml                       the resolved configuration of the run
    manifest.json                     ids, status, attempts, provenance; written by the supervisor only
    metrics.jsonl                     one JSON object per rollout step, appended
    claim.lock worker.lock            advisory locks of the supervisor and of the worker (see lease.py)
    samples/<benchmark>/step-000100/part-000.parquet      immutable parts, one row per graded sample
    samples/<benchmark>/problems.jsonl                    what was asked: id, problem (the prompt), answer (the gold)
    attempts/000/{stdout.log,stderr.log,numerics.json,phase.txt}   one directory per process start
    checkpoints/step-000050/          complete checkpoints only
  experiments/<name>/plan.json        arms, seeds and run ids of an experiment
  experiments/<name>/declared.jsonl   as it was declared before its first run, and each later declaration
  cache/<name>/                       rebuildable things (warm-up checkpoints, counted samples, device leases)
```
A name that begins with a dot is being written or deleted: readers ignore it. `manifest.json` with
`"status": "finished"` is the only mark of success, and lists the files that the run has: see seal.py.
"""

import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.store.error import SchemaMismatch, TornFile

RUN_ID = re.compile(r"[0-9a-f]{16}")
_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=+-]*")
_STEP = re.compile(r"step-(\d{6,})")

CONFIG = "config.yaml"
MANIFEST = "manifest.json"
FILES = "files"  # in the manifest of a finished run: sizes and hashes of what a report reads (see seal.py)
METRICS_FILE = "metrics.jsonl"
PROBLEMS = "problems.jsonl"
PLAN = "plan.json"
DECLARED = "declared.jsonl"
CLAIM_LOCK = "claim.lock"
WORKER_LOCK = "worker.lock"
STDOUT = "stdout.log"
STDERR = "stderr.log"
WARNING = "warning: "  # lines of `stderr.log` that begin so are shown to whoever started the run
NUMERICS = "numerics.json"
PHASE = "phase.txt"
TRAINING = "training"  # what `phase.txt` says from step to step


def runs_dir(root: Path) -> Path:
    return root / "runs"


def run_dir(root: Path, run_id: str) -> Path:
    """The directory of one run; `ValueError` if `run_id` is not 16 lower-case hex characters."""
    if RUN_ID.fullmatch(run_id) is None:
        raise ValueError(f"run_id {run_id!r} is not 16 lower-case hex characters")
    return runs_dir(root) / run_id


def experiments_dir(root: Path) -> Path:
    return root / "experiments"


def experiment_dir(root: Path, name: str) -> Path:
    return experiments_dir(root) / safe_name(name, "experiment name")


def plan_file(root: Path, name: str) -> Path:
    return experiment_dir(root, name) / PLAN


def declarations_file(root: Path, name: str) -> Path:
    return experiment_dir(root, name) / DECLARED


def cache_dir(root: Path, name: str) -> Path:
    """A directory whose content can be rebuilt."""
    return root / "cache" / safe_name(name, "cache name")


def attempt_dir(run: Path, number: int) -> Path:
    return run / "attempts" / f"{number:03d}"


def samples_dir(run: Path, benchmark: str, step: int) -> Path:
    """The sample parts of one benchmark at one step (0: before reinforcement learning)."""
    return run / "samples" / safe_name(benchmark, "benchmark") / step_name(step)


def problems_file(run: Path, benchmark: str) -> Path:
    """The problems that the samples of one benchmark answer."""
    return run / "samples" / safe_name(benchmark, "benchmark") / PROBLEMS


def step_name(step: int) -> str:
    if step < 0:
        raise ValueError(f"step {step} is negative")
    return f"step-{step:06d}"


def parse_step(name: str) -> int | None:
    """The step of a directory name made by `step_name`, None for any other name."""
    match = _STEP.fullmatch(name)
    return int(match.group(1)) if match else None


def is_safe(name: str) -> bool:
    """True where `name` can be one path component."""
    return _SAFE_NAME.fullmatch(name) is not None


def safe_name(name: str, subject: str) -> str:
    """`name` itself if it is safe as one path component, else `ValueError`."""
    if not is_safe(name):
        raise ValueError(f"{subject} {name!r} must match {_SAFE_NAME.pattern}")
    return name


def part_paths(directory: Path) -> list[Path]:
    return sorted(directory.glob("part-*.parquet"))


_OF_A_REPORT = (CONFIG, METRICS_FILE, f"samples/*/{PROBLEMS}", "samples/*/step-*/part-*.parquet")


def report_files(run: Path) -> dict[str, Path]:
    """The files of a run that a report reads beside its manifest, those that are there, by their names in the run's directory."""
    paths = sorted(path for pattern in _OF_A_REPORT for path in run.glob(pattern) if path.is_file())
    return {path.relative_to(run).as_posix(): path for path in paths}


_ANY_NAME = r"\w[\w=+.-]{0,200}"
_MOVABLE = re.compile(
    rf"experiments/{_ANY_NAME}/(plan\.json|declared\.jsonl)"
    r"|runs/[0-9a-f]{16}/(config\.yaml|manifest\.json|metrics\.jsonl"
    rf"|samples/{_ANY_NAME}/({re.escape(PROBLEMS)}|step-\d{{6,9}}/part-{_ANY_NAME}\.parquet))",
    re.ASCII,
)


def may_move(name: str) -> bool:
    """Say if a file of this name in a results root may come from another one: it is read as data, and never run."""
    return _MOVABLE.fullmatch(name) is not None


def files_to_move(root: Path, folder: Path) -> dict[str, Path]:
    """The files in a folder of a results root that may go into another one, by their names in the root. A link leads nowhere."""
    paths = sorted(Path(place, name) for place, _, names in os.walk(folder) for name in names)
    plain = {path.relative_to(root).as_posix(): path for path in paths if path.is_file() and not path.is_symlink()}
    return {name: path for name, path in plain.items() if may_move(name)}


MANIFEST_VERSION = 1
PLAN_VERSION = 1

STATUSES = ("running", "finished", "failed", "interrupted")
# What a report says of a finished run whose files are not what they were, and readers of one whose manifest cannot be read; never written.
INCOMPLETE, UNREADABLE = "incomplete", "unreadable"

_MANIFEST_KEYS: dict[str, type] = {
    "arm_id": str, "seed": int, "labels": dict, "attempts": list, "created_at": str, "updated_at": str, "provenance": dict,
    FILES: dict,
}  # fmt: skip
_JSON_NAMES = {str: "a text", int: "an integer", dict: "an object", list: "a list"}

INTEGER_METRICS = (
    "step", "updates", "attempt", "refill_rounds", "generated_tokens", "generated_tokens_total", "trained_tokens",
)  # fmt: skip
METRICS = (
    "step", "updates", "attempt", "reward_mean", "accuracy_mean", "entropy_nats", "response_tokens_mean", "response_tokens_p95",
    "response_tokens_mean_right", "response_tokens_mean_wrong", "response_tokens_mean_truncated", "truncated_fraction",
    "clip_fraction_low", "clip_fraction_high", "up_clipped_old_probability_mean", "ratio_max", "kl_to_reference", "gradient_norm",
    "gradient_clipped_fraction", "groups", "all_right_groups", "all_wrong_groups", "kept_groups", "discarded_groups", "gradient_groups",
    "refill_rounds", "generated_tokens", "generated_tokens_total", "trained_tokens", "learning_rate", "loss",
    "sampler_log_prob_gap_mean", "sampler_log_prob_gap_max", "sampler_kl_nats", "clip_released_fraction", "off_policy_masked_fraction",
    "unevaluated_fraction", "flipped_verdicts_fraction",
    "masked_fraction", "punished_fraction", "length_penalty_mean", "weight_change_response_mean",
    "weight_change_group_token_mean", "weight_change_batch_token_mean", "sigma_weight_change", "removed_fraction", "refilled_fraction",
    "correction_moved_fraction", "correction_change_mean", "kl_share", "entropy_share", "nll_share", "seconds_rollout",
    "seconds_verify", "seconds_train", "seconds_sync", "seconds_evaluate", "seconds_total",
)  # fmt: skip


def read_object(path: Path, fix: str) -> dict[str, Any] | None:
    """Read a file that holds one JSON object; None where it is not there. Raises `TornFile` with the fix for anything else."""
    try:
        text = path.read_bytes()
        content = json.loads(text)
        if b"\\ud" in text.lower():
            json.dumps(content, ensure_ascii=False).encode()  # half a character goes into no frame and no file
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:  # a folder, another user's file, a disk that does not read
        raise TornFile(f"{path} cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:  # a file from elsewhere may be nested beyond all depths
        raise TornFile(f"{path} is not JSON ({error}); {fix}") from error
    if not isinstance(content, dict):
        raise TornFile(f"{path} is not a JSON object; {fix}")
    return content


def check_version(version: object, newest_version: int, path: Path) -> None:
    """Refuse what a newer harness wrote, and what says no version. Raises `SchemaMismatch`."""
    if not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise SchemaMismatch(f"{path} has no schema_version; it was not written by this harness: move it away")
    if version > newest_version:
        raise SchemaMismatch(f"{path} was written by a newer version of the harness (schema {version}); upgrade")


def check_manifest(manifest: Mapping[str, Any], run_id: str, path: Path) -> None:
    """Refuse a manifest of another schema, run or status, or without what readers need. Raises `SchemaMismatch`."""
    check_version(manifest.get("schema_version"), MANIFEST_VERSION, path)
    if manifest.get("run_id") != run_id:
        raise SchemaMismatch(f"{path} is the manifest of run {manifest.get('run_id')!r}; move it back or delete it")
    if manifest.get("status") not in STATUSES:
        raise SchemaMismatch(f"{path} has status {manifest.get('status')!r}; expected one of {', '.join(STATUSES)}")
    manifest = {"provenance": {}, FILES: {}, **manifest}  # the first runs have none
    for key, kind in _MANIFEST_KEYS.items():
        if key not in manifest:
            raise SchemaMismatch(f"{path} has no {key}; move the run's directory away to run this run again")
        if not isinstance(manifest[key], kind) or isinstance(manifest[key], bool):
            value = repr(manifest[key])[:80]
            raise SchemaMismatch(f"{path} has {key} {value}, which is not {_JSON_NAMES[kind]}; move its folder away")
    if not all(isinstance(attempt, dict) for attempt in manifest["attempts"]):
        raise SchemaMismatch(f"{path} has attempts that are no objects; move the run's directory away to run it again")

"""The folders and files under a results root.

```
<results>/
  runs/<run_id>/                      run_id: 16 lower-case hex characters
    config.yaml                       the resolved configuration of the run
    manifest.json                     ids, status, attempts, provenance; written by the supervisor only
    metrics.jsonl                     one JSON object per rollout step, appended
    claim.lock worker.lock            advisory locks of the supervisor and of the worker (see lease.py)
    samples/<benchmark>/step-000100/part-000.parquet      immutable parts, one row per graded sample
    attempts/000/{stdout.log,stderr.log,env.json,numerics.json,phase.txt}   one directory per process start
    tracking/<tracker>.json           how far a tracker (wandb, TensorBoard) is
    checkpoints/step-000050/          complete checkpoints only
  experiments/<name>/plan.json        arms, seeds and run ids of an experiment (claim.lock: an import writes it)
  cache/<name>/                       rebuildable things (warm-up checkpoints, counted samples, device leases)
```
A name that begins with a dot is being written or deleted: readers ignore it. `manifest.json` with
`"status": "finished"` is the only mark of success.
"""

from __future__ import annotations

import re
from pathlib import Path

RUN_ID = re.compile(r"[0-9a-f]{16}")
_SAFE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._=+-]*")
_STEP = re.compile(r"step-(\d{6,})")

CONFIG = "config.yaml"
MANIFEST = "manifest.json"
METRICS = "metrics.jsonl"
PLAN = "plan.json"
DECLARATION = "claim.json"  # of a claim, when its first run began
STUDY = "study.journal"  # of a search
CLAIM_LOCK = "claim.lock"
WORKER_LOCK = "worker.lock"
TRACKING = "tracking"
STDOUT = "stdout.log"
STDERR = "stderr.log"
WARNING = "warning: "  # lines of `stderr.log` that begin so are shown to whoever started the run
ENVIRONMENT = "env.json"
NUMERICS = "numerics.json"
PHASE = "phase.txt"
TRAINING = "training"  # what `phase.txt` says from step to step


def runs_dir(root: Path) -> Path:
    """The directory of all runs."""
    return root / "runs"


def run_dir(root: Path, run_id: str) -> Path:
    """The directory of one run; `ValueError` if `run_id` is not 16 lower-case hex characters."""
    if RUN_ID.fullmatch(run_id) is None:
        raise ValueError(f"run_id {run_id!r} is not 16 lower-case hex characters")
    return runs_dir(root) / run_id


def experiments_dir(root: Path) -> Path:
    """The directory of all experiments."""
    return root / "experiments"


def experiment_dir(root: Path, name: str) -> Path:
    """The directory of one experiment: its plan, tables and figures."""
    return experiments_dir(root) / safe_name(name, "experiment name")


def plan_file(root: Path, name: str) -> Path:
    """The plan of an experiment."""
    return experiment_dir(root, name) / PLAN


def cache_dir(root: Path, name: str) -> Path:
    """A directory whose content can be rebuilt."""
    return root / "cache" / safe_name(name, "cache name")


def attempt_dir(run: Path, number: int) -> Path:
    """The directory of one attempt at a run."""
    return run / "attempts" / f"{number:03d}"


def samples_dir(run: Path, benchmark: str, step: int) -> Path:
    """The sample parts of one benchmark at one step (0: before reinforcement learning)."""
    return run / "samples" / safe_name(benchmark, "benchmark") / step_name(step)


def step_name(step: int) -> str:
    """`step-000050`."""
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


def safe_name(name: str, what: str) -> str:
    """`name` itself if it is safe as one path component, else `ValueError`."""
    if not is_safe(name):
        raise ValueError(f"{what} {name!r} must match {_SAFE_NAME.pattern}")
    return name


def part_paths(directory: Path) -> list[Path]:
    """The complete parts in a directory, in the order of their names."""
    return sorted(directory.glob("part-*.parquet"))

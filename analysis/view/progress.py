"""What every run of an experiment does now, out of the store: the numbers on top of a page that follows runs."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from analysis.evidence.stored_plan import PlanError, StoredArm, StoredPlan, parse_plan
from harness.store import ResultStore, RunDir, StoreError, layout


def progress_of(store: ResultStore, name: str) -> dict[str, Any]:
    """``{"title", "counts", "fraction", "runs", "error"}`` of an experiment, ready for JSON; nothing is raised or written.

    ``counts`` has a status to its number of runs, ``fraction`` the share of all steps that is done (runs of unknown
    length count when they end), ``error`` why the plan cannot be read (else null). A run has label, seed, run_id, status,
    step and total (null where unknown), phase, reward, seconds_left (at the pace of the newest step) and problem. Beside the
    statuses of manifests there are ``waiting`` (not started), ``lost`` (its supervisor is gone: running the experiment
    again resumes it) and ``unreadable``.
    """
    try:
        plan = plan_of(store, name)
    except (StoreError, PlanError) as error:
        return {"title": name, "counts": {}, "fraction": 0.0, "runs": [], "error": str(error)}
    runs = [_run(store, arm, seed, run_id) for arm in plan.arms for seed, run_id in arm.runs.items()]
    counts = dict(sorted(Counter(run["status"] for run in runs).items()))
    done = sum(1.0 if run["status"] == "finished" else _share(run) for run in runs)
    fraction = done / len(runs) if runs else 0.0
    return {"title": plan.title, "counts": counts, "fraction": fraction, "runs": runs, "error": None}


def plan_of(store: ResultStore, name: str) -> StoredPlan:
    """The plan of an experiment, from whoever wrote it. Raises StoreError, or PlanError for whatever is no plan."""
    raw = store.plan(name)
    try:
        return parse_plan(raw)
    except PlanError:
        raise
    except (TypeError, ValueError, AttributeError, LookupError) as error:
        raise PlanError(f"plan {name} cannot be read: {error}; write it with `harness run`") from error


def counts_text(progress: Mapping[str, Any]) -> str:
    """``3 finished, 1 running``, or why that is not known."""
    counts = ", ".join(f"{count} {status}" for status, count in progress["counts"].items())
    return str(progress["error"] or counts or "no runs")


def _run(store: ResultStore, arm: StoredArm, seed: int, run_id: str) -> dict[str, Any]:
    found: dict[str, Any] = {"label": arm.label, "seed": seed, "run_id": run_id, "status": "waiting"}
    found |= {"step": None, "total": None, "phase": "", "reward": None, "seconds_left": None, "problem": ""}
    try:
        run = store.run(run_id)
        manifest = run.manifest()
        row = run.last_step() or {}
    except (StoreError, OSError, ValueError) as error:  # ValueError: a plan whose run id is none
        return found | {"status": "unreadable", "problem": str(error)}
    if manifest is None:
        return found
    status = str(manifest["status"])
    if status in ("claimed", "running") and not _supervised(run):
        status = "lost"
    steps = str((manifest.get("labels") or {}).get("steps", ""))
    found |= {"status": status, "step": row.get("step", 0), "total": int(steps) if steps.isdigit() else None}
    found["reward"] = _number(row.get("reward_mean"))
    if status == "running":
        phase, pace = run.phase(), _number(row.get("seconds_total"))
        found["phase"] = "" if phase == layout.TRAINING else phase
        if pace is not None and found["total"] is not None:
            found["seconds_left"] = max(0, found["total"] - found["step"]) * pace
    if status == "failed":
        found["problem"] = str(manifest.get("error") or "").strip().rpartition("\n")[2]
    return found


def _supervised(run: RunDir) -> bool:
    try:
        return run.claimed_by() is not None
    except OSError:  # no locks here, or not ours to read: the manifest is all there is
        return True


def _share(run: Mapping[str, Any]) -> float:
    return min(run["step"] / run["total"], 1.0) if run["step"] and run["total"] else 0.0


def _number(value: Any) -> float | None:
    """A finite number, or None for whatever else a log holds."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if known else None

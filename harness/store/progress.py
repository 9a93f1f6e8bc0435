"""The state of a run as the store tells it now: `harness status` and the page of `harness view` show it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.store import layout
from harness.store.errors import StoreError
from harness.store.reader import ResultStore
from harness.store.run import RunDir

STARTING = "starting"


@dataclass(frozen=True)
class RunState:
    """One run.

    Attributes:
        run_id: its id.
        status: of the manifest; or waiting (not started), lost (its supervisor is gone: running the experiment again resumes it),
            unreadable.
        name: its arm's name and its seed.
        step: the newest, None where the run has not started.
        total: the last step, None where unknown.
        phase: what it does if that is not training.
        reward: mean of the newest step.
        seconds_left: to the last step, at the pace of the newest; None where unknown.
        problem: why it failed or cannot be read.
    """

    run_id: str
    status: str = "waiting"
    name: str = ""
    step: int | None = None
    total: int | None = None
    phase: str = ""
    reward: float | None = None
    seconds_left: float | None = None
    problem: str = ""

    @property
    def where(self) -> str:
        """The step of all steps, and the phase: `12/60`."""
        return position(self.step or 0, self.total, self.phase)


def run_state(store: ResultStore, run_id: str) -> RunState:
    """Read the state of a run; nothing is raised or written."""
    try:
        run = store.run(run_id)
        manifest, row = run.manifest(), run.last_step() or {}
    except (StoreError, OSError, ValueError) as error:  # ValueError: a plan whose run id is none
        return RunState(run_id, "unreadable", problem=str(error))
    if manifest is None:
        return RunState(run_id)
    status = str(manifest["status"])
    if status in ("claimed", "running") and not _supervised(run):
        status = "lost"
    step, total, pace = row.get("step", 0), total_steps(manifest["labels"]), _number(row.get("seconds_total"))
    running = status == "running"
    phase = (run.phase() or ("" if step else STARTING)) if running else ""
    return RunState(
        run_id,
        status,
        run_name(run_id, manifest["arm_id"], manifest["seed"], manifest["labels"]),
        step,
        total,
        "" if phase == layout.TRAINING else phase,
        _number(row.get("reward_mean")),
        max(0, total - step) * pace if running and total is not None and pace is not None else None,
        str(manifest.get("error") or "").strip().rpartition("\n")[2] if status == "failed" else "",
    )


def run_name(run_id: str, arm_id: str, seed: int, labels: Mapping[str, str]) -> str:
    """Name a run on screen: its arm's name where the labels tell one, and its seed."""
    return f"{labels.get('arm') or labels.get('name') or arm_id or run_id} seed {seed}"


def total_steps(labels: Mapping[str, str]) -> int | None:
    """Read the number of steps of a run off `labels["steps"]`."""
    text = str(labels.get("steps", ""))
    return int(text) if text.isdigit() else None


def position(step: int, total: int | None, phase: str) -> str:
    """Say where a run is: `12/60`, and its phase if it has one."""
    return (f"{step}/{total}" if total is not None else str(step)) + (f" {phase}" if phase else "")


def _supervised(run: RunDir) -> bool:
    try:
        return run.claimed_by() is not None
    except OSError:  # no locks here, or not ours to read: the manifest is all there is
        return True


def _number(value: Any) -> float | None:
    """A finite number, or None for whatever else a log holds."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if known else None

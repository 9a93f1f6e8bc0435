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
        attempts: how many there were.
        step: the newest, None where the run has not started.
        total: the last step, None where unknown.
        phase: what it does if that is not training.
        reward: mean of the newest step.
        pace: seconds of the newest step, None where unknown.
        problem: why it failed or cannot be read.
        experiment: the one that first asked for it.
    """

    run_id: str
    status: str = "waiting"
    name: str = ""
    attempts: int = 0
    step: int | None = None
    total: int | None = None
    phase: str = ""
    reward: float | None = None
    pace: float | None = None
    problem: str = ""
    experiment: str = ""

    @property
    def where(self) -> str:
        """The step of all steps, and the phase if it has one: `12/60`."""
        step = self.step or 0
        place = str(step) if self.total is None else f"{step}/{self.total}"
        return f"{place} {self.phase}".rstrip()

    @property
    def steps_left(self) -> int | None:
        """The number of steps to the last one, None where unknown."""
        return None if self.total is None else max(0, self.total - (self.step or 0))

    @property
    def seconds_left(self) -> float | None:
        """Estimated seconds to the last step of a run that runs, None where unknown."""
        if self.status != "running" or self.pace is None or self.steps_left is None:
            return None
        return self.steps_left * self.pace


def run_state(store: ResultStore, run_id: str) -> RunState:
    """Read the state of a run; nothing is raised or written."""
    try:
        run = store.run(run_id)
        manifest, row = run.manifest(), run.last_step() or {}
    except (StoreError, OSError, ValueError) as error:  # ValueError: a plan whose run id is none
        return RunState(run_id, "unreadable", problem=str(error))
    if manifest is None:
        return RunState(run_id)
    status, step, phase = str(manifest["status"]), row.get("step", 0), ""
    if status in ("claimed", "running"):
        phase = run.phase() or ("" if step else STARTING)
        status = status if _supervised(run) else "lost"
    return RunState(
        run_id,
        status,
        run_name(run_id, manifest["arm_id"], manifest["seed"], manifest["labels"]),
        len(manifest["attempts"]),
        step,
        total_steps(manifest["labels"]),
        "" if phase == layout.TRAINING or status == "lost" else phase,
        _number(row.get("reward_mean")),
        _number(row.get("seconds_total")) or None,
        str(manifest.get("error") or "").strip().rpartition("\n")[2] if status == "failed" else "",
        str(manifest["labels"].get("experiment", "")),
    )


def run_name(run_id: str, arm_id: str, seed: int, labels: Mapping[str, str]) -> str:
    """Name a run on screen: its arm's name where the labels tell one, and its seed."""
    return f"{labels.get('arm') or labels.get('name') or arm_id or run_id} seed {seed}"


def total_steps(labels: Mapping[str, str]) -> int | None:
    """Read the number of steps of a run off `labels["steps"]`."""
    text = str(labels.get("steps", ""))
    return int(text) if text.isdigit() else None


def _supervised(run: RunDir) -> bool:
    try:
        return run.claimed_by() is not None
    except OSError:  # no locks here, or not ours to read: the manifest is all there is
        return True


def _number(value: Any) -> float | None:
    """A finite number, or None for whatever else a log holds."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if known else None

"""The state of a run as the store tells it now: `harness status` and the page of `harness view` show it."""

from __future__ import annotations

import math
import socket
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness.store import layout
from harness.store.errors import StoreError
from harness.store.reader import ResultStore
from harness.store.run import RunDir

STARTING = "starting"
UNDER_WAY = ("running", "claimed")  # manifests of an earlier version have `claimed` before a worker starts
_TAIL_BYTES = 8192
_TAIL_LINES = 30


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
        manifest = run.manifest()
        if manifest is None:
            return RunState(run_id)
        held = manifest["status"] not in UNDER_WAY or _supervised(run)
        state = read_state(run, manifest)
    except (StoreError, OSError, ValueError) as error:  # ValueError: a plan whose run id is none
        return RunState(run_id, "unreadable", problem=str(error))
    return state if held else replace(state, status="lost", phase="", problem=_last_holder(run))


def read_state(run: RunDir, manifest: Mapping[str, Any]) -> RunState:
    """The state of a run by its manifest, its newest metrics row and its phase, without a look at its claim.

    `manifest` is that of the store, or what its supervisor has in memory.
    """
    row = run.last_step() or {}
    status, step, attempts = str(manifest["status"]), row.get("step", 0), manifest["attempts"]
    phase = ""
    if status in UNDER_WAY:
        phase = run.phase(len(attempts) - 1) or ("" if step else STARTING)
    return RunState(
        run.run_id,
        "running" if status in UNDER_WAY else status,
        run_name(run.run_id, manifest["arm_id"], manifest["seed"], manifest["labels"]),
        len(attempts),
        step,
        total_steps(manifest["labels"]),
        "" if phase == layout.TRAINING else phase,
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


def _last_holder(run: RunDir) -> str:
    """Where a lost run may go on unseen: a free claim that names another host was killed there, or is held there by a local lock."""
    holder = run.left_behind_by()
    if holder is None or holder.host == socket.gethostname():
        return ""
    return (
        f"its claim is free here and names process {holder.pid} on {holder.host}: that process was killed, or locks of this file "
        "system do not reach other hosts (Lustre localflock, NFS local_lock=all); look there before running it again"
    )


def _number(value: Any) -> float | None:
    """A finite number, or None for whatever else a log holds."""
    known = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if known else None


def read_tail(path: Path) -> str:
    """The last lines of a log, empty if there are none."""
    if not path.exists():
        return ""
    with open(path, "rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        text = file.read().decode(errors="replace")
    return "\n".join(text.strip().splitlines()[-_TAIL_LINES:])

"""A results root: its runs, experiments and caches by name."""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.store import atomic, layout
from harness.store.atomic import write_errors
from harness.store.error import StoreError, TornFile
from harness.store.layout import PLAN_VERSION, check_version, read_object
from harness.store.run import RunDir

if TYPE_CHECKING:  # it loads where a table is asked for: most verbs ask for none, and it takes as long as all the rest
    import pandas as pd


class ResultStore:
    """All runs and experiments under one root. Reading never writes; an absent root is an empty store."""

    def __init__(self, root: Path | str) -> None:
        self.root = Path(root)

    def run(self, run_id: str) -> RunDir:
        """The directory of a run, whether or not it exists yet."""
        return RunDir(layout.run_dir(self.root, run_id))

    def run_ids(self) -> list[str]:
        """List the runs with a readable manifest, sorted; `problems()` tells of the rest."""
        return [run_id for run_id, entry in self._scan_runs() if isinstance(entry, dict)]

    def problems(self) -> list[str]:
        """Say in a line each what readers skip: foreign files, newer schemas, unreadable manifests."""
        problems = [problem for _, problem in self._scan_runs() if isinstance(problem, str)]
        for name in self._experiment_names():
            if not layout.is_safe(name):
                folder = layout.experiments_dir(self.root) / name
                problems.append(f"{folder} is not an experiment (no experiment can have this name); ignored")
                continue
            try:
                self.plan(name)
            except StoreError as error:
                problems.append(str(error))
        return problems

    def readable(self) -> list[dict[str, Any]]:
        return [entry for _, entry in self._scan_runs() if isinstance(entry, dict)]

    def provenance_frame(self, run_ids: Iterable[str]) -> pd.DataFrame:
        """Tabulate what made each run: run_id, code, packages, device, versions (of Python and torch, in words).

        `code` is the hash of the sources, else the commit; `packages` the hash of all versions.

        Rows whose values differ were not made by the same program. Empty strings where the manifest does not say.
        """
        import pandas as pd

        rows = []
        for run_id in run_ids:
            manifest = self.run(run_id).manifest() or {}
            provenance, device = manifest.get("provenance", {}), " and ".join(devices_of(manifest))
            code = provenance.get("code_hash") or provenance.get("git_commit") or ""
            packages = json.dumps(provenance.get("packages", {}), sort_keys=True)
            digest = hashlib.sha256(packages.encode()).hexdigest()[:16] if packages != "{}" else ""
            programs = {"python": provenance.get("python"), "torch": provenance.get("packages", {}).get("torch")}
            versions = ", ".join(f"{name} {version}" for name, version in programs.items() if version)
            rows.append({"run_id": run_id, "code": code, "packages": digest, "device": device, "versions": versions})
        return pd.DataFrame.from_records(rows, columns=["run_id", "code", "packages", "device", "versions"])

    def write_plan(self, name: str, plan: Mapping[str, Any]) -> None:
        """Publish the plan of an experiment, unless it says the same already; version and checksum are filled in."""
        whole = {"schema_version": PLAN_VERSION, **{key: value for key, value in plan.items() if key != CHECKSUM}}
        text = json.dumps({**whole, CHECKSUM: _checksum(whole)}, indent=1, allow_nan=False).encode() + b"\n"
        path = layout.plan_file(self.root, name)
        if not path.exists() or path.read_bytes() != text:  # its date tells whether tables are older
            atomic.write_file(path, text)

    def plan(self, name: str) -> dict[str, Any]:
        """Read the plan of an experiment. Raises `StoreError` naming the file (torn, of another version), or the plans there are."""
        if not layout.is_safe(name):
            raise StoreError(f"no experiment can be called {name!r} (plans here: {', '.join(self.plans()) or 'none'})")
        path = layout.plan_file(self.root, name)
        plan = read_object(path, "delete it, then run the experiment again")
        if plan is None:
            names = ", ".join(self.plans()) or "none"
            raise StoreError(f"{path} does not exist (plans here: {names}); `harness run` writes it")
        check_version(plan.get("schema_version"), PLAN_VERSION, path)
        digest = _checksum(plan)
        if plan.pop(CHECKSUM, digest) != digest:
            raise TornFile(f"{path} is not what was written; put it back, or delete it and run the experiment again")
        if not _has_arms(plan):
            raise TornFile(f"{path} names no arms with run ids by seed; delete it, then run the experiment again")
        return {**plan, "name": name}  # its folder may have been renamed or copied

    def plans(self) -> list[str]:
        return [name for name in self._experiment_names() if layout.is_safe(name)]

    def cache_dir(self, name: str) -> Path:
        path = layout.cache_dir(self.root, name)
        with write_errors(path):
            atomic.make_folder(path)
        return path

    def _experiment_names(self) -> list[str]:
        plans = layout.experiments_dir(self.root).glob("*/plan.json")
        return sorted(path.parent.name for path in plans if not path.parent.name.startswith("."))

    def _scan_runs(self) -> Iterator[tuple[str, dict[str, Any] | str]]:
        """(directory name, its manifest or what is wrong with it), sorted by name; the runs' other files are not looked at."""
        root = layout.runs_dir(self.root)
        names = sorted(os.listdir(root)) if root.is_dir() else []
        for name in names:
            if name.startswith("."):
                continue
            if layout.RUN_ID.fullmatch(name) is None:
                yield name, f"{root / name} is not a run (its name is not a run id); ignored"
                continue
            if (root / name).is_symlink():
                yield name, f"{root / name} is a link, and a run is a folder; ignored"
                continue
            try:
                manifest = RunDir(root / name).manifest()
            except StoreError as error:
                yield name, str(error)
                continue
            if manifest is not None:
                yield name, manifest
            # An unfinished start gets its manifest soon, or `harness run` takes it over.
            elif fault := RunDir(root / name).without_manifest():
                yield name, fault


CHECKSUM = "sha256"  # of a plan, over all its other fields


def _checksum(plan: Mapping[str, Any]) -> str:
    others = {key: value for key, value in plan.items() if key != CHECKSUM}
    return hashlib.sha256(json.dumps(others, sort_keys=True).encode()).hexdigest()


STARTING = "starting"
_TAIL_BYTES = 8192
_TAIL_LINES = 30


@dataclass(frozen=True)
class RunState:
    """One run.

    Attributes:
        status: of the manifest; or waiting (not started), unreadable, lost (its supervisor is gone: the same command resumes it).
        name: its arm's name and its seed.
        total: the last step, None where unknown.
        phase: what it does if that is not training.
        reward, pace: mean reward and seconds of the newest step, None where unknown.
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
        is_lost = _is_lost(run, manifest["status"])
        state = read_state(run, manifest)
    except (StoreError, OSError, ValueError) as error:  # ValueError: a plan whose run id is none
        return RunState(run_id, "unreadable", problem=str(error))
    return replace(state, status="lost", phase="") if is_lost else state


def run_status(run: RunDir) -> str | None:
    """Read the status of a run off its manifest, or `lost` where its supervisor is gone; None: not started."""
    return "lost" if _is_lost(run, run.status) else run.status


def read_state(run: RunDir, manifest: Mapping[str, Any]) -> RunState:
    """The state of a run by its manifest, its newest metrics row and its phase, without a look at its claim.

    `manifest` is that of the store, or what its supervisor has in memory.
    """
    row = run.last_step() or {}
    status, step, attempts = str(manifest["status"]), row.get("step", 0), manifest["attempts"]
    phase = ""
    if status == "running":
        number = attempts[-1].get("index", len(attempts) - 1) if attempts else 0
        phase = run.phase(number) or ("" if step else STARTING)
    return RunState(
        run.run_id,
        status,
        run_name(run.run_id, manifest["arm_id"], manifest["seed"], manifest["labels"]),
        len(attempts),
        step,
        total_steps(manifest["labels"]),
        "" if phase == layout.TRAINING else phase,
        _number(row.get("reward_mean")),
        _number(row.get("seconds_total")) or None,
        str(manifest.get("error") or "").strip().rpartition("\n")[2] if status in ("failed", "interrupted") else "",
        str(manifest["labels"].get("experiment", "")),
    )


def devices_of(manifest: Mapping[str, Any] | None) -> tuple[str, ...]:
    """List every device that an attempt at the run had, sorted: `cpu`, or a GPU's name; empty where the manifest does not say.

    A run that was stopped on one and resumed on another has both.
    """
    attempts = (manifest or {}).get("attempts", [])
    return tuple(sorted({str(attempt["device"]) for attempt in attempts if attempt.get("device")}))


def _has_arms(plan: Mapping[str, Any]) -> bool:
    """Whether a plan has what every reader takes for granted: arms, each with its name and its runs by seed."""
    arms = plan.get("arms")
    return isinstance(arms, list) and all(
        isinstance(arm, dict)
        and isinstance(arm.get("name"), str)
        and isinstance(arm.get("runs"), dict)
        and all(isinstance(run_id, str) and layout.RUN_ID.fullmatch(run_id) for run_id in arm["runs"].values())
        and all(seed.removeprefix("-").isdecimal() for seed in arm["runs"])
        for arm in arms
    )


def run_name(run_id: str, arm_id: str, seed: int, labels: Mapping[str, str]) -> str:
    """Name a run on screen: its arm's name where the labels tell one, and its seed."""
    return f"{labels.get('arm') or labels.get('name') or arm_id or run_id} seed {seed}"


def total_steps(labels: Mapping[str, str]) -> int | None:
    """Read the number of steps of a run off `labels["steps"]`."""
    text = str(labels.get("steps", ""))
    return int(text) if text.isdigit() else None


def _is_lost(run: RunDir, status: str | None) -> bool:
    try:
        return status == "running" and run.claim_holder() is None
    except (OSError, StoreError):  # no locks here, or not ours to read: the manifest is all there is
        return False


def _number(value: Any) -> float | None:
    """A finite number, or None for whatever else a log holds."""
    is_finite = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if is_finite else None


def read_tail(path: Path) -> str:
    if not path.exists():
        return ""
    with open(path, "rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        text = file.read().decode(errors="replace")
    return "\n".join(text.strip().splitlines()[-_TAIL_LINES:])

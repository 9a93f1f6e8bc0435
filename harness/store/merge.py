"""Results of several roots in one: runs by their id, experiments by their name. Nothing that finished is ever overwritten."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from harness.store import atomic, layout
from harness.store.errors import RunClaimed, SchemaMismatch, StoreError, TornFile
from harness.store.pack import experiment_files, report_files
from harness.store.reader import ResultStore
from harness.store.run import RunDir
from harness.store.schema import read_object

_OF_THIS_MACHINE = {layout.CLAIM_LOCK, layout.WORKER_LOCK}
# Seeds and runs of two plans that ask the same are put together; these say when and how they were asked.
_OF_A_COMMAND = ("command", "checks", "decisions")


@dataclass
class Merged:
    """An account of the runs of one root: how many are new or were there, what was chosen, and what stays apart."""

    new: int = 0
    same: int = 0
    notes: list[str] = field(default_factory=list)
    apart: list[str] = field(default_factory=list)


def merge(store: ResultStore, root: Path) -> Merged:
    """Take over what another root holds. A finished run beats an unfinished one, of two unfinished ones the further one stays.

    A run or plan that both have with different content stays as it is here and is named; everything else is taken all the same.

    Raises:
        StoreError: the roots are one folder, or this one cannot be written.
    """
    if root.resolve() == store.root.resolve():
        raise StoreError(f"{root} is the results root itself; give another folder or a pack")
    source, merged = ResultStore(root), Merged()
    merged.apart += source.problems()
    for run_id in source.run_ids():
        try:
            _merge_run(store.run(run_id), source.run(run_id), merged)
        except (RunClaimed, SchemaMismatch, TornFile) as error:
            merged.apart.append(f"run {run_id}: {error}")
    for name in source.plans():
        folder = layout.plan_file(root, name).parent
        for path in experiment_files(folder):
            ours = layout.plan_file(store.root, name).with_name(path.name)
            if not ours.exists():
                atomic.write_file(ours, path.read_bytes())
            elif ours.read_bytes() != path.read_bytes():
                _join(ours, path, f"experiment {name}", merged)
    return merged


def _merge_run(ours: RunDir, theirs: RunDir, merged: Merged) -> None:
    if not ours.path.exists():
        atomic.publish_directory_once(ours.path, partial(_copy, theirs.path))
        merged.new += 1
        return
    if ours.exists() and _content(ours) == _content(theirs):
        merged.same += 1
        for _, path in theirs.checkpoints():
            copy = partial(_copy, path)
            atomic.publish_directory_once(ours.path / "checkpoints" / path.name, copy)
        return
    here, there = _progress(ours), _progress(theirs)
    if not here[0] and there > here:
        with ours.lock():
            here = _progress(ours)  # it may have gone on, or ended, before the lock was free
            if not here[0] and there > here:
                atomic.publish_directory(ours.path, partial(_copy, theirs.path))
                merged.notes.append(f"run {ours.run_id}: taken, {_words(there)} (here: {_words(here)})")
                return
    if here[0] and there[0]:
        merged.apart.append(
            f"run {ours.run_id} finished in both places with different results; the one here stays. To keep the other one too, "
            "merge it into another runtime.results"
        )
    else:
        merged.notes.append(f"run {ours.run_id}: kept, {_words(here)} (there: {_words(there)})")


def _copy(source: Path, target: Path) -> None:
    shutil.copytree(source, target, ignore=_left_out, dirs_exist_ok=True)


def _left_out(folder: str, names: list[str]) -> set[str]:
    """Locks, what is being written, and links, which may lead anywhere."""
    return {
        name
        for name in names
        if name in _OF_THIS_MACHINE or name.startswith(".") or os.path.islink(os.path.join(folder, name))
    }


def _content(run: RunDir) -> dict[str, bytes]:
    return {path.relative_to(run.path).as_posix(): path.read_bytes() for path in report_files(run.path)}


def _progress(run: RunDir) -> tuple[bool, int, int]:
    """Whether a run finished, its newest checkpoint, from which it would go on, and its last step; -1 for none."""
    checkpoint = max((step for step, _ in run.checkpoints()), default=-1)
    return run.status == "finished", checkpoint, int((run.last_step() or {"step": -1})["step"])


def _words(progress: tuple[bool, int, int]) -> str:
    finished, checkpoint, step = progress
    if finished:
        return "finished"
    return f"unfinished, {max(step, 0)} steps, {f'checkpoint {checkpoint}' if checkpoint >= 0 else 'no checkpoint'}"


# ---- experiments ----


def _join(ours: Path, theirs: Path, where: str, merged: Merged) -> None:
    """Put together two versions of a file of an experiment, or name what stays apart."""
    if theirs.name != layout.STUDY:
        here, there = read_object(ours, "delete it") or {}, read_object(theirs, "delete it") or {}
        joined = (
            _plans(here, there)
            if theirs.name == layout.PLAN
            else min(here, there, key=lambda claim: str(claim.get("first_run_at")))
        )
        if joined is not None:
            atomic.write_file(ours, json.dumps(joined, indent=1, allow_nan=False).encode() + b"\n")
            return
    merged.apart.append(
        f"{where}: {theirs.name} asks something else there; the one here stays. Its runs are taken: `harness run` with the arms and "
        "seeds of both finds them finished. To keep both answers, merge it into another runtime.results"
    )


def _plans(here: Mapping[str, Any], there: Mapping[str, Any]) -> dict[str, Any] | None:
    """The plan with the runs of both, None where they differ in more than seeds."""
    if _question(here) != _question(there):
        return None
    runs = [
        {**ours["runs"], **theirs["runs"]} for ours, theirs in zip(here["arms"], there["arms"], strict=True)
    ]
    arms = [
        {**arm, "runs": dict(sorted(runs_of_arm.items(), key=lambda item: int(item[0])))}
        for arm, runs_of_arm in zip(here["arms"], runs, strict=True)
    ]
    seeds = sorted({*here["seeds"], *there["seeds"]})
    return {**{key: value for key, value in here.items() if key != "decisions"}, "seeds": seeds, "arms": arms}


def _question(plan: Mapping[str, Any]) -> dict[str, Any]:
    left = {key: value for key, value in plan.items() if key not in (*_OF_A_COMMAND, "seeds")}
    return {**left, "arms": [{**arm, "runs": None} for arm in plan["arms"]]}

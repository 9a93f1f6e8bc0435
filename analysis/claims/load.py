"""Claims out of the result store: each look judged by its experiment, second looks beside their first ones."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from analysis.claims.judged import PREFIX, Judged, judged_of, with_second
from analysis.claims.record import FIRST, SECOND, Effect, joined, read_effects
from analysis.evidence.engagement import engagements
from analysis.evidence.load import load_experiment
from analysis.evidence.results import results_of
from analysis.tables.differences import differences_to_reference
from harness.statistics.finding import finding
from harness.statistics.replication import shared
from harness.store import ResultStore, StoreError, layout


def judged(root: Path, name: str) -> Judged | None:
    """The claim of an experiment by its own look; None of one that declares none.

    Raises:
        StoreError: no such experiment.
        PlanError: its plan cannot be read.
    """
    store = ResultStore(root)
    record = store.plan(name)
    if not record.get("claim"):
        return None
    results = results_of(load_experiment(root, name, curves=False))
    (arm_name, effect), *_ = differences_to_reference(results).items()
    plan, engaged = results.experiment.plan, engagements(results.experiment)[arm_name]
    arm, claim = plan.arm(arm_name), record["claim"]
    reference = plan.reference_of(arm)
    # What the runs took, those that other experiments share included.
    steps = results.experiment.steps.drop_duplicates(["run_id", "step"])
    known = [value for value in engaged.values if not math.isnan(value)]
    kept = _kept(root, name)
    starts = {int(seed): start for seed, start in record.get("starts", {}).items()}
    return Judged(
        name=_claim_of(name, record),
        title=record["title"],
        claim=claim,
        finding=finding(effect, claim["expects"], engaged.hardly and engaged.known),
        effect=effect.scaled(results.metric.scale),
        margin=results.shown_margin or math.nan,
        metric=results.metric,
        engaged=engaged.text,
        share=max(known, default=math.nan),
        generated_tokens=float(steps["generated_tokens"].sum()) if len(steps) else 0.0,
        hours=float(steps["seconds_total"].sum()) / 3600 if len(steps) else 0.0,
        declared_after=kept.get("declaration", record.get("declaration")) != record.get("declaration")
        or bool(kept.get("changed")),
        system=arm.label or arm.name,
        reference="" if reference is None else reference.label or reference.name,
        regime=_regime(record),
        commit=_commit(store, [run for one in plan.arms for run in one.runs.values()]),
        declaration=record.get("declaration", ""),
        protocol=record.get("protocol", ""),
        looks=plan.looks,
        starts={seed: start for seed, start in starts.items() if seed in plan.seeds[: effect.seeds]},
        notes=tuple(record.get("notes", ())),
        chance=float(kept.get("chance", math.nan)),
    )


def all_judged(
    root: Path, names: Sequence[str] = (), record: Path | None = None
) -> tuple[list[Judged], list[str]]:
    """The claims of these experiments, or of all, by name, each with its second look; and a line for what cannot be read.

    First looks that the store does not hold come from what a second look kept of them, else from the ``record`` of effects;
    second looks that it does not hold come from the record.
    """
    own, seconds, unread = _of_store(root, names)
    told = recorded(record, FIRST)
    again = {first: (f"{first}_second", one) for first, one in recorded(record, SECOND).items()}
    seconds = {first: found for first, found in again.items() if not names or first in names} | seconds
    kept = {first: _kept(root, name).get("first") for first, (name, _) in seconds.items()}
    told |= {first: judged_of(Effect.of(row)) for first, row in kept.items() if row}
    firsts = {name: one for name, one in told.items() if not names or name in names} | own
    lines = [line for name, line in unread.items() if name not in firsts]
    for first, (name, one) in seconds.items():
        if first not in firsts:
            lines.append(f"{name}: there is no first look at {first} to hold it against")
        elif not one.starts:
            lines.append(f"{name}: no seed of both arms has finished yet; the same command goes on")
        elif (both := shared(firsts[first].starts, one.starts)) or not firsts[first].starts:
            why = f"they share {both}" if both else "nothing tells which base policies the first one used"
            lines.append(f"{name}: no second look, {why}")
        else:
            firsts[first] = with_second(firsts[first], one)
    return [firsts[name] for name in sorted(firsts)], lines


def _of_store(
    root: Path, names: Sequence[str]
) -> tuple[dict[str, Judged], dict[str, tuple[str, Judged]], dict[str, str]]:
    """First looks, second ones (with their experiments) by the first one's experiment, and a line for each that cannot be read."""
    plans = ResultStore(root).plans()
    wanted = {*names} | {name for name in plans if _repeats(root, name) in names} if names else plans
    firsts: dict[str, Judged] = {}
    seconds: dict[str, tuple[str, Judged]] = {}
    unread = {}
    for name in sorted(wanted):
        try:
            one = judged(root, name)
        except StoreError as error:
            unread[name] = f"{name}: {error}"
            continue
        if one is not None and (first := _repeats(root, name)):
            seconds[first] = (name, one)
        elif one is not None:
            firsts[name] = one
    return firsts, seconds, unread


def recorded(record: Path | None, look: str) -> dict[str, Judged]:
    """The first or second looks that a record of effects tells of, by experiment. Raises StoreError: it cannot be read."""
    rows = [] if record is None else read_effects(record)
    return {row.experiment: judged_of(row) for row in rows if row.look == look}


def _claim_of(name: str, record: Mapping[str, Any]) -> str:
    return str(record.get("replicates") or name).removeprefix(PREFIX)


def _repeats(root: Path, name: str) -> str:
    """The experiment whose first look this one repeats; empty where it repeats none, or cannot be read."""
    try:
        return str(ResultStore(root).plan(name).get("replicates") or "")
    except StoreError:
        return ""


def _kept(root: Path, name: str) -> dict[str, Any]:
    """What was kept of the declaration at the first run: its fingerprint, and of a second look what it was held against."""
    path = layout.plan_file(root, name).parent / layout.DECLARATION
    found: dict[str, Any] = json.loads(path.read_text()) if path.exists() else {}
    return found


def _regime(record: Mapping[str, Any]) -> str:
    """The presets of the experiment's overrides; ``default`` where it has none."""
    presets = [item.partition("=")[2] for item in record.get("overrides", ()) if item.startswith("preset=")]
    return " ".join(presets) or "default"


def _commit(store: ResultStore, runs: Sequence[str]) -> str:
    """The commits that made the runs, shortened, one space between them."""
    found = set()
    for run in runs:
        try:
            commit = (store.run(run).manifest() or {}).get("provenance", {}).get("git_commit")
        except StoreError:
            continue
        if commit:
            found.add(str(commit)[:12])
    return joined(sorted(found))

"""The word of finished runs in the store, before an experiment runs, on how much its differences will touch."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from harness.engagement.measure import HARDLY, Measure
from harness.experiment.cost import History
from harness.experiment.planning import Plan
from harness.store import ResultStore, StoreError


def past_engagement(plan: Plan, store: ResultStore, history: History) -> dict[str, str]:
    """Arm → `1.4 % of tokens (from 5 finished runs)`, for the arms of which the store knows something.

    Runs of the very arm whose runs show a measure come first; else those of stored experiments in which an arm changes the same keys
    to the same values (`similar runs`: their other settings may differ).
    """
    records = {arm["name"]: arm for arm in plan.record()["arms"]}
    steps = functools.cache(lambda run_id: store.run(run_id).steps())
    stored = functools.cache(
        lambda: list(_stored_arms(store))
    )  # every plan of the store is read once, and only if asked for
    known: dict[str, str] = {}
    for name, measures in plan.measures().items():
        parts = []
        for measure in measures:
            if measure.fields:
                own = history.finished(records[measure.arm]["arm_id"])
                text = _told(measure, own, steps, "finished")
                parts.append(
                    text or _told(measure, _similar(records[name], measure, store, stored), steps, "similar")
                )
        if any(parts):
            known[name] = "; ".join(part for part in parts if part)
    return known


def _told(measure: Measure, run_ids: Sequence[str], steps: Callable[[str], Any], source: str) -> str:
    frames = [steps(run_id) for run_id in run_ids]
    seen = [frame for frame in frames if not math.isnan(measure.value([frame]))]
    if not seen:
        return ""
    runs = f"{len(seen)} {source} run{'s' if len(seen) > 1 else ''}"
    value = measure.value(seen)
    mark = f", {HARDLY}" if measure.hardly(value) else ""
    return f"{measure.text(value, mark=False)} (from {runs}){mark}"


def _similar(
    arm: Mapping[str, Any],
    measure: Measure,
    store: ResultStore,
    stored: Callable[[], Sequence[Mapping[str, Any]]],
) -> list[str]:
    """Finished runs of stored plans that show this measure for an arm with the same changes."""
    if not arm["changes"]:
        return []
    changes = json.dumps(arm["changes"], sort_keys=True)
    found = dict.fromkeys(
        run_id
        for other in stored()
        if json.dumps(other.get("changes"), sort_keys=True) == changes
        for run_id in _runs_showing(measure, other)
    )
    return [run_id for run_id in found if store.run(run_id).status == "finished"]


def _stored_arms(store: ResultStore) -> Iterator[Mapping[str, Any]]:
    """The arms of all readable plans, each with its plan's runs by arm name under `runs_of`."""
    for name in store.plans():
        try:
            arms = store.plan(name)["arms"]
        except (StoreError, KeyError):
            continue  # `harness status` tells of unreadable plans
        runs_of = {arm["name"]: list(arm["runs"].values()) for arm in arms}
        yield from ({**arm, "runs_of": runs_of} for arm in arms)


def _runs_showing(measure: Measure, arm: Mapping[str, Any]) -> list[str]:
    shown_by = next(
        (
            stored.arm
            for stored in map(Measure.of_record, arm.get("engagement") or ())
            if (stored.fields, stored.keys) == (measure.fields, measure.keys)
        ),
        "",
    )
    return [str(run_id) for run_id in arm["runs_of"].get(shown_by, ())]

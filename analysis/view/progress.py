"""The progress of an experiment: the numbers on top of a page that follows runs."""

from __future__ import annotations

import dataclasses
from collections import Counter
from typing import Any

from harness.experiment.plan import Plan, PlanError
from harness.store import ResultStore, StoreError
from harness.store.progress import RunState, run_state


def progress_of(store: ResultStore, name: str) -> dict[str, Any]:
    """Make ``{"title", "counts", "fraction", "runs", "error"}`` of an experiment, ready for JSON; nothing is raised or written.

    ``counts`` has a status to its number of runs, ``fraction`` the share of all steps that is done (runs of unknown
    length count when they end), ``error`` why the plan cannot be read (else null). A run has label, seed and what
    `harness.store.progress.RunState` has.
    """
    try:
        plan = plan_of(store, name)
    except StoreError as error:
        return {"title": name, "counts": {}, "fraction": 0.0, "runs": [], "error": str(error)}
    seeds = [(arm.label, seed, run_id) for arm in plan.arms for seed, run_id in arm.runs.items()]
    states = [run_state(store, run_id) for _, _, run_id in seeds]
    runs = [
        {"label": label, "seed": seed, **dataclasses.asdict(state), "seconds_left": state.seconds_left}
        for (label, seed, _), state in zip(seeds, states, strict=True)
    ]
    counts = dict(sorted(Counter(state.status for state in states).items()))
    fraction = sum(map(_share, states)) / len(states) if states else 0.0
    return {"title": plan.title, "counts": counts, "fraction": fraction, "runs": runs, "error": None}


def plan_of(store: ResultStore, name: str) -> Plan:
    """Read the plan of an experiment, from whoever wrote it. Raises StoreError, or PlanError for whatever is no plan."""
    raw = store.plan(name)
    try:
        return Plan.read(raw)
    except PlanError:
        raise
    except (TypeError, ValueError, AttributeError, LookupError) as error:
        raise PlanError(f"plan {name} cannot be read: {error}; write it with `harness run`") from error


def _share(state: RunState) -> float:
    if state.status == "finished":
        return 1.0
    return min(state.step / state.total, 1.0) if state.step and state.total else 0.0

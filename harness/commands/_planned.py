"""Arms of a plan as values: what changes in each, its runs, what they are expected to take. `harness plan` shows them."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.configuration.identity import difference
from harness.configuration.schema import dump
from harness.experiment.history import Cost, History
from harness.experiment.plan import Plan, PlannedArm
from harness.experiment.refusals import absent


@dataclass(frozen=True)
class Expected:
    """Expected cost of one run, `source` says from what; `price` is None without `runtime.assumed.price_per_gpu_hour`."""

    seconds: float
    generated_tokens: float
    gpu_hours: float
    price: float | None
    source: str
    measured: bool


@dataclass(frozen=True)
class PlannedRun:
    """One run: its id and its status in the store (`new`: not there)."""

    run_id: str
    status: str


@dataclass(frozen=True)
class ArmPlanned:
    """One arm.

    `changes`: key → its values in the neighbour that the arm is compared with and here; `against_base` the same for the base. `runs`: by
    seed, empty where the budget is not known yet. `refused`: why it cannot be run at all; `lacking`: what it needs before it can start,
    here or at all. `expected`: cost of one run, None where unknown. `engaged`: what runs in the store tell of its mechanism.
    `configuration`: only with `--cfg`.
    """

    name: str
    label: str
    arm_id: str
    parent: str | None
    changes: dict[str, tuple[Any, Any]]
    against_base: dict[str, tuple[Any, Any]]
    runs: dict[int, PlannedRun]
    seeds: list[int]
    refused: list[str]
    lacking: list[str]
    expected: Expected | None
    engaged: str
    configuration: dict[str, Any] | None


@dataclass(frozen=True)
class Totals:
    """Runs by what is to be done, and what those left are expected to take one after the other, as far as it is `known`."""

    runs: int
    finished: int
    to_run: int
    refused: int
    known: int
    seconds: float
    generated_tokens: float
    gpu_hours: float
    price: float | None
    sources: list[str]


def planned_arm(
    plan: Plan,
    planned: PlannedArm,
    statuses: Mapping[str, str],
    refused: list[str],
    cost: Cost | None,
    engaged: str,
    whole: bool,
) -> ArmPlanned:
    """One arm of the plan; `statuses` by run id, `cost` of one run, `whole`: with its configuration."""
    seeds = list(planned.runs or planned.seeds)
    config = dataclasses.replace(planned.config, seed=seeds[0])
    return ArmPlanned(
        planned.name,
        planned.label or planned.name,
        planned.arm_id,
        planned.parent,
        dict(planned.changes),
        _changes(plan.base, planned),
        {seed: PlannedRun(run_id, statuses[run_id]) for seed, run_id in planned.runs.items()},
        seeds,
        refused,
        absent(planned.config),
        None if cost is None else _expected(cost, planned.config.runtime.assumed.price_per_gpu_hour),
        engaged,
        dump(config) if whole else None,
    )


def _expected(cost: Cost, price: float | None) -> Expected:
    hours = cost.gpu_hours
    return Expected(
        cost.seconds,
        cost.generated_tokens,
        hours,
        None if price is None else hours * price,
        cost.source,
        cost.measured,
    )


def _changes(old: PlannedArm, new: PlannedArm) -> dict[str, tuple[Any, Any]]:
    pairs = difference(old.config, new.config)
    return {key: (before, after) for key, (before, after) in pairs.items() if key != "seed"}


def past_cost(planned: PlannedArm, history: History) -> Cost | None:
    """The cost of a run of this arm by runs in the store; None where there are none to go by."""
    return history.expect(planned.config, planned.arm_id) if planned.runs else None


def totals_of(arms: Sequence[ArmPlanned]) -> Totals:
    """Count what is left to do, each run once, and add up what it is expected to take."""
    statuses = {run.run_id: run.status for arm in arms for run in arm.runs.values()}
    finished = sum(status == "finished" for status in statuses.values())
    left: dict[str, Expected | None] = {}
    for arm in arms:
        for run in arm.runs.values():
            if not arm.refused and run.status != "finished":
                left.setdefault(run.run_id, arm.expected)
    known = [cost for cost in left.values() if cost is not None]
    prices = [cost.price for cost in known if cost.price is not None]
    return Totals(
        runs=len(statuses),
        finished=finished,
        to_run=len(left),
        refused=len(statuses) - finished - len(left),
        known=len(known),
        seconds=sum(cost.seconds for cost in known),
        generated_tokens=sum(cost.generated_tokens for cost in known),
        gpu_hours=sum(cost.gpu_hours for cost in known),
        price=sum(prices) if prices else None,
        sources=sorted({cost.source for cost in known}),
    )

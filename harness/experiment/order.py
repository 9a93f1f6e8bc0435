"""The order in which runs start: a long run that starts last keeps every other worker waiting."""

from __future__ import annotations

import math

from harness.experiment.cost import History
from harness.experiment.planning import Plan, PlannedArm, RunSpec
from harness.store import ResultStore


def longest_first(plan: Plan, store: ResultStore) -> list[RunSpec]:
    """The plan's runs, the longest first (longest processing time first: Graham 1969, SIAM J. Appl. Math. 17, 416).

    Expected times come from runs in the store and depend on the machine's load of the day. So runs that take more than half of the
    longest's time count as alike, as do those of more than a quarter, and so on; those alike keep their order, seed by seed, so that
    seeds of all arms complete together.
    """
    history = History(store)
    seconds = {planned.arm.name: _seconds(planned, history) for planned in plan.arms if planned.runs}
    known = [value for value in seconds.values() if 0 < value < math.inf]
    halvings: dict[str, float] = {}
    for planned in plan.arms:
        for spec in planned.runs.values():
            halvings[spec.run_id] = _halvings(seconds[planned.arm.name], max(known, default=0.0))
    return sorted(plan.specs, key=lambda spec: halvings[spec.run_id])


def _seconds(planned: PlannedArm, history: History) -> float:
    """Expected seconds of a run; without any past run dynamic sampling is the longest, and the rest are alike."""
    spec = next(iter(planned.runs.values()))
    cost = history.expect(planned.config, spec.arm_id)
    if cost is not None and cost.seconds > 0:
        return cost.seconds
    return math.inf if planned.config.algorithm.dead_groups.policy == "refill" else 0.0


def _halvings(seconds: float, longest: float) -> float:
    """Count the halvings of the longest time until it is below this one: 0 for more than half of it."""
    if seconds in (0.0, math.inf):
        return math.inf if seconds == 0.0 else -1.0
    return math.floor(math.log2(longest / seconds))

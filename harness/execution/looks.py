"""Run a sequential experiment look by look. What is decided is asked of the analysis, in a process of its own, from the store alone.

So nothing has to be remembered: killed, repeated, or started on several machines, the same stored scores lead to the same runs.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.execution.supervise import Summary
from harness.experiment.planning import Plan
from harness.store import ResultStore, StoreError

OPEN = "open"


@dataclass(frozen=True)
class Decisions:
    """What the analysis says: `comparisons` (arm, reference, state, text), and the seeds `wanted` of each arm."""

    comparisons: Sequence[Mapping[str, str]]
    wanted: Mapping[str, int]

    @property
    def open(self) -> int:
        """How many comparisons wait for a look."""
        return sum(one["state"] == OPEN for one in self.comparisons)

    def headline(self) -> str:
        """Such as `2 of 5 comparisons are closed`."""
        total = len(self.comparisons)
        return f"{total - self.open} of {total} comparisons are closed"


def ask(plan: Plan, store: ResultStore) -> Decisions:
    """What is decided of a plan that has the runs of all seeds, and which seeds come next.

    Raises:
        StoreError: the analysis failed; its own message went to standard error.
    """
    return Decisions(**_analysis(plan, store))


def expected_runs(plan: Plan, store: ResultStore) -> dict[str, float]:
    """Mean number of runs by the size of all true differences, in standard deviations of one seed's difference."""
    return {str(size): float(runs) for size, runs in _analysis(plan, store, "--expected").items()}


def stored_spreads(plan: Plan, store: ResultStore) -> dict[str, dict[str, float]]:
    """Metric to the spread of one seed's difference in the finished runs: `sd` in the shown unit, and how many `comparisons` tell it."""
    return dict(_analysis(plan, store, "--spread"))


def until_decided(
    plan: Plan,
    store: ResultStore,
    *,
    record: Callable[[Plan, Decisions], None],
    bring: Callable[[Plan], Summary],
    show: Callable[[Decisions], None],
) -> tuple[Plan, Decisions, Summary]:
    """Bring look after look to its end, until no comparison waits for seeds, or runs are left over.

    Args:
        plan: with the runs of all seeds.
        store: where scores are.
        record: writes down the part of the plan that is wanted now, and what is decided.
        bring: runs such a part.
        show: tells what a look has decided, before the next begins.

    Returns:
        The part of the plan that was asked for, what is decided, and what became of the runs in this invocation.
    """
    decisions, summary = ask(plan, store), Summary()
    while True:
        part = plan.first_seeds(decisions.wanted)
        record(part, decisions)
        summary = together(summary, bring(part))
        if not summary.complete or not decisions.open:
            return part, decisions, summary
        newer = ask(plan, store)
        if newer.wanted == decisions.wanted:
            record(part, newer)
            return part, newer, summary
        show(newer)
        decisions = newer


def together(earlier: Summary, later: Summary) -> Summary:
    """One summary of two sweeps of which the later has the runs of the earlier: those it skipped were finished before, or just now."""
    finished = [*earlier.finished, *later.finished]
    skipped = [run_id for run_id in later.skipped if run_id not in earlier.finished]
    return replace(later, finished=finished, skipped=skipped)


def _analysis(plan: Plan, store: ResultStore, *arguments: str) -> dict[str, Any]:
    sys.stderr.flush()
    command = [sys.executable, "-m", "analysis.looks", str(store.root), *arguments]
    done = subprocess.run(
        command, input=json.dumps(plan.record()), stdout=subprocess.PIPE, text=True, check=False
    )
    if done.returncode:
        raise StoreError(
            f"the runs of {plan.experiment.name} could not be judged (see above); nothing is lost, run the same command again"
        )
    found: dict[str, Any] = json.loads(done.stdout)
    return found

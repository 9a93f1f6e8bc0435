"""Run a sequential experiment look by look. What is decided follows from the stored scores alone.

So nothing has to be remembered: killed, repeated, or started on several machines, the same stored scores lead to the same runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from harness.execution.supervisor import Summary
from harness.experiment.plan import Plan

OPEN = "open"


@dataclass(frozen=True)
class Decisions:
    """The state of a sequential experiment: `comparisons` (arm, reference, state, text), and the seeds `wanted` of each arm."""

    comparisons: Sequence[Mapping[str, str]]
    wanted: Mapping[str, int]

    @property
    def open(self) -> int:
        """The number of comparisons that wait for a look."""
        return sum(comparison["state"] == OPEN for comparison in self.comparisons)

    def headline(self) -> str:
        """Say how many are closed: `2 of 5 comparisons are closed`."""
        total = len(self.comparisons)
        return f"{total - self.open} of {total} comparisons are closed"


def until_decided(
    plan: Plan,
    *,
    decide: Callable[[Plan], Decisions],
    record: Callable[[Plan, Decisions], None],
    bring: Callable[[Plan], Summary],
    show: Callable[[Decisions], None],
) -> tuple[Plan, Decisions, Summary]:
    """Bring look after look to its end, until no comparison waits for seeds, or runs are left over.

    Args:
        plan: with the runs of all seeds.
        decide: judges the plan by the scores that are stored now.
        record: writes down the part of the plan that is wanted now, and what is decided.
        bring: runs such a part.
        show: tells what a look has decided, before the next begins.

    Returns:
        The part of the plan that was asked for, what is decided, and what became of the runs in this invocation.
    """
    decisions, summary = decide(plan), Summary()
    while True:
        part = plan.first_seeds(decisions.wanted)
        record(part, decisions)
        summary = summary.then(bring(part))
        if not summary.complete or not decisions.open:
            return part, decisions, summary
        newer = decide(plan)
        if newer.wanted == decisions.wanted:
            record(part, newer)
            return part, newer, summary
        show(newer)
        decisions = newer

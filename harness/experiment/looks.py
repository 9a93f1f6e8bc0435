"""Seeds until it is decided: look after look, whatever brings the runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self, TypeVar

from harness.experiment.plan import Plan

OPEN = "open"


@dataclass(frozen=True)
class Decisions:
    """The state of a sequential experiment: `comparisons` (arm, reference, state, text), `seed_counts`: how many each arm takes."""

    comparisons: Sequence[Mapping[str, str]]
    seed_counts: Mapping[str, int]

    @property
    def open(self) -> int:
        return sum(comparison["state"] == OPEN for comparison in self.comparisons)

    def headline(self) -> str:
        """Say how many are closed: `2 of 5 comparisons are closed`."""
        total = len(self.comparisons)
        return f"{total - self.open} of {total} comparisons are closed"


class Ended(Protocol):
    """What became of runs."""

    @property
    def ended_well(self) -> bool: ...

    def then(self, later: Self) -> Self: ...


S = TypeVar("S", bound=Ended)


def until_decided(
    plan: Plan,
    *,
    decide: Callable[[Plan], Decisions],
    record: Callable[[Plan, Decisions], None],
    bring: Callable[[Plan], S],
    show: Callable[[Decisions], None],
) -> tuple[Plan, Decisions, S]:
    """Bring look after look to its end, until no comparison waits for seeds, runs are left over, or a stop came.

    Args:
        plan: with the runs of all seeds.
        decide: judges the plan by the scores that are stored now.
        record: writes down the part of the plan that is wanted now, and what is decided.
        bring: runs such a part.
        show: tells what a look has decided, before the next begins.

    Returns:
        The part of the plan that was asked for, what is decided, and what became of the runs in this invocation.
    """
    decisions, summary = decide(plan), None
    while True:
        part = plan.first_seeds(decisions.seed_counts)
        record(part, decisions)
        now = bring(part)
        summary = now if summary is None else summary.then(now)
        if not summary.ended_well or not decisions.open:
            return part, decisions, summary
        next_decisions = decide(plan)
        if next_decisions.seed_counts == decisions.seed_counts:
            record(part, next_decisions)
            return part, next_decisions, summary
        show(next_decisions)
        decisions = next_decisions

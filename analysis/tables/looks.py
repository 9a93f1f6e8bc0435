"""The table of a sequential design: every difference at every look, and where it stands."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from analysis.evidence.looks import FollowedComparison, followed
from analysis.evidence.results import Results
from analysis.tables.differences import difference_column
from analysis.tables.of_metric import experiment_table, of_metric
from analysis.tables.table import Cell, Column, Table


def looks_table(results: Results) -> Table | None:
    """Make one row a comparison, one column a look; None where all seeds are looked at once."""
    plan = results.experiment.plan
    if not plan.looks:
        return None
    found = followed(results)
    rows: list[Mapping[str, Cell]] = [
        {
            "arm": one.arm.label,
            "reference": one.reference.label,
            **{f"look_{estimate.seeds}": estimate for estimate in one.looks},
            "state": state_text(one),
        }
        for one in found
    ]
    reached = max([plan.looks[0], *(one.newest.seeds for one in found)])
    looks = [seeds for seeds in plan.looks if seeds <= reached]
    columns = [
        Column("arm", "arm"),
        Column("reference", "against"),
        *(
            replace(
                difference_column(results.metric, f"look_{n}", "", []),
                header=f"Δ at {n} seeds (95 % simultaneous)",
            )
            for n in looks
        ),
        Column("state", "decided"),
    ]
    notes = [
        "Each interval uses the first seeds of both arms up to its look, and holds together with those of all looks and all "
        "comparisons; the first that gives a word closes the comparison.",
    ]
    return of_metric(experiment_table(results, "looks", "looks", columns, rows, notes), results)


def look_states(results: Results) -> dict[str, str]:
    """Map each arm to what has become of its comparison; nothing where all seeds are looked at once."""
    if not results.experiment.plan.looks:
        return {}
    return {one.arm.name: state_text(one) for one in followed(results)}


def state_text(one: FollowedComparison) -> str:
    """Say where a comparison stands: ``at 8 seeds``, ``open, next look at 11 seeds`` or ``open at the budget, 20 seeds``."""
    if one.newest.absent:
        return one.newest.absent
    if one.next_look is not None:
        return f"open, next look at {one.next_look} seeds"
    decided = one.state == "decided"
    return f"at {one.newest.seeds} seeds" if decided else f"{one.state}, {one.newest.seeds} seeds"

"""The table of a sequential design: every difference at every look, and where it stands."""

from __future__ import annotations

from collections.abc import Mapping

from analysis.evidence.looks import Comparison, followed
from analysis.evidence.results import Results
from analysis.tables.of_metric import of_metric
from analysis.tables.table import Cell, Column, Table


def looks_table(results: Results) -> Table | None:
    """One row a comparison, one column a look; None where all seeds are looked at once."""
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
    columns = (
        Column("arm", "arm"),
        Column("reference", "against"),
        *(
            Column(
                f"look_{seeds}",
                f"Δ at {seeds} seeds (95 % simultaneous)",
                digits=results.metric.digits,
                scale=results.metric.scale,
                signed=True,
                words=True,
            )
            for seeds in plan.looks
            if seeds <= reached
        ),
        Column("state", "decided"),
    )
    notes = (
        "Each interval uses the first seeds of both arms up to its look, and holds together with those of all looks and all "
        "comparisons; the first that gives a word closes the comparison.",
    )
    return of_metric(
        Table(f"{plan.name}-looks", f"{plan.title} (looks)", columns, tuple(rows), notes), results
    )


def look_states(results: Results) -> dict[str, str]:
    """Arm to what has become of its comparison; nothing where all seeds are looked at once."""
    if not results.experiment.plan.looks:
        return {}
    return {one.arm.name: state_text(one) for one in followed(results)}


def state_text(one: Comparison) -> str:
    """``at 8 seeds``, ``open, next look at 11 seeds`` or ``open at the budget, 20 seeds``."""
    if one.newest.absent:
        return one.newest.absent
    if one.next_look is not None:
        return f"open, next look at {one.next_look} seeds"
    return (
        f"at {one.newest.seeds} seeds" if one.state == "decided" else f"{one.state}, {one.newest.seeds} seeds"
    )

"""The column *engaged* beside the difference of a comparison."""

from __future__ import annotations

import dataclasses

from analysis.evidence.engagement import NOTE, engagements
from analysis.evidence.load import StoredExperiment
from analysis.tables.table import Column, Table


def with_engaged(table: Table, experiment: StoredExperiment) -> Table:
    """A main table (its last rows are the plan's arms, in order) with what each difference touched behind its ``delta``.

    Unchanged where no run says anything.
    """
    found, arms = engagements(experiment), experiment.plan.arms
    if not any(one.known for one in found.values()):
        return table
    keys = [column.key for column in table.columns]
    behind = keys.index("delta") + 1
    columns = (*table.columns[:behind], Column("engaged", "engaged"), *table.columns[behind:])
    first = len(table.rows) - len(arms)
    rows = [
        {**row, "engaged": found[arm.name].text or None}
        for row, arm in zip(table.rows[first:], arms, strict=True)
    ]
    return dataclasses.replace(
        table, columns=columns, rows=(*table.rows[:first], *rows), notes=(*table.notes, NOTE)
    )

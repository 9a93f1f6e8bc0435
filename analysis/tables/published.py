"""Published numbers beside ours: what a paper reports, under which protocol, and that this is no test of either."""

from __future__ import annotations

import csv
import re
from collections.abc import Mapping
from pathlib import Path

from analysis.evidence.results import Results
from analysis.tables.of_metric import experiment_table, metric_column, score_name
from analysis.tables.table import Cell, Column, Table
from harness.experiment.plan import Plan, PlannedArm

REPOSITORY = Path(__file__).parents[2]
STANDING = {
    "P": "read in the paper",
    "S": "second hand",
    "C": "code or its documentation",
    "I": "issue thread",
}


def published_table(results: Results, repository: Path = REPOSITORY) -> Table | None:
    """Put every row of the plan's ``reference`` file beside our score of the same arm; None without such a file.

    An arm of ours is the same as a published one where its label or the end of its name says so.
    """
    plan = results.experiment.plan
    reference = read_reference(plan, repository)
    if not reference:
        return None
    rows: list[Mapping[str, Cell]] = []
    for row in reference:
        arm = matching_arm(plan, row["arm"])
        ours = None if arm is None else results.mean(arm, "avg")
        published = f"{row['value']} {row['unit']}"
        rows.append({**row, "arm": row["arm"].replace("_", " "), "ours": ours, "published": published})
    name = "" if plan.about_score else f", {score_name(results)}"
    columns = (
        Column("arm", "arm"),
        metric_column(plan.score, "ours", f"ours{name}{plan.score.percent} (95 % interval)"),
        Column("published", "published"),
        Column("metric", "their metric"),
        Column("seeds", "their seeds"),
        Column("protocol", "their protocol"),
        Column("source", "source"),
    )
    notes = _notes(results, reference)
    return experiment_table(results, "published", "published numbers", columns, rows, notes)


def read_reference(plan: Plan, repository: Path = REPOSITORY) -> list[dict[str, str]]:
    """Read the rows of ``reference.csv``; none where the plan names no file or the file is not in this checkout."""
    path = repository / plan.reference if plan.reference else None
    if path is None or not path.is_file():
        return []
    with path.open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def matching_arm(plan: Plan, published: str) -> PlannedArm | None:
    """Find our arm of a published one, by label (``+ clip-higher`` for ``clip_higher``) or by the end of its name."""
    for arm in plan.arms:
        label = re.sub(r"[^a-z0-9.]+", "_", arm.label.lower()).strip("_")
        if published in (label, arm.name) or arm.name.endswith(f"_{published}"):
            return arm
    return None


def _notes(results: Results, reference: list[dict[str, str]]) -> tuple[str, ...]:
    plan = results.experiment.plan
    protocols = len({row["protocol"] for row in reference})
    runs = sorted({row["seeds"] for row in reference})
    marks = ", ".join(f"[{key}] {meaning}" for key, meaning in STANDING.items())
    return (
        f"The protocols differ: ours is {plan.benchmark}{plan.cap_text}, {len(plan.seeds)} seeds, checkpoint rule "
        f"{plan.checkpoint_rule}; theirs {'is another' if protocols == 1 else f'are {protocols} others'}, from {' or '.join(runs)} "
        f"run{'s' if runs != ['1'] else ''} each. Levels cannot be compared; signs and the order of steps can be, with care.",
        f"Standing of a source: {marks}.",
    )

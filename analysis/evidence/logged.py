"""Scores that a trainer logged itself, as cells: foreign runs have no samples to grade.

A column ``evaluation/<benchmark>/<metric>`` holds a score as a fraction of 1; a training metric may stand in
for one where nothing was evaluated.
"""

from __future__ import annotations

import re

import pandas as pd

from analysis.evidence.cells import RunCells
from harness.experiment.plan import Plan

PREFIX = "evaluation"
TRAINING = "training"  # the benchmark of a plan whose score is a training metric


def logged_cells(steps: pd.DataFrame, plan: Plan) -> dict[str, RunCells]:
    """Cells of the steps that have the plan's score; none where the run has logged no such score.

    Only ``avg`` and what the trainer names as we do (avg@n, pass@n, maj@n) come in; what is not known is left out,
    never guessed.
    """
    source = score_column(steps, plan)
    if source is None:
        return {}
    scored = steps[steps[source].notna()]
    frame = pd.DataFrame(
        {"step": scored["step"].astype("int64"), "cap": plan.primary_cap, "avg": scored[source]}
    )
    prefix = f"{PREFIX}/{plan.benchmark}/"
    for column in (str(name) for name in steps.columns):
        name = column.removeprefix(prefix)
        if column.startswith(prefix) and re.fullmatch(r"(avg|pass|maj)@\d+", name):
            frame[name] = scored[column]
    rows = [{str(name): value for name, value in row.items()} for row in frame.to_dict("records")]
    return {plan.benchmark: RunCells(tuple(rows), {}, (), ())}


def score_column(steps: pd.DataFrame, plan: Plan) -> str | None:
    """The logged column that holds the plan's score: the one of its metric, else the only avg@n or accuracy."""
    if plan.benchmark == TRAINING:
        return plan.score.name if plan.score.name in steps else None
    exact = f"{PREFIX}/{plan.benchmark}/{plan.score.name}"
    if exact in steps:
        return exact
    pattern = re.compile(rf"{PREFIX}/{re.escape(plan.benchmark)}/(avg@\d+|accuracy)")
    found = [str(name) for name in steps.columns if pattern.fullmatch(str(name))]
    return found[0] if plan.score.name == "avg" and len(found) == 1 else None

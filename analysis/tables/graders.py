"""The table of two graders, and the warning where the verifier's rise is not confirmed by the second one."""

from __future__ import annotations

import math
from collections.abc import Mapping

from analysis.evidence.graders import grader_gaps, shares_before
from analysis.evidence.results import Results
from analysis.tables.of_metric import experiment_table
from analysis.tables.table import Cell, Column, Table, bounds_text, number_text

ROLLOUTS = {
    "rollouts_first": "graders_only_first_fraction",
    "rollouts_second": "graders_only_second_fraction",
}
_NOTE = (
    "Shares of the samples that both graders hold right, only the verifier (it is the reward), and only the second grader, which shares "
    "no extraction with it (docs/evaluation.md). Not confirmed: the verifier's rise from before RL to the checkpoint less the rise "
    "of what both hold right; interval over seeds, of each arm alone."
)


def graders_table(results: Results) -> Table | None:
    """Make one row an arm: what both graders hold right and what only one does; None where no sample has a second verdict."""
    gaps = grader_gaps(results)
    if not gaps:
        return None
    before = shares_before(results)
    rows: list[Mapping[str, Cell]] = [{"arm": "before RL", **before}] if before else []
    steps = results.experiment.steps
    for arm in results.experiment.plan.arms:
        gap, own = gaps.get(arm.name), steps[steps["arm"] == arm.name]
        rollouts = {key: float(own[name].mean()) for key, name in ROLLOUTS.items() if name in own}
        told = {} if gap is None else {name: getattr(gap, name) for name in _OF_GAP}
        rows.append({"arm": arm.label, **told, **rollouts})
    columns = [
        Column("arm", "arm"),
        Column("both", "right by both %", scale=100),
        Column("only_first", "by the verifier only %", scale=100),
        Column("only_second", "by the second only %", scale=100),
        Column("rise", "rise by the verifier, points", scale=100, signed=True),
        Column("unconfirmed", "of it not confirmed, points (95 % interval)", scale=100, signed=True),
    ]
    if any(name in steps for name in ROLLOUTS.values()):
        columns += [
            Column("rollouts_first", "rollouts, verifier only %", scale=100),
            Column("rollouts_second", "rollouts, second only %", scale=100),
        ]
    return experiment_table(results, "graders", "two graders", columns, rows, [_NOTE])


_OF_GAP = ("both", "only_first", "only_second", "rise", "unconfirmed")


def grader_warnings(results: Results) -> list[str]:
    """Say for each arm whose gap has grown: ``of +34.0 points, 22.1 are not confirmed by the second grader``; else nothing."""
    said = []
    gaps = grader_gaps(results)
    for arm in results.experiment.plan.arms:
        gap = gaps.get(arm.name)
        if gap is None or not gap.grown:
            continue
        found, over = gap.unconfirmed, ""
        if not math.isnan(found.low):
            interval = " to ".join(bounds_text(found, 1, scale=100))
            over = f" (95 % interval {interval} over {found.seeds} seeds)"
        said.append(
            f"- Warning, {arm.label.removeprefix('+ ')}: of {number_text(100 * gap.rise, 1, signed=True)} points by the verifier since "
            f"before RL, {number_text(100 * found.value, 1)}{over} are not confirmed by the second grader; what both hold right changed "
            f"by {number_text(100 * (gap.rise - found.value), 1, signed=True)}. It refuses {_percent(gap.refused)} of what the "
            f"verifier holds right, {_percent(gap.refused_before)} before RL."
        )
    return said


def _percent(share: float) -> str:
    return "an unknown share" if math.isnan(share) else f"{100 * share:.0f} %"

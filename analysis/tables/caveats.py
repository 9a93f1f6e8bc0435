"""Tables and warnings of what an answer has to be read with: collapsed seeds, the second grader, published numbers."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping
from pathlib import Path

from analysis.evidence.caveats import Robust, grader_gaps, robust_readings, shares_before
from analysis.evidence.results import Results
from analysis.tables.differences import (
    difference_column,
    experiment_table,
    metric_column,
    of_metric,
    score_name,
)
from analysis.tables.table import Cell, Column, Table, bounds_text, number_text
from harness.experiment.plan import Plan, PlannedArm

_COUNTED = "Collapsed: at the last evaluation {}. Share: exact 95 % interval; of none, the one-sided bound."
_EXACT = (
    "Differences stand alone here. Sign flips: p of the mean difference over all patterns of signs (65,536 random ones beyond 16 seeds), "
    "which assumes symmetry and no normal distribution. With skewed differences Student's t errs: docs/statistics.md."
)


def collapse_table(results: Results) -> Table | None:
    """Make one row an arm; None where no seed collapsed and no comparison has six pairs."""
    found = robust_readings(results)
    if not any(one.collapsed or one.sign_flip is not None for one in found):
        return None
    rows: list[Mapping[str, Cell]] = [
        {
            "arm": one.arm.label,
            "collapsed": _counted(one),
            "all": one.all,
            "p": one.sign_flip,
            "without": one.without,
        }
        for one in found
    ]
    columns = [
        Column("arm", "arm"),
        Column("collapsed", "collapsed seeds"),
        difference_column(results.metric, "all", "Δ, all seeds", []),
        Column("p", "p by sign flips", digits=3),
    ]
    if any(one.without is not None for one in found):
        columns.append(difference_column(results.metric, "without", "Δ without collapsed seeds", []))
    notes = [_COUNTED.format(results.experiment.plan.collapse.text), _EXACT]
    return of_metric(
        experiment_table(results, "exact", "collapsed seeds, exact tests", columns, rows, notes), results
    )


def collapse_warnings(results: Results) -> list[str]:
    """Say of each arm with collapsed seeds how many they are, and where they decide the word on its difference."""
    said = []
    for one in robust_readings(results):
        name = one.arm.label.removeprefix("+ ")
        if one.collapsed:
            said.append(
                f"- Warning, {name}: collapsed seeds: {_counted(one)} (seeds {', '.join(map(str, one.collapsed))})."
            )
        if one.decided_by_collapse and one.all is not None and one.without is not None:
            scale, unit = results.metric.scale, results.metric.unit
            said.append(
                f"- Warning, {name}: collapsed seeds decide: {one.all.words(scale, unit)} with them, without them "
                f"{number_text(scale * one.without.value, results.metric.digits, signed=True)} {unit}, {one.without.words(scale, unit)}."
            )
    return said


def _counted(one: Robust) -> str:
    low, high = (100 * end for end in one.bounds)
    share = f"{low:.0f} to {high:.0f} %" if one.collapsed else f"at most {high:.0f} %"
    return f"{len(one.collapsed)} of {len(one.seeds)}: {share}"


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

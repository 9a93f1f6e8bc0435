"""``python experiments/clip_lr_grid/matched.py ROOT EXPERIMENT --by COLUMN``: accuracy of two arms where both have moved equally far.

``COLUMN`` is a column of the step metrics that is 0 before training and grows with it: ``kl_to_reference`` (distance from the base
policy) or ``generated_tokens_total``. In each seed both arms' evaluations are read at the largest value that both reach, and their
difference is taken there; beside it stands the difference after the last step. Arms are compared with what their plan compares them with.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray

from analysis.results import Results
from analysis.tables.table import Cell, Column, Table
from harness.experiment.plan import Plan, PlannedArm
from harness.statistics.intervals import Estimate, Paired, judge, mean_interval

sys.path.append(str(Path(__file__).resolve().parents[1]))

from table_script import print_table, script_parser

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Course:
    """One run at its evaluations, [evaluations] each: step, how far it had moved, and its accuracy; `last`: that after the last step."""

    step: Floats
    distance: Floats
    score: Floats
    last: float


@dataclass(frozen=True)
class Match:
    """A seed's two arms where both have moved `distance`: accuracy and step of arm and reference, and the last accuracy of each."""

    distance: float
    score: tuple[float, float]
    step: tuple[float, float]
    last: tuple[float, float]


def at_first_reach(distances: ArrayLike, values: ArrayLike, target: float) -> float:
    """The value where `distances` first reaches `target`, linear between the points on either side; `distances` may fall back afterwards.

    Raises:
        ValueError: it never does.
    """
    x, y = np.asarray(distances, dtype=np.float64), np.asarray(values, dtype=np.float64)
    indices = np.flatnonzero(x >= target)
    if not len(indices):
        raise ValueError(f"{target:g} is never reached: the largest is {x.max():g}")
    i = int(indices[0])
    if i == 0:
        return float(y[0])
    part = (target - x[i - 1]) / (x[i] - x[i - 1])
    return float(y[i - 1] + part * (y[i] - y[i - 1]))


def match(arm: Course, reference: Course) -> Match:
    """Both runs at the largest value that both reach."""
    target = float(min(arm.distance.max(), reference.distance.max()))
    scores, steps = (
        tuple(at_first_reach(one.distance, getattr(one, name), target) for one in (arm, reference))
        for name in ("score", "step")
    )
    return Match(target, (scores[0], scores[1]), (steps[0], steps[1]), (arm.last, reference.last))


def course(results: Results, arm: PlannedArm, seed: int, column: str) -> Course:
    """A run's evaluations beside the column's value in the row of the same step, 0 at step 0; evaluations without a value are left out.

    Raises:
        ValueError: the column has no number, or hardly any, at the run's evaluations.
    """
    run_id = arm.runs[seed]
    experiment, plan = results.experiment, results.experiment.plan
    rows = _run_rows(experiment.steps, arm, run_id)
    if column not in rows or rows[column].isna().all():
        raise ValueError(
            f"{arm.name} has no number in {column}"
            + (
                ": it is logged where algorithm.kl.coefficient is above 0 (1e-12 is enough and moves nothing)"
                if column == "kl_to_reference"
                else ""
            )
        )
    values_by_step = {0.0: 0.0} | dict(zip(rows["step"].astype(float), rows[column].astype(float), strict=True))
    cells = _run_rows(experiment.cells, arm, run_id)
    cells = cells[(cells["benchmark"] == plan.benchmark) & (cells["cap"] == plan.primary_cap)]
    cells = cells[cells["avg"].notna()]
    steps, score = (cells[name].to_numpy(dtype=np.float64) for name in ("step", "avg"))
    distance = np.array([values_by_step.get(float(step), np.nan) for step in steps])
    has_value = np.isfinite(distance)
    if has_value.sum() < 2:
        raise ValueError(
            f"{arm.name}, seed {seed}: {column} has {has_value.sum()} values at evaluations; lower training.evaluate_every"
        )
    return Course(steps[has_value], distance[has_value], score[has_value], float(score[-1]))


def _run_rows(frame: pd.DataFrame, arm: PlannedArm, run_id: str) -> pd.DataFrame:
    """Rows of one run in one arm by step; two arms of an experiment may be the same run."""
    return frame[(frame["arm"] == arm.name) & (frame["run_id"] == run_id)].sort_values("step")


def matches(results: Results, arm: PlannedArm, reference: PlannedArm, column: str) -> dict[int, Match]:
    """Seed to the match of its two runs, of seeds that both arms have finished."""
    both = results.scores(arm, "avg").keys() & results.scores(reference, "avg").keys()
    return {
        seed: match(course(results, arm, seed, column), course(results, reference, seed, column))
        for seed in sorted(both)
    }


def matched_table(results: Results, column: str) -> Table:
    """One row a comparison of the plan: where both arms are read, their accuracy there, and the paired differences there and at the end.

    Raises:
        ValueError: no two arms share a finished seed, or the column cannot be read.
    """
    plan = results.experiment.plan
    pairs = [(arm, other) for arm in plan.arms if (other := plan.reference_of(arm)) is not None]
    matches_by_arm = {arm.name: matches(results, arm, other, column) for arm, other in pairs}
    if not any(matches_by_arm.values()):
        raise ValueError(f"no two arms of {plan.name} share a finished seed")
    margin = results.margin if results.metric.name == "avg" else None
    differences = _differences(plan, margin, matches_by_arm, "score")
    last = _differences(plan, margin, matches_by_arm, "last")
    rows: list[Mapping[str, Cell]] = []
    for arm, other in pairs:
        arm_matches = matches_by_arm[arm.name]
        if not arm_matches:
            continue
        cells: dict[str, Cell] = {"arm": arm.label, "reference": other.label, "seeds": len(arm_matches)}
        cells["moved"] = _mean(plan, {seed: one.distance for seed, one in arm_matches.items()})
        for i, name in enumerate(("arm", "reference")):
            cells[f"step_{name}"] = _mean(plan, {seed: one.step[i] for seed, one in arm_matches.items()})
            cells[f"score_{name}"] = _mean(plan, {seed: one.score[i] for seed, one in arm_matches.items()})
        rows.append({**cells, "difference": differences[arm.name], "last": last[arm.name]})
    columns = (
        Column("arm", "arm"),
        Column("reference", "against"),
        Column("seeds", "seeds", 0),
        Column("moved", f"{column}, both", 4),
        Column("step_arm", "step, arm", 1),
        Column("step_reference", "step, reference", 1),
        Column("score_arm", "avg %, arm", 1, 100),
        Column("score_reference", "avg %, reference", 1, 100),
        Column("difference", "difference there, points", 1, 100, signed=True, words=True),
        Column("last", "after the last step, points", 1, 100, signed=True, words=True),
    )
    return Table(f"{plan.name}-matched", f"{plan.title}: at equal {column}", columns, tuple(rows), _NOTES)


_NOTES = (
    "In each seed both arms are read at the largest value that both reach at an evaluation, where they first reach it, linear between "
    "evaluations. Evaluations between have fewer samples than the last.",
    "Differences: arm minus reference, paired, 95 %, Student's t over base policies or seeds; those of a column hold together (Šidák).",
)


def _differences(
    plan: Plan, margin: float | None, matches_by_arm: Mapping[str, Mapping[int, Match]], field: str
) -> Mapping[str, Estimate]:
    contrasts = {}
    for name, arm_matches in matches_by_arm.items():
        scores = {seed: getattr(one, field) for seed, one in arm_matches.items()}
        by_seed = {seed: ours - theirs for seed, (ours, theirs) in scores.items()}
        if by_seed:
            contrasts[name] = Paired(plan.replicates(by_seed), len(by_seed))
    return judge(contrasts, margin=margin)


def _mean(plan: Plan, values: Mapping[int, float]) -> Cell:
    """The mean alone: intervals stand beside differences, where arms share their noise."""
    return mean_interval(plan.replicates(values)).value


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table as Markdown; 0, or 2 with one line where it cannot be made."""
    parser = script_parser("matched", __doc__)
    parser.add_argument("--by", default="kl_to_reference", metavar="COLUMN", help="column of the step metrics")
    options = parser.parse_args(arguments)
    return print_table(options, lambda results: matched_table(results, options.by))


if __name__ == "__main__":
    raise SystemExit(main())

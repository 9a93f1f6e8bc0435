"""What the second grader confirms of a rise: the verifier's answers against `harness.verify.cross_check`, before and after training."""

from __future__ import annotations

import math
from dataclasses import dataclass

import pandas as pd

from analysis.evidence.load import records
from analysis.evidence.results import Results
from harness.evaluation.metrics.summary import PARTS
from harness.experiment.plan import PlannedArm
from harness.statistics.estimate import Estimate
from harness.statistics.intervals import mean_interval

COLUMNS = {part: f"graders_{part}" for part in PARTS}
ERROR = "graders_error"  # standard error over problems of the share that only the verifier holds right
NOTABLE = 0.01  # a growth below one point is not told
NOISES = 3.0  # nor one below three standard errors of sampling


@dataclass(frozen=True)
class GraderGap:
    """The two graders on the samples of an arm, means over seeds, fractions of 1.

    Attributes:
        both, only_first, only_second: shares at the checkpoint that both hold right, the verifier only, the second grader only.
        rise: growth of the verifier's share from before RL to the checkpoint.
        unconfirmed: the part of it that the second grader does not confirm: the rise less the growth of what both hold right, which is
            the growth of ``only_first``; with its interval over seeds.
        refused_before, refused: share of what the verifier holds right that the second grader refuses, before RL and at the checkpoint. A
            second grader that is as strict as before refuses the same share of more right answers.
        noise: standard error of the growth by sampling alone, of one seed (seeds share their problems, so it is not divided by them).
    """

    both: float
    only_first: float
    only_second: float
    rise: float
    unconfirmed: Estimate
    refused_before: float
    refused: float
    noise: float

    @property
    def grown(self) -> bool:
        """Say if the verifier takes more by now that the second grader does not confirm than sampling noise explains."""
        return self.unconfirmed.value > max(NOTABLE, NOISES * self.noise)


def grader_gaps(results: Results) -> dict[str, GraderGap]:
    """Compute the gap of every arm with second verdicts at its checkpoint, by the arm's name."""
    found = {arm.name: _gap(results, arm) for arm in results.experiment.plan.arms}
    return {name: gap for name, gap in found.items() if gap is not None}


def shares_before(results: Results) -> dict[str, float]:
    """Compute the shares of the two graders before RL, mean over the runs; nothing without second verdicts."""
    frame = _judged(results, results.before)
    return {part: float(frame[column].mean()) for part, column in COLUMNS.items()} if len(frame) else {}


def _gap(results: Results, arm: PlannedArm) -> GraderGap | None:
    after = _judged(results, results.per_seed)
    after = after[after["arm"] == arm.name] if len(after) else after
    if not len(after):
        return None
    before = {row["run_id"]: row for row in records(_judged(results, results.before))}
    rise, unconfirmed, noise = {}, {}, []
    for row in records(after):
        first = before.get(row["run_id"])
        if first is not None:
            grown = {part: row[column] - first[column] for part, column in COLUMNS.items()}
            rise[row["seed"]] = grown["both"] + grown["only_first"]
            unconfirmed[row["seed"]] = grown["only_first"]
            noise.append(math.hypot(row[ERROR], first[ERROR]))
    replicates = results.experiment.plan.replicates
    return GraderGap(
        **{part: float(after[column].mean()) for part, column in COLUMNS.items()},
        rise=mean_interval(replicates(rise)).value,
        unconfirmed=mean_interval(replicates(unconfirmed)),
        refused_before=_refused(shares_before(results)),
        refused=_refused({part: float(after[column].mean()) for part, column in COLUMNS.items()}),
        noise=sum(noise) / len(noise) if noise else math.nan,
    )


def _refused(shares: dict[str, float]) -> float:
    right = shares["both"] + shares["only_first"] if shares else 0.0
    return shares["only_first"] / right if right else math.nan


def _judged(results: Results, frame: pd.DataFrame) -> pd.DataFrame:
    """Select the rows at the primary cap that have second verdicts."""
    if COLUMNS["both"] not in frame:
        return frame.iloc[:0]
    own = frame["cap"] == results.experiment.plan.primary_cap
    return frame[own & frame[COLUMNS["both"]].notna()]

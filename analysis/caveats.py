"""What an answer has to be read with: collapsed seeds, the second grader, and how much of the data a mechanism touched."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from analysis.frames import Frames, groups, records
from analysis.results import Results
from harness.engagement.measure import HARDLY, Measure
from harness.evaluation.metrics.names import PARTS
from harness.experiment.plan import PlannedArm
from harness.statistics.aggregates import sign_flip_p
from harness.statistics.intervals import Estimate, clopper_pearson, mean_interval


@dataclass(frozen=True)
class Robust:
    """An arm beside its reference: finished and collapsed seeds, and the difference read in other ways.

    ``all``: over all seeds, corrected for nothing; ``without``: over the seeds that collapsed in neither arm; ``sign_flip``: two-sided p
    over all patterns of signs. None, or NaN of the last, where there is no such reading.
    """

    arm: PlannedArm
    seeds: tuple[int, ...]
    collapsed: tuple[int, ...]
    all: Estimate | None = None
    without: Estimate | None = None
    sign_flip: float = math.nan

    @property
    def decided_by_collapse(self) -> bool:
        """True where the word on the difference is another one without the seeds that collapsed."""
        return self.all is not None and self.without is not None and self.all.verdict != self.without.verdict

    @property
    def bounds(self) -> tuple[float, float]:
        """The share of collapsed seeds at 95 %: the exact interval (Clopper-Pearson); of none, 0 and the one-sided bound."""
        count, seeds = len(self.collapsed), len(self.seeds)
        if not count:
            return 0.0, 1.0 - 0.05 ** (1 / seeds)
        return clopper_pearson(count, seeds)


def robust_readings(results: Results) -> list[Robust]:
    """Read every arm that has finished runs; differences are of the metric, collapses are what the plan declares."""
    plan = results.experiment.plan
    fallen = results.experiment.collapsed
    gone = [(arm, seed) in fallen for arm, seed in zip(results.per_seed["arm"], results.per_seed["seed"], strict=True)]
    standing = replace(results, per_seed=results.per_seed[~np.array(gone, dtype=bool)])
    readings = []
    for arm in plan.arms:
        values, reference = results.values(arm), plan.reference_of(arm)
        if not values:
            continue
        seeds = tuple(sorted(values))
        reading = Robust(arm, seeds, tuple(seed for seed in seeds if (arm.name, seed) in fallen))
        others = results.values(reference) if reference else {}
        shared = sorted(values.keys() & others.keys())
        if reference is not None and shared:
            touched = {(name, seed) for name in (arm.name, reference.name) for seed in shared} & fallen
            reading = replace(
                reading,
                all=results.difference(arm, reference),
                without=standing.difference(arm, reference) if touched else None,
                sign_flip=sign_flip_p([values[seed] - others[seed] for seed in shared]),
            )
        readings.append(reading)
    return readings


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
    arms = results.experiment.plan.arms
    return {arm.name: gap for arm in arms if (gap := _gap(results, arm)) is not None}


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
    shares = {part: float(after[column].mean()) for part, column in COLUMNS.items()}
    return GraderGap(
        **shares,
        rise=mean_interval(replicates(rise)).value,
        unconfirmed=mean_interval(replicates(unconfirmed)),
        refused_before=_refused(shares_before(results)),
        refused=_refused(shares),
        noise=sum(noise) / len(noise) if noise else math.nan,
    )


def _refused(shares: dict[str, float]) -> float:
    right = shares["both"] + shares["only_first"] if shares else 0.0
    return shares["only_first"] / right if right else math.nan


def _judged(results: Results, frame: pd.DataFrame) -> pd.DataFrame:
    """Select the rows at the primary cap that have second verdicts."""
    if COLUMNS["both"] not in frame:
        return frame.iloc[:0]
    at_cap = frame["cap"] == results.experiment.plan.primary_cap
    return frame[at_cap & frame[COLUMNS["both"]].notna()]


NOTE = (
    "Engaged: how much of the training data the difference touched, mean over steps, then over the seeds of the arm that "
    "has the mechanism; thresholds of “hardly engaged”: docs/objective/engagement.md."
)


@dataclass(frozen=True)
class Engagement:
    """A difference's measures and their values: fractions, NaN where nothing is known."""

    measures: tuple[Measure, ...]
    values: tuple[float, ...]

    @property
    def text(self) -> str:
        """``0.3 % of tokens; 14 % of responses, hardly engaged``; empty where nothing is known."""
        return self._joined(mark=True)

    @property
    def hardly(self) -> bool:
        """Say if everything that differs is measured, known, and under its threshold."""
        pairs = list(zip(self.measures, self.values, strict=True))
        return bool(pairs) and all(measure.hardly(value) for measure, value in pairs)

    @property
    def known(self) -> bool:
        """Say if any run tells anything; runs from before these measures do not."""
        return any(not math.isnan(value) for value in self.values)

    def beside(self, resolved: bool) -> str:
        """The text beside a difference: where that is resolved, a mechanism that touched little is not called hardly engaged."""
        return self._joined(mark=not (resolved and self.hardly))

    def _joined(self, mark: bool) -> str:
        texts = (m.text(value, mark) for m, value in zip(self.measures, self.values, strict=True))
        return "; ".join(text for text in texts if text)


def engagement(measures: Sequence[Measure], runs: Mapping[str, Sequence[pd.DataFrame]]) -> Engagement:
    """Average each measure over the step metrics of the runs (arm name to one frame a run) of the arm that shows it."""
    return Engagement(tuple(measures), tuple(m.value(runs.get(m.arm, ())) for m in measures))


def engagements(experiment: Frames) -> dict[str, Engagement]:
    """Read for each arm (by name) what its difference to its reference touched, over finished runs."""
    runs: dict[str, list[pd.DataFrame]] = {}
    if any(arm.engagement for arm in experiment.plan.arms):
        finished = experiment.runs[experiment.runs["status"] == "finished"]
        logged = groups(experiment.steps, "arm", "run_id")
        for key in zip(finished["arm"], finished["run_id"], strict=True):
            if key in logged:
                runs.setdefault(key[0], []).append(logged[key])
    return {arm.name: engagement(arm.engagement, runs) for arm in experiment.plan.arms}


def sentence_end(engaged: Engagement, resolved: bool) -> str:
    """End a sentence on a difference; a mechanism that hardly did anything explains only that none was found. Empty if unknown."""
    if not engaged.known:
        return ""
    if not engaged.hardly:
        return f"; engaged: {engaged.text}"
    text = "and yet it touched little of the data" if resolved else f"and the mechanism was {HARDLY}"
    return f", {text}: {engaged.beside(resolved=True)}"

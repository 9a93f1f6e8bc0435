"""What an answer has to be read with: collapsed seeds, the second grader, and how much of the data a mechanism touched."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from analysis.frames import Frames, groups
from analysis.results import Results
from analysis.tables.table import bounds_text, number_text
from harness.engagement.measure import HARDLY, Measure
from harness.evaluation.metrics.names import PARTS
from harness.experiment.plan import PlannedArm
from harness.statistics.intervals import Estimate, clopper_pearson, mean_interval


def collapse_warnings(results: Results) -> list[str]:
    """Say how many seeds of an arm collapsed by the plan's definition, and where the word on its difference is another one without."""
    plan, metric, fallen = results.experiment.plan, results.metric, results.experiment.collapsed
    pairs = zip(results.per_seed["arm"], results.per_seed["seed"], strict=True)
    standing = replace(results, per_seed=results.per_seed[np.array([pair not in fallen for pair in pairs], dtype=bool)])
    warnings = []
    for arm in plan.arms if fallen else ():
        values, reference = results.values(arm), plan.reference_of(arm)
        if seeds := [seed for seed in sorted(values) if (arm.name, seed) in fallen]:
            low, high = (100 * end for end in clopper_pearson(len(seeds), len(values)))
            share = f"{len(seeds)} of {len(values)}, exact 95 % interval {low:.0f} to {high:.0f} %"
            which = f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}, at the last evaluation {plan.collapse.text}"
            warnings.append(f"{_warning(arm)}: collapsed seeds: {share} ({which}).")
        if reference is None:
            continue
        every, without = (view.difference(arm, reference) for view in (results, standing))
        if every.verdict != without.verdict and not math.isnan(without.value):
            before, after = (delta.words(metric.scale, metric.unit) for delta in (every, without))
            value = f"{number_text(metric.scale * without.value, metric.digits, signed=True)} {metric.unit}"
            warnings.append(
                f"{_warning(arm)}: collapsed seeds decide: {before} with them, without them {value}, {after}."
            )
    return warnings


def _warning(arm: PlannedArm) -> str:
    return f"- Warning, {arm.label.removeprefix('+ ')}"


BOTH, ONLY_FIRST, ONLY_SECOND = COLUMNS = [f"graders_{part}" for part in PARTS]
ERROR = "graders_error"  # standard error over problems of the share that only the verifier holds right
NOTABLE, NOISES = 0.01, 3.0  # a growth below one point, or below three standard errors of sampling, is not told


@dataclass(frozen=True)
class GraderGap:
    """The two graders on the samples of an arm, means over seeds, fractions of 1.

    Attributes:
        only_first, only_second: shares at the checkpoint that only the verifier, and only the second grader holds right.
        rise: growth of the verifier's share since before RL. unconfirmed: that of ``only_first``, with its interval over seeds.
        refused_before, refused: share of what the verifier holds right that the second grader refuses, before RL and at the checkpoint.
        noise: standard error of the growth by sampling alone, of one seed (seeds share their problems, so it is not divided by them).
    """

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
    replicates, gaps = results.experiment.plan.replicates, {}
    keys, cap = ["arm", "seed", "run_id", "cap", *COLUMNS, ERROR], results.experiment.plan.primary_cap
    frames = (frame.reindex(columns=keys) for frame in (results.before, results.per_seed))
    before, after = (frame[(frame["cap"] == cap) & frame[BOTH].notna()] for frame in frames)
    by_run = before.drop_duplicates("run_id").set_index("run_id")
    for arm in results.experiment.plan.arms:
        own = after[after["arm"] == arm.name].set_index("run_id")
        if not len(own):
            continue
        first = by_run.reindex(own.index)
        grown = (own[COLUMNS] - first[COLUMNS]).dropna()
        seeds = own["seed"][grown.index].tolist()
        gaps[arm.name] = GraderGap(
            only_first=float(own[ONLY_FIRST].mean()),
            only_second=float(own[ONLY_SECOND].mean()),
            rise=mean_interval(replicates(dict(zip(seeds, grown[BOTH] + grown[ONLY_FIRST], strict=True)))).value,
            unconfirmed=mean_interval(replicates(dict(zip(seeds, grown[ONLY_FIRST], strict=True)))),
            refused_before=_refused(before),
            refused=_refused(own),
            noise=float(np.hypot(own[ERROR], first[ERROR]).mean()),
        )
    return gaps


def _refused(shares: pd.DataFrame) -> float:
    both, only_first = shares[BOTH].mean(), shares[ONLY_FIRST].mean()
    return float(only_first / (both + only_first)) if both + only_first else math.nan


def grader_warnings(results: Results) -> list[str]:
    """Say for each arm whose gap has grown: ``of +34.0 points, 22.1 are not confirmed by the second grader``; else nothing."""
    warnings, gaps = [], grader_gaps(results)
    for arm in results.experiment.plan.arms:
        if arm.name not in gaps or not gaps[arm.name].grown:
            continue
        gap, unconfirmed = gaps[arm.name], gaps[arm.name].unconfirmed
        ends = " to ".join(bounds_text(unconfirmed, 1, scale=100))
        interval = f" (95 % interval {ends} over {unconfirmed.seeds} seeds)" * (not math.isnan(unconfirmed.low))
        part = unconfirmed.value
        rise, confirmed = (number_text(100 * value, 1, signed=True) for value in (gap.rise, gap.rise - part))
        shares = (f"{100 * share:.0f} %" for share in (gap.refused, gap.refused_before))
        now, then = (share.replace("nan %", "an unknown share") for share in shares)
        warnings.append(
            f"{_warning(arm)}: of {rise} points by the verifier since before RL, {number_text(100 * part, 1)}{interval} are "
            f"not confirmed by the second grader; what both hold right changed by {confirmed}. It refuses {now} of what the verifier "
            f"holds right, {then} before RL."
        )
    return warnings


@dataclass(frozen=True)
class Engagement:
    """A difference's measures and their values: fractions, NaN where nothing is known."""

    measures: tuple[Measure, ...]
    values: tuple[float, ...]

    @property
    def text(self) -> str:
        """``0.3 % of tokens; 14 % of responses, hardly engaged``; empty where nothing is known."""
        return self.beside(resolved=False)

    @property
    def hardly(self) -> bool:
        """Say if everything that differs is measured, known, and under its threshold."""
        return bool(self.measures) and all(map(Measure.hardly, self.measures, self.values))

    @property
    def known(self) -> bool:
        """Say if any run tells anything; runs from before these measures do not."""
        return not all(map(math.isnan, self.values))

    def beside(self, resolved: bool) -> str:
        """The text beside a difference: where that is resolved, a mechanism that touched little is not called hardly engaged."""
        mark = not (resolved and self.hardly)
        texts = (measure.text(value, mark) for measure, value in zip(self.measures, self.values, strict=True))
        return "; ".join(filter(None, texts))


def engagement(measures: Sequence[Measure], runs: Mapping[str, Sequence[pd.DataFrame]]) -> Engagement:
    """Average each measure over the step metrics of the runs (arm name to one frame a run) of the arm that shows it."""
    return Engagement(tuple(measures), tuple(measure.value(runs.get(measure.arm, ())) for measure in measures))


def engagements(experiment: Frames) -> dict[str, Engagement]:
    """Read for each arm (by name) what its difference to its reference touched, over finished runs."""
    arms, runs = experiment.plan.arms, dict[str, list[pd.DataFrame]]()
    logged = groups(experiment.steps, "arm", "run_id") if any(arm.engagement for arm in arms) else {}
    finished = experiment.runs[experiment.runs["status"] == "finished"]
    for key in zip(finished["arm"], finished["run_id"], strict=True):
        if key in logged:
            runs.setdefault(key[0], []).append(logged[key])
    return {arm.name: engagement(arm.engagement, runs) for arm in arms}


def sentence_end(engaged: Engagement, resolved: bool) -> str:
    """End a sentence on a difference; a mechanism that hardly did anything explains only that none was found. Empty if unknown."""
    text = "and yet it touched little of the data" if resolved else f"and the mechanism was {HARDLY}"
    if engaged.known and engaged.hardly:
        return f", {text}: {engaged.beside(resolved=True)}"
    return f"; engaged: {engaged.text}" if engaged.known else ""

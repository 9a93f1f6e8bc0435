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
        seeds = [seed for seed in sorted(values) if (arm.name, seed) in fallen]
        if seeds:
            low, high = (100 * end for end in clopper_pearson(len(seeds), len(values)))
            which = f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}"
            warnings.append(
                f"{_warning(arm)}: collapsed seeds: {len(seeds)} of {len(values)} ({which}; exact 95 % interval {low:.0f} to {high:.0f} %), "
                f"at the last evaluation {plan.collapse.text}."
            )
        if reference is None:
            continue
        every, without = (view.difference(arm, reference) for view in (results, standing))
        if every.verdict != without.verdict and not math.isnan(without.value):
            before, after = (delta.words(metric.scale, metric.unit) for delta in (every, without))
            value = number_text(metric.scale * without.value, metric.digits, signed=True)
            text = f"{before} with them, without them {value} {metric.unit}, {after}"
            warnings.append(f"{_warning(arm)}: collapsed seeds decide: {text}.")
    return warnings


def _warning(arm: PlannedArm) -> str:
    return f"- Warning, {arm.label.removeprefix('+ ')}"


BOTH, ONLY_FIRST, ONLY_SECOND = COLUMNS = [f"graders_{part}" for part in PARTS]
ERROR = "graders_error"  # standard error over problems of the share that only the verifier holds right
NOTABLE = 0.01  # a growth below one point is not told
NOISES = 3.0  # nor one below three standard errors of sampling


@dataclass(frozen=True)
class GraderGap:
    """The two graders on the samples of an arm, means over seeds, fractions of 1.

    Attributes:
        only_first, only_second: shares at the checkpoint that only the verifier, and only the second grader holds right.
        rise: growth of the verifier's share from before RL to the checkpoint.
        unconfirmed: the part of it that the second grader does not confirm, the growth of ``only_first``, with its interval over seeds.
        refused_before, refused: share of what the verifier holds right that the second grader refuses, before RL and at the checkpoint. A
            second grader that is as strict as before refuses the same share of more right answers.
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
    before, after = (_judged(results, frame) for frame in (results.before, results.per_seed))
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


def _judged(results: Results, frame: pd.DataFrame) -> pd.DataFrame:
    """Select the rows at the primary cap that have second verdicts."""
    known = frame.reindex(columns=["arm", "seed", "run_id", "cap", *COLUMNS, ERROR])
    return known[(known["cap"] == results.experiment.plan.primary_cap) & known[BOTH].notna()]


def _refused(shares: pd.DataFrame) -> float:
    both, only_first = shares[BOTH].mean(), shares[ONLY_FIRST].mean()
    return float(only_first / (both + only_first)) if both + only_first else math.nan


def grader_warnings(results: Results) -> list[str]:
    """Say for each arm whose gap has grown: ``of +34.0 points, 22.1 are not confirmed by the second grader``; else nothing."""
    warnings, gaps = [], grader_gaps(results)
    for arm in results.experiment.plan.arms:
        gap = gaps.get(arm.name)
        if gap is None or not gap.grown:
            continue
        unconfirmed, interval = gap.unconfirmed, ""
        if not math.isnan(unconfirmed.low):
            ends = " to ".join(bounds_text(unconfirmed, 1, scale=100))
            interval = f" (95 % interval {ends} over {unconfirmed.seeds} seeds)"
        rise, confirmed = (
            number_text(100 * value, 1, signed=True) for value in (gap.rise, gap.rise - unconfirmed.value)
        )
        now, then = (
            "an unknown share" if math.isnan(share) else f"{100 * share:.0f} %"
            for share in (gap.refused, gap.refused_before)
        )
        warnings.append(
            f"{_warning(arm)}: of {rise} points by the verifier since before RL, {number_text(100 * unconfirmed.value, 1)}{interval} are "
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
        pairs = list(zip(self.measures, self.values, strict=True))
        return bool(pairs) and all(measure.hardly(value) for measure, value in pairs)

    @property
    def known(self) -> bool:
        """Say if any run tells anything; runs from before these measures do not."""
        return any(not math.isnan(value) for value in self.values)

    def beside(self, resolved: bool) -> str:
        """The text beside a difference: where that is resolved, a mechanism that touched little is not called hardly engaged."""
        mark = not (resolved and self.hardly)
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

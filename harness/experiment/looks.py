"""What a sequential plan is expected to take: its looks at simulated experiments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.experiment.plan import Plan
from harness.statistics.intervals import t_band, welch_band
from harness.statistics.sequential import Floats, design_levels

Codes = NDArray[np.int64]
Pair = tuple[int, int]  # an arm and the arm it is compared with, as indices

OPEN, HIGHER, LOWER, EQUIVALENT = 0, 1, 2, 3
_SIMULATIONS = 2_000


@dataclass(frozen=True)
class Course:
    """Ends of the comparisons: ``word_NC`` codes, ``seeds_NC`` at which each was closed, ``runs_N`` over all arms."""

    word_NC: Codes
    seeds_NC: Codes
    runs_N: Codes


def run_course(
    scores_NAS: Floats, pairs: Sequence[Pair], looks: Sequence[int], *, paired: bool = True, margin: float | None = None
) -> Course:
    """Look at every experiment as the design says. Arms get seeds while a comparison of them is open, the first look's at least."""
    count, arms, _ = scores_NAS.shape
    word_NC = np.full((count, len(pairs)), OPEN)
    seeds_NC = np.full(word_NC.shape, looks[-1])
    for seeds, level in zip(looks, design_levels(looks, len(pairs)), strict=True):
        ours, theirs = (scores_NAS[:, list(side), :seeds] for side in zip(*pairs, strict=True))
        value, half = t_band(ours - theirs, 1 - level) if paired else welch_band(ours, theirs, 1 - level)
        low, high = value - half, value + half
        inside = np.zeros_like(word_NC, dtype=bool) if margin is None else (low > -margin) & (high < margin)
        new_NC = np.select([low > 0, high < 0, inside], [HIGHER, LOWER, EQUIVALENT], OPEN)
        closed_NC = (word_NC == OPEN) & (new_NC != OPEN)
        word_NC[closed_NC], seeds_NC[closed_NC] = new_NC[closed_NC], seeds
    seeds_NA = np.full((count, arms), looks[0])
    for index, pair in enumerate(pairs):
        seeds_NA[:, pair] = np.maximum(seeds_NA[:, pair], seeds_NC[:, [index]])
    return Course(word_NC, seeds_NC, seeds_NA.sum(axis=1))


def expected_runs(
    arms: int, pairs: Sequence[Pair], looks: Sequence[int], effect: float, *, paired: bool = True
) -> float:
    """Mean number of runs where every comparison has the true difference ``effect``, in sd of one seed's difference.

    From a fixed-seed simulation of normal scores.
    """
    rng = np.random.default_rng([len(looks), looks[-1], arms])
    scores = rng.normal(0, np.sqrt(0.5), (_SIMULATIONS, arms, looks[-1]))
    return float(run_course(scores + effect * heights(arms, pairs)[:, None], pairs, looks, paired=paired).runs_N.mean())


def heights(arms: int, pairs: Sequence[Pair]) -> Floats:
    """Means of arms such that every comparison has the difference 1: float64[arms]."""
    references = dict(pairs)

    def height(arm: int) -> int:
        return height(references[arm]) + 1 if arm in references else 0

    return np.array([height(arm) for arm in range(arms)], dtype=np.float64)


EFFECTS = (3.0, 2.0, 1.0, 0.0)  # standard deviations of one seed's difference


def runs_of_looks(plan: Plan) -> dict[str, float]:
    """Compute the mean number of runs where every comparison has a true difference of so many standard deviations.

    With several metrics: in each, and all decided at one look; where they are not, it takes more.
    """
    index = {arm.name: place for place, arm in enumerate(plan.arms)}
    family = [(index[arm.name], index[reference.name]) for arm, reference in plan.comparisons] * len(plan.metrics)
    size = len(plan.arms)
    return {f"{effect:g}": expected_runs(size, family, plan.looks, effect, paired=plan.paired) for effect in EFFECTS}

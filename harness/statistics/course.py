"""A sequential design run on many simulated experiments at once: words, seeds at closing, runs it takes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.statistics.intervals import t_band, welch_band
from harness.statistics.sequential import design_levels

Floats = NDArray[np.float64]
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
    scores_NAS: Floats,
    pairs: Sequence[Pair],
    looks: Sequence[int],
    *,
    paired: bool = True,
    margin: float | None = None,
) -> Course:
    """Look at every experiment as the design says. Arms get seeds while a comparison of them is open, the first look's at least."""
    count, arms, _ = scores_NAS.shape
    word = np.full((count, len(pairs)), OPEN)
    closed_at = np.full(word.shape, looks[-1])
    for seeds, level in zip(looks, design_levels(looks, len(pairs)), strict=True):
        value, half = _interval(scores_NAS[:, :, :seeds], pairs, level, paired)
        new = np.where(value - half > 0, HIGHER, np.where(value + half < 0, LOWER, OPEN))
        if margin is not None:
            inside = (value - half > -margin) & (value + half < margin)
            new = np.where((new == OPEN) & inside, EQUIVALENT, new)
        closes = (word == OPEN) & (new != OPEN)
        word[closes], closed_at[closes] = new[closes], seeds
    needed = np.full((count, arms), looks[0])
    for index, pair in enumerate(pairs):
        for arm in pair:
            needed[:, arm] = np.maximum(needed[:, arm], closed_at[:, index])
    return Course(word, closed_at, needed.sum(axis=1))


def expected_runs(
    arms: int, pairs: Sequence[Pair], looks: Sequence[int], effect: float, *, paired: bool = True
) -> float:
    """Mean number of runs where every comparison has the true difference ``effect``, in sd of one seed's difference.

    From a fixed-seed simulation of normal scores; a pair's second arm comes before what is compared with it, or
    stands alone.
    """
    rng = np.random.default_rng([len(looks), looks[-1], arms])
    scores = rng.normal(0, np.sqrt(0.5), (_SIMULATIONS, arms, looks[-1]))
    return float(
        run_course(scores + effect * heights(arms, pairs)[:, None], pairs, looks, paired=paired).runs_N.mean()
    )


def heights(arms: int, pairs: Sequence[Pair]) -> Floats:
    """Means of arms such that every comparison has the difference 1: float64[arms]."""
    reference = dict(pairs)
    means = np.zeros(arms)
    for arm in range(arms):
        above = arm
        while above in reference:
            means[arm] += 1
            above = reference[above]
    return means


def _interval(scores_NAS: Floats, pairs: Sequence[Pair], level: float, paired: bool) -> tuple[Floats, Floats]:
    """Value and half width of each comparison, paired t or Welch's t at two-sided nominal alpha ``level``."""
    ours, theirs = (scores_NAS[:, list(arms)] for arms in zip(*pairs, strict=True))
    return t_band(ours - theirs, 1 - level) if paired else welch_band(ours, theirs, 1 - level)

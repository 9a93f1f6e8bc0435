"""What counts of right samples say of two sides: Pass@k over all k, by difficulty, and what it takes to see a point of avg."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from harness.evaluation.metrics.names import pass_at_every_k
from harness.statistics.bands import Band, simultaneous_band
from harness.statistics.intervals import (
    POWER,
    Estimate,
    comparison_level,
    fewest,
    paired_difference,
    power,
    two_way_difference,
)

Floats = NDArray[np.float64]
AVG, TOKENS = "avg", "tokens"
POINT = 0.01
_MOST_UNITS = 10**7
DIFFICULTIES = ("never right", "up to half", "more than half", "always right")


def difficulty_of(share_P: ArrayLike) -> NDArray[np.int64]:
    """The place in `DIFFICULTIES` of each problem, by a policy's share of right samples on it, fractions of 1.

    The samples must not be those of a compared side: a problem with bad luck there would be called hard, and come back by itself.
    """
    # Means of shares end in last bits; a share of exactly one half must not depend on them.
    share = np.round(np.asarray(share_P, dtype=np.float64), 12)
    return np.select([share == 0, share <= 0.5, share < 1], [0, 1, 2], 3).astype(np.int64)


@dataclass(frozen=True)
class Counts:
    """Right samples of a side in each training run on each problem, [runs, problems], and how many samples a problem each run has.

    `replicate_R`: what each run is a replicate of, equal for runs of one base policy.
    """

    right_RP: NDArray[np.int64]
    samples_R: tuple[int, ...]
    replicate_R: tuple[int, ...]

    @property
    def most(self) -> int:
        """The largest k of Pass@k: the samples a problem of the run with fewest."""
        return min(self.samples_R)

    def curves(self, most: int) -> Floats:
        """Pass@k for k = 1 .. `most`, [replicates, problems, k]."""
        runs = zip(self.right_RP, self.samples_R, strict=True)
        curves_RPK = np.array([pass_at_every_k(right_P, samples)[:, :most] for right_P, samples in runs])
        return mean_rows(curves_RPK, self.replicate_R)

    def scores(self, ks: Sequence[int]) -> dict[str, Floats]:
        """Metric to its values, [replicates, problems], fractions of 1: avg and Pass@k."""
        curves = self.curves(max(ks, default=1))  # Pass@1 is avg
        return {AVG: curves[..., 0]} | {f"pass@{k}": curves[..., k - 1] for k in ks}

    @property
    def noise_P(self) -> Floats:
        """Sampling variance of each problem's avg, the mean over runs; NaN where a run has one sample."""
        runs = zip(self.right_RP, self.samples_R, strict=True)
        return np.sum([sampling_noise(right_P, n) for right_P, n in runs], axis=0) / len(self.samples_R) ** 2


def mean_rows(rows: Floats, replicate_R: Sequence[int]) -> Floats:
    """The mean over the runs of each replicate, [runs, ...] to [replicates, ...]."""
    return np.array([rows[np.equal(replicate_R, one)].mean(axis=0) for one in dict.fromkeys(replicate_R)])


@dataclass(frozen=True)
class KBand:
    """The difference of a side to the first in Pass@k with its band over all k; `over`: what its replicates are."""

    band: Band
    over: str


def k_band(first: Counts, other: Counts, *, paired: bool, level: float) -> KBand:
    """Other minus first for k = 1 .. the samples a problem that both have, in fractions of 1, with a band that holds at all k together.

    Curves of one evaluation cross: a side may be better at small k and worse at large ones, and a verdict at one k depends on the choice of
    k. So all k are judged at once (arXiv:2609.22547). Replicates are those of `Counts` where both sides have two or more (`paired`: of
    the same seeds in the same order), else the problems.
    """
    most = min(first.most, other.most)
    a_RPK, b_RPK = first.curves(most), other.curves(most)
    if min(len(a_RPK), len(b_RPK)) < 2:
        return KBand(simultaneous_band(b_RPK.mean(axis=0) - a_RPK.mean(axis=0), level=level), "problems")
    a_RK, b_RK = a_RPK.mean(axis=1), b_RPK.mean(axis=1)
    groups = [b_RK - a_RK] if paired else [b_RK, a_RK]
    shares_bases = any(len({*side.replicate_R}) < len(side.replicate_R) for side in (first, other))
    return KBand(simultaneous_band(*groups, level=level), "base policies" if shares_bases else "training runs")


def difference_of(first_RP: Floats, other_RP: Floats, paired: bool, level: float) -> Estimate:
    """Other minus first over problems, and over training runs as well where both sides have several."""
    if min(len(first_RP), len(other_RP)) > 1 and first_RP.shape[1] > 1:
        return two_way_difference(other_RP, first_RP, paired=paired, level=level)
    estimate = paired_difference(other_RP.mean(axis=0), first_RP.mean(axis=0), level)
    if math.isnan(estimate.low):
        return replace(estimate, seeds=1, method="no spread over problems")
    return replace(estimate, seeds=1, method="paired t over problems")


@dataclass(frozen=True)
class InBand:
    """One metric on the problems of one band of difficulty, in fractions of 1; its interval holds together with those of all bands."""

    difficulty: str
    problems: int
    side: str
    metric: str
    first: float
    other: float
    difference: Estimate


@dataclass(frozen=True)
class ByDifficulty:
    """Differences on problems put into bands by the samples of `side`, which is not compared. `empty`: bands without a problem."""

    side: str
    problems: int
    rows: Sequence[InBand]
    empty: Sequence[str]


def by_difficulty(
    side: str, share_P: Floats, counts: Mapping[str, Counts], paired: Mapping[str, bool], ks: Sequence[int]
) -> ByDifficulty:
    """Compare every side with the first of `counts`, on the same problems in the same order, band by band (arXiv:2609.13443).

    `side` names the evaluation that says how hard a problem is, by its share of right samples; these are not among the compared ones.
    `paired`: whether a side has the seeds of the first, in the same order.
    """
    band_P = difficulty_of(share_P)
    sizes = np.bincount(band_P, minlength=len(DIFFICULTIES))
    first, *others = counts
    family = int((sizes > 1).sum()) * len(others)
    scores = {name: one.scores(ks) for name, one in counts.items()}
    rows = [
        InBand(
            DIFFICULTIES[band],
            int(sizes[band]),
            name,
            metric,
            float(first_RP.mean()),
            float(other_RP.mean()),
            # few problems make a wide t interval; a difference of two shares has its bounds
            replace(
                difference_of(first_RP, other_RP, paired[name], comparison_level(max(1, family))).clip(-1, 1),
                family=family,
            ),
        )
        for band in np.flatnonzero(sizes)
        for name in others
        for metric in scores[first]
        for first_RP, other_RP in [(scores[side_name][metric][:, band_P == band] for side_name in (first, name))]
    ]
    empty = [name for name, size in zip(DIFFICULTIES, sizes, strict=True) if not size]
    return ByDifficulty(side, len(band_P), rows, empty)


@dataclass(frozen=True)
class PointCost:
    """What it takes to see a true difference of `POINT` in avg with 80 % power at `level`, over problems like these.

    `problems`: at the present `samples_now` a problem (of the side with fewer). `samples`: a problem, at the present `problems_now`; both
    sides in proportion. None where no number is known; `samples_known`: whether samples' part of the variance is.
    """

    problems: int | None
    samples: int | None
    problems_now: int
    samples_now: int
    samples_known: bool
    level: float


def point_cost(first: Counts, other: Counts, level: float) -> PointCost | None:
    """What a point of avg takes; None where both sides have several training runs, whose number decides."""
    problems, samples = first.right_RP.shape[1], min(first.most, other.most)
    if min(len({*side.replicate_R}) for side in (first, other)) > 1:
        return None
    if problems < 2:
        return PointCost(None, None, problems, samples, False, level)
    a_P, b_P = (one.scores([])[AVG].mean(axis=0) for one in (first, other))
    total, sampling = float((b_P - a_P).var(ddof=1)), float((first.noise_P + other.noise_P).mean())
    return PointCost(
        problems_needed(POINT, total, level),
        samples_needed(POINT, total, sampling, samples, problems, level),
        problems,
        samples,
        not math.isnan(sampling),
        level,
    )


def sampling_noise(right_P: ArrayLike, samples: int) -> Floats:
    """Unbiased variance of each problem's share of right samples, p (1 - p) / (n - 1); NaN with one sample, which shows none."""
    share = np.asarray(right_P, dtype=np.float64) / samples
    return share * (1 - share) / (samples - 1) if samples > 1 else np.full(share.shape, np.nan)


def problems_needed(difference: float, total: float, level: float) -> int | None:
    """Fewest problems that show a true `difference` with 80 % power; None where no number is known.

    `total`: variance of a problem's difference in avg, squared fractions of 1, at the present samples.
    """
    return fewest(lambda problems: _shows(difference, total, problems, level), range(2, _MOST_UNITS)) if total else None


def samples_needed(
    difference: float, total: float, sampling: float, samples: int, problems: int, level: float
) -> int | None:
    """Fewest samples a problem that do so at these `problems`; None where no number does, or `sampling` is not known (NaN).

    `sampling`: the part of `total` that `samples` samples make. Problems make the rest, which any number of samples leaves. Samples of the
    two sides are taken as independent.
    """
    if math.isnan(sampling) or total == 0:
        return None
    one, between = sampling * samples, max(0.0, total - sampling)
    return fewest(lambda n: _shows(difference, between + one / n, problems, level), range(1, _MOST_UNITS))


def _shows(difference: float, variance: float, problems: int, level: float) -> bool:
    return power(difference, math.sqrt(variance), problems, paired=True, alpha=1 - level) >= POWER

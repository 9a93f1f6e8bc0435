"""Intervals and tests over training seeds, the unit of replication, and over the problems of one evaluation.

Scores are reduced to one number per seed first; intervals are Student's t over those numbers: problems are fixed, seeds random. With one
seed nothing can be resolved, and every function says so with NaN.
"""

from __future__ import annotations

import bisect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def mean_interval(scores_S: ArrayLike, within: tuple[float, float] = (-math.inf, math.inf)) -> Estimate:
    """Mean over seeds with Student's t interval. One seed, or seeds that are all equal: the value alone.

    ``within``: the least and the most that a score can be; near them Student's t says more, which is cut here and nowhere else.
    """
    estimate = _difference([scores_S], 0.95, "t over seeds")
    low, high = (float(np.clip(end, *within)) for end in (estimate.low, estimate.high))
    return replace(estimate, low=low, high=high, p_value=math.nan)


def t_band(values: Floats, level: float = 0.95, axis: int = -1) -> tuple[Floats, Floats]:
    """Means along an axis and the half widths of their t intervals; NaN values are left out, fewer than two give a half width of NaN."""
    array = np.ma.array(values, mask=np.isnan(values))
    count = array.count(axis=axis)
    mean, spread = (np.ma.filled(part, np.nan) for part in (array.mean(axis=axis), array.std(axis=axis, ddof=1)))
    return mean, np.asarray(scipy.special.stdtrit(count - 1, 0.5 + level / 2) * spread / np.sqrt(count))


def paired_difference(a_S: ArrayLike, b_S: ArrayLike, level: float = 0.95) -> Estimate:
    """Mean of a - b over seeds run in both arms (same order), Student's t on the differences."""
    return _difference([np.subtract(a_S, b_S, dtype=np.float64)], level, "paired t over seeds")


def welch_difference(a_S: ArrayLike, b_S: ArrayLike, level: float = 0.95) -> Estimate:
    """Mean of a minus mean of b for independent seeds: Welch's t, Satterthwaite degrees of freedom."""
    return _difference([a_S, b_S], level, "Welch t over seeds")


def problems_interval(score_P: ArrayLike) -> tuple[float, float] | None:
    """The 95 % interval of a mean of per-problem scores in [0, 1]; None with fewer than two problems.

    How much the mean would move with other problems like these; nothing of another training run. The union of two intervals: Student's t
    over scores that contain the sampling noise (arXiv:2411.00640), and the exact bound on what the problems cannot have shown. With 97.5 %
    on a side, at most 1 - 0.025^(1/P) of all problems are of kinds that none of P is of, and these score 0 or 1 at worst. Where all score
    0, or all 1, that is Clopper and Pearson's interval, so that the first right sample moves the interval as little as the last.
    """
    scores = np.asarray(score_P, dtype=np.float64)
    if len(scores) < 2:
        return None
    mean, unseen = mean_interval(scores), 1 - 0.025 ** (1 / len(scores))
    low, high = mean.value * (1 - unseen), mean.value + unseen * (1 - mean.value)
    # NaN where the scores have no spread
    return max(0.0, float(np.fmin(low, mean.low))), min(1.0, float(np.fmax(high, mean.high)))


def clopper_pearson(successes: int, trials: int) -> tuple[float, float]:
    """The exact 95 % interval of a probability from ``successes`` out of ``trials``."""
    low, high = scipy.stats.binomtest(successes, trials).proportion_ci(0.95, method="exact")
    return float(low), float(high)


def _difference(groups: Sequence[ArrayLike], level: float, method: str) -> Estimate:
    """The mean of one group of scores, or of the first minus that of the second, over the finite ones; tested against zero."""
    arms = [scores[np.isfinite(scores)] for scores in (np.asarray(group, dtype=np.float64).ravel() for group in groups)]
    if not (seeds := min(map(len, arms))):
        return MISSING
    value = float(arms[0].mean() - sum(arm.mean() for arm in arms[1:]))
    plain = Estimate(value, seeds=seeds, level=level, method="single training seed")
    if seeds == 1:
        return plain
    error = math.hypot(*(arm.std(ddof=1) / math.sqrt(len(arm)) for arm in arms))
    degrees = _welch_degrees(arms) if len(arms) > 1 and error else seeds - 1
    return _student(replace(plain, standard_error=error, degrees=degrees, method=method))


def _welch_degrees(arms: Sequence[Floats]) -> float:
    """Satterthwaite's degrees of freedom; one arm has a spread."""
    errors = [arm.var(ddof=1) / len(arm) for arm in arms]
    return float(sum(errors) ** 2 / sum(error**2 / (len(arm) - 1) for error, arm in zip(errors, arms, strict=True)))


def _student(plain: Estimate) -> Estimate:
    """Add Student's t interval and the two-sided p-value against zero to a value with standard error and degrees of freedom.

    Numbers that are the same in every seed carry no spread to judge with: no bounds, so no word; p is 1 where they are zero, else NaN.
    """
    if plain.standard_error <= 1e-12 * max(abs(plain.value), 1e-3):
        return replace(plain, p_value=1.0 if plain.value == 0.0 else math.nan, method="no spread over seeds")
    # scipy.stats has the same functions, and takes half a second to load
    half = float(scipy.special.stdtrit(plain.degrees, 0.5 + plain.level / 2)) * plain.standard_error
    p = 2 * float(scipy.special.stdtr(plain.degrees, -abs(plain.value) / plain.standard_error))
    return replace(plain, low=plain.value - half, high=plain.value + half, p_value=p)


class Verdict(StrEnum):
    """Words for what an interval says of a difference; see :attr:`Estimate.verdict` for the rule."""

    HIGHER = "higher"
    LOWER = "lower"
    HIGHER_INSIDE = "higher, by less than the margin"
    LOWER_INSIDE = "lower, by less than the margin"
    EQUIVALENT = "equivalent within the margin"
    NOT_RESOLVED = "not resolved"


@dataclass(frozen=True)
class Estimate:
    """A value with its interval at ``level``; NaN bounds where the data cannot give one.

    ``p_value`` tests the value against zero (NaN for plain means). In a column of ``family`` comparisons ``level`` is that of the
    single interval, wide enough for all to hold together, and ``adjusted_p`` is the p-value of the column. ``margin`` is in the unit of
    the value. ``absent`` says why there is no value, where more is to be said than that data is missing.
    """

    value: float
    low: float = math.nan
    high: float = math.nan
    seeds: int = 0
    p_value: float = math.nan
    adjusted_p: float = math.nan
    standard_error: float = math.nan
    degrees: float = math.nan
    level: float = 0.95
    method: str = ""
    family: int = 1
    margin: float | None = None
    absent: str = ""

    @property
    def resolved(self) -> bool:
        """True where the interval excludes zero, and nothing else."""
        return self.low > 0.0 or self.high < 0.0

    @property
    def inside_margin(self) -> bool:
        """True where the whole interval lies strictly between minus and plus the margin."""
        return self.margin is not None and -self.margin < self.low and self.high < self.margin

    @property
    def verdict(self) -> Verdict:
        """Where the interval lies; one may exclude zero inside the margin: the difference is there, and too small to matter.

        Where every interval of a column covers its truth, every word of the column is true.
        """
        inside = self.inside_margin
        if self.low > 0.0:
            return Verdict.HIGHER_INSIDE if inside else Verdict.HIGHER
        if self.high < 0.0:
            return Verdict.LOWER_INSIDE if inside else Verdict.LOWER
        return Verdict.EQUIVALENT if inside else Verdict.NOT_RESOLVED

    def rescale(self, scale: float) -> Estimate:
        """The same estimate in another unit: stored values times ``scale`` are shown ones."""
        ends = {name: scale * getattr(self, name) for name in ("value", "low", "high", "standard_error")}
        return replace(self, **ends, margin=None if self.margin is None else scale * self.margin)

    def words(self, scale: float = 1.0, unit: str = "") -> str:
        """The verdict with its margin as shown, ``scale`` times the stored one: ``equivalent within 3 points``."""
        if self.margin is None:
            return self.verdict.value
        return self.verdict.value.replace("the margin", f"{scale * self.margin:g} {unit}".rstrip())


MISSING = Estimate(math.nan, method="no data")


Value = TypeVar("Value", float, NDArray[np.float64])


def replicate_of(seed: int, bases: int | None) -> int:
    """The base policy that a seed starts from, the seed itself where every seed has its own (``bases`` None)."""
    return seed if bases is None else seed % bases


def replicate_means(values: Mapping[int, Value], bases: int | None) -> dict[int, Value]:
    """The mean over the seeds of each replicate: two runs of one base policy tell what one does of others (docs/statistics.md)."""
    groups: dict[int, list[Value]] = {}
    for seed, value in values.items():
        groups.setdefault(replicate_of(seed, bases), []).append(value)
    return {replicate: sum(group[1:], group[0]) / len(group) for replicate, group in groups.items()}


def replicates(values: Mapping[int, float], bases: int | None) -> list[float]:
    """The numbers that intervals and spreads are taken over (see `replicate_means`)."""
    return list(replicate_means(values, bases).values())


def replicate_count(seeds: Iterable[int], bases: int | None) -> int:
    return len({replicate_of(seed, bases) for seed in seeds})


def pooled_spread(groups: Iterable[ArrayLike | Sequence[float]]) -> tuple[float, int]:
    """Root of the pooled variance within groups and how many groups it is of: those of two or more finite values; NaN and 0 if none."""
    arrays = (np.asarray(group, dtype=np.float64) for group in groups)
    samples = [values for values in arrays if len(values) > 1 and np.isfinite(values).all()]
    if not samples:
        return math.nan, 0
    return math.sqrt(np.average([v.var(ddof=1) for v in samples], weights=[len(v) - 1 for v in samples])), len(samples)


FAMILY_LEVEL = 0.95
ENOUGH = 8  # replicates below which a difference is a survey


def survey_text(replicates: Iterable[int], name: str = "seeds") -> str:
    """``4 seeds are a survey: ...`` where one of these differences has fewer replicates than are any evidence; empty where none has.

    One replicate gives no interval, and is another warning's.
    """
    fewest = min((count for count in replicates if count > 1), default=ENOUGH)
    reason = f"with fewer than {ENOUGH} one seed that collapses can turn a verdict (docs/statistics.md)"
    return f"{fewest} {name} are a survey: {reason}." if fewest < ENOUGH else ""


@dataclass(frozen=True)
class Paired:
    """One difference a replicate (a seed, or the mean over those of one base policy); ``seeds``: their number where it is another."""

    differences: Sequence[float]
    seeds: int | None = None


@dataclass(frozen=True)
class Independent:
    """Scores of two arms whose seeds have nothing in common; their numbers may differ."""

    a: Sequence[float]
    b: Sequence[float]
    seeds: int | None = None


Difference = Paired | Independent


def comparison_level(comparisons: int, family_level: float = FAMILY_LEVEL) -> float:
    """Level of each of ``comparisons`` intervals so that all hold together at ``family_level`` (Šidák 1967, JASA 62, 626)."""
    return float(family_level ** (1 / comparisons))


def judge(
    differences: Mapping[str, Difference], *, margin: float | None = None, columns: int = 1
) -> dict[str, Estimate]:
    """Estimates of all comparisons of a column, by name, with intervals that hold together at `FAMILY_LEVEL`.

    The family is all of them, those that have no value yet included. ``columns`` hold together, one for each metric of the experiment: each
    gets the same part of the error, whatever number of comparisons the others have.
    """
    family = columns * max(1, len(differences))
    return {name: judge_one(one, family=family, margin=margin) for name, one in differences.items()}


def judge_one(
    difference: Difference, *, family: int = 1, margin: float | None = None, level: float = FAMILY_LEVEL
) -> Estimate:
    """The estimate of one comparison out of ``family``, whose intervals hold together at ``level``."""
    single = comparison_level(family, level)
    if isinstance(difference, Paired):
        estimate = paired_difference(difference.differences, 0.0, single)
    else:
        estimate = welch_difference(difference.a, difference.b, single)
    seeds, p = difference.seeds, estimate.p_value
    adjusted_p = -math.expm1(family * math.log1p(-p)) if p < 1 else p
    seeds = estimate.seeds if seeds is None else seeds
    return replace(estimate, seeds=seeds, adjusted_p=adjusted_p, family=family, margin=margin)


class Finding(StrEnum):
    """Words for what an experiment says of a claim."""

    HOLDS = "holds here"
    HOLDS_INSIDE = "holds here, too small to matter"
    REVERSED = "reversed here"
    REVERSED_INSIDE = "reversed here, too small to matter"
    NOTHING = "no effect"
    OPEN = "not resolved"
    NOT_ENGAGED = "not engaged"


def is_settled(effect: Estimate, expects: str | None) -> bool:
    """True where difference and claim have their words: *lower* alone does not say whether it is lower by the margin or more."""
    return effect.verdict != Verdict.NOT_RESOLVED and (expects is None or finding(effect, expects) is not Finding.OPEN)


def finding(effect: Estimate, expects: str, hardly: bool = False) -> Finding:
    """The word for a claim that ``expects`` this sign of ``effect``; ``hardly``: its mechanism was hardly engaged.

    An effect that is there and smaller than the margin is too small to matter, whichever sign was predicted. ``not_lower`` holds where the
    whole interval lies above minus the margin (non-inferiority), and is reversed where all of it lies below; ``not_higher`` the other way
    round; ``equivalent`` where it lies within the margin, or all beyond it.
    An effect whose sign is known came from somewhere: only what shows nothing is not engaged.
    """
    if math.isnan(effect.low):
        return Finding.OPEN
    if hardly and not effect.resolved:
        return Finding.NOT_ENGAGED
    directed, inside = expects in ("higher", "lower"), effect.inside_margin
    edge = math.inf if effect.margin is None else effect.margin
    ends = [_depth(end, expects, edge) for end in (effect.low, effect.high)]
    if inside if expects == "equivalent" else min(ends) > 0:
        return Finding.HOLDS_INSIDE if directed and inside else Finding.HOLDS
    if effect.resolved and max(ends) < 0:
        return Finding.REVERSED_INSIDE if inside else Finding.REVERSED
    return Finding.NOTHING if directed and inside else Finding.OPEN


def _depth(value: float, expects: str, edge: float) -> float:
    """How far a value lies inside what a claim expects, in its unit; negative outside. ``edge``: the margin."""
    borders = {"higher": value, "lower": -value, "not_lower": value + edge, "not_higher": edge - value}
    return borders.get(expects, edge - abs(value))


POWER = 0.8


def power(difference: float, sd: float, seeds: int, *, paired: bool, alpha: float = 0.05) -> float:
    """P[|t| exceeds its critical value] at a true ``difference``; NaN where one is not known, or with fewer than two seeds."""
    if seeds < 2 or math.isnan(difference) or not math.isfinite(sd):
        return math.nan
    degrees, error = _design(sd, seeds, paired)
    if error == 0:
        return 1.0 if difference else alpha
    critical, shift = scipy.stats.t.isf(alpha / 2, degrees), abs(difference) / error
    # SciPy gives NaN where a probability is smaller than any number
    below, above = (np.nan_to_num(scipy.stats.nct.cdf(end, degrees, shift)) for end in (-critical, critical))
    return float(1 - above + below)


def half_width(sd: float, replicates: int, level: float = 0.95) -> float:
    """Half the width of a t interval of a mean of `replicates` values with standard deviation `sd`."""
    return float(scipy.stats.t.ppf(0.5 + level / 2, replicates - 1)) * sd / math.sqrt(replicates)


def minimum_detectable_difference(sd: float, seeds: int, *, paired: bool, alpha: float = 0.05) -> float:
    """Smallest true difference that is found with `POWER`; NaN with fewer than two seeds."""
    if seeds < 2 or not math.isfinite(sd):
        return math.nan
    if sd == 0:
        return 0.0
    degrees, error = _design(sd, seeds, paired)

    def excess(errors: float) -> float:
        return power(errors * error, sd, seeds, paired=paired, alpha=alpha) - POWER

    # far beyond the critical value the power is 1; the bracket holds for every alpha below the power
    return error * scipy.optimize.brentq(excess, 0.0, 2 * float(np.sum(scipy.stats.t.isf([alpha / 2, 0.001], degrees))))


def seeds_needed(difference: float, sd: float, *, paired: bool, alpha: float = 0.05) -> int | None:
    """Fewest seeds per arm that find ``difference`` with `POWER`; None if 1000 are too few or ``sd`` is not known."""
    return fewest(lambda n: power(difference, sd, n, paired=paired, alpha=alpha) >= POWER, range(2, 1001))


def fewest(enough: Callable[[int], bool], numbers: range) -> int | None:
    """The smallest of ascending numbers that is enough, as every larger one is; None where none is."""
    place = bisect.bisect_left(numbers, True, key=enough)
    return numbers[place] if place < len(numbers) else None


def _design(sd: float, seeds: int, paired: bool) -> tuple[int, float]:
    """Degrees of freedom and the standard error of a difference."""
    return (seeds - 1, sd / math.sqrt(seeds)) if paired else (2 * seeds - 2, sd * math.sqrt(2 / seeds))

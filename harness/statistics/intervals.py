"""Intervals and tests over training seeds, the unit of replication, and over the problems of one evaluation.

Scores are reduced to one number per seed first; intervals are Student's t over those numbers. Two estimands:
the *fixed benchmark* (problems fixed, seeds random; the default) and the *problem population* (both random,
:func:`two_way_difference`). With one seed nothing can be resolved, and every function says so with NaN.
`scipy.stats` has most of this; `scipy.special`, which it is made of, takes half a second less to load.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special
from scipy.special import nctdtr, stdtrit

Floats = NDArray[np.float64]


def mean_interval(scores_S: ArrayLike, level: float = 0.95) -> Estimate:
    """Mean over seeds with Student's t interval. One seed, or seeds that are all equal: the value alone."""
    scores = _finite(scores_S)
    if not len(scores):
        return MISSING
    if len(scores) == 1:
        return Estimate(float(scores[0]), seeds=1, level=level, method="single training seed")
    error = float(scores.std(ddof=1) / math.sqrt(len(scores)))
    return _t_estimate(float(scores.mean()), error, len(scores) - 1, len(scores), level, "t over seeds")


def t_band(values: Floats, level: float = 0.95, axis: int = -1) -> tuple[Floats, Floats]:
    """Means along an axis and the half widths of their t intervals; NaN values are left out, fewer than two give a half width of NaN."""
    count = np.isfinite(values).sum(axis=axis)
    known, enough = np.where(count > 0, count, np.nan), np.where(count > 1, count, np.nan)
    mean = np.nansum(values, axis=axis) / known
    squares = np.nansum((values - np.expand_dims(mean, axis)) ** 2, axis=axis)
    half = special.stdtrit(enough - 1, 0.5 + level / 2) * np.sqrt(squares / (enough - 1) / enough)
    return mean, half


def welch_band(a: Floats, b: Floats, level: float, axis: int = -1) -> tuple[Floats, Floats]:
    """Differences of means along an axis and the half widths of Welch's t intervals; all values are finite."""
    parts = np.stack([arm.var(axis=axis, ddof=1) / arm.shape[axis] for arm in (a, b)])
    degrees = _satterthwaite(parts, [arm.shape[axis] - 1 for arm in (a, b)])
    half = special.stdtrit(degrees, 0.5 + level / 2) * np.sqrt(parts.sum(axis=0))
    return a.mean(axis=axis) - b.mean(axis=axis), half


def paired_difference(a_S: ArrayLike, b_S: ArrayLike, level: float = 0.95) -> Estimate:
    """Mean of a - b over seeds run in both arms (same order), Student's t on the differences."""
    difference = np.asarray(a_S, dtype=np.float64) - np.asarray(b_S, dtype=np.float64)
    plain = mean_interval(difference, level)
    return _tested(plain, "paired t over seeds") if plain.seeds > 1 else plain


def welch_difference(a_S: ArrayLike, b_S: ArrayLike, level: float = 0.95) -> Estimate:
    """Mean of a minus mean of b for independent seeds: Welch's t, Satterthwaite degrees of freedom."""
    a, b = _finite(a_S), _finite(b_S)
    if not len(a) or not len(b):
        return MISSING
    value, seeds = float(a.mean() - b.mean()), min(len(a), len(b))
    if seeds < 2:
        return Estimate(value, seeds=seeds, level=level, method="single training seed")
    parts = np.array([a.var(ddof=1) / len(a), b.var(ddof=1) / len(b)])
    degrees = float(_satterthwaite(parts, [len(a) - 1, len(b) - 1]))
    plain = _t_estimate(value, math.sqrt(parts.sum()), degrees, seeds, level, "Welch t over seeds")
    return _tested(plain, plain.method)


def two_way_difference(a_SP: ArrayLike, b_SP: ArrayLike, *, paired: bool = True, level: float = 0.95) -> Estimate:
    """Difference for new seeds *and* new problems: V = V_seed + (V_problem - V_cell), a t quantile for each.

    Args:
        a_SP: scores per seed and problem; both arms share the problems (same order).
        b_SP: the other arm.
        paired: whether row s of both arms is the same seed; else the seeds are independent.
        level: confidence level.
    """
    a, b = np.asarray(a_SP, dtype=np.float64), np.asarray(b_SP, dtype=np.float64)
    groups = [a - b] if paired else [a, b]
    value, seeds = float(a.mean() - b.mean()), min(len(a), len(b))
    if seeds < 2:
        return Estimate(value, seeds=seeds, level=level, method="single training seed")
    problems = a.shape[1]
    seed_parts = np.array([g.mean(axis=1).var(ddof=1) / len(g) for g in groups])
    seed_degrees = float(_satterthwaite(seed_parts, [len(g) - 1 for g in groups]))
    problem_part = float((a.mean(axis=0) - b.mean(axis=0)).var(ddof=1) / problems)
    problem_part = max(0.0, problem_part - sum(_cell_variance(g) / g.size for g in groups))

    def half_width(alpha: float) -> float:
        # Each part with its own quantile. One blended number of degrees (Satterthwaite) lets three seeds that
        # happen to agree borrow the problems' degrees: 8-10 % false positives instead of 5.
        quantiles = -special.stdtrit([seed_degrees, problems - 1], alpha / 2)
        return math.sqrt(float(quantiles[0] ** 2 * seed_parts.sum() + quantiles[1] ** 2 * problem_part))

    half, error = half_width(1 - level), math.sqrt(float(seed_parts.sum()) + problem_part)
    method = "two-way t, seeds and problems"
    plain = Estimate(value, value - half, value + half, seeds, standard_error=error, degrees=seed_degrees, level=level)
    checked = _tested(plain, method)
    if math.isnan(checked.low) or error == 0:
        return checked
    return replace(checked, p_value=_p_value(half_width, abs(value)))


def problems_interval(score_P: ArrayLike, level: float = 0.95) -> tuple[float, float] | None:
    """The interval of a mean of per-problem scores in [0, 1]; None with fewer than two problems, or where all score the same share.

    It answers how much the mean would move with other problems like these: Student's t over scores that already contain the sampling
    noise (arXiv:2411.00640), cut to [0, 1]. Where every problem scores the same 0 or 1: Clopper-Pearson. Another training run is not
    covered: that takes training seeds.
    """
    scores = np.asarray(score_P, dtype=np.float64)
    if len(scores) < 2:
        return None
    mean = mean_interval(scores, level)
    if np.all(scores == scores[0]) and mean.value in (0.0, 1.0):
        return clopper_pearson(round(mean.value * len(scores)), len(scores), level)
    return None if math.isnan(mean.low) else (max(0.0, mean.low), min(1.0, mean.high))


def clopper_pearson(successes: int, trials: int, level: float = 0.95) -> tuple[float, float]:
    """The exact interval of a probability from ``successes`` out of ``trials``."""
    tail, failures = (1 - level) / 2, trials - successes
    low = float(special.betaincinv(successes, failures + 1, tail)) if successes else 0.0
    high = float(special.betaincinv(successes + 1, failures, 1 - tail)) if failures else 1.0
    return low, high


def _p_value(half_width: Callable[[float], float], size: float) -> float:
    """The alpha whose half width is ``size``, not below 1e-12; half widths fall with alpha and are 0 at 1."""
    low, high = 1e-12, 1.0
    if half_width(low) <= size:
        return low
    for _ in range(60):  # halvings, to the last bit
        middle = (low + high) / 2
        low, high = (middle, high) if half_width(middle) > size else (low, middle)
    return high


def _finite(scores: ArrayLike) -> Floats:
    values = np.asarray(scores, dtype=np.float64).ravel()
    return values[np.isfinite(values)]


def _t_estimate(value: float, error: float, degrees: float, seeds: int, level: float, method: str) -> Estimate:
    """The estimate with its interval; equal seeds have no spread to make one of."""
    plain = Estimate(value, seeds=seeds, standard_error=error, degrees=degrees, level=level, method=method)
    if _no_spread(plain):
        return replace(plain, method="no spread over seeds")
    half = float(special.stdtrit(degrees, 0.5 + level / 2)) * error
    return replace(plain, low=value - half, high=value + half)


def _no_spread(plain: Estimate) -> bool:
    return plain.standard_error <= 1e-12 * max(abs(plain.value), 1e-3)


def _tested(plain: Estimate, method: str) -> Estimate:
    """Add the two-sided p-value against zero.

    Differences that are the same number in every seed carry no spread to judge with (the seed changes nothing,
    or coarse scores tie): NaN bounds, so neither resolved nor equivalent; p is 1 where they are zero, else NaN.
    """
    if _no_spread(plain):
        p = 1.0 if plain.value == 0.0 else math.nan
        return replace(plain, low=math.nan, high=math.nan, p_value=p, method="no spread over seeds")
    p = 2 * float(special.stdtr(plain.degrees, -abs(plain.value) / plain.standard_error))
    return replace(plain, p_value=p, method=method)


def _satterthwaite(parts: Floats, degrees: ArrayLike) -> Floats:
    """Degrees of freedom of sums of variances along the first axis; the fewest where all are zero."""
    given = np.asarray(degrees, dtype=np.float64).reshape(-1, *[1] * (parts.ndim - 1))
    total, squares = parts.sum(axis=0), (parts**2 / given).sum(axis=0)
    return np.where(total > 0, total**2 / np.where(total > 0, squares, 1.0), given.min(axis=0))


def _cell_variance(values_SP: Floats) -> float:
    """Residual mean square of the additive seed + problem table."""
    residual = (
        values_SP - values_SP.mean(axis=1, keepdims=True) - values_SP.mean(axis=0, keepdims=True) + values_SP.mean()
    )
    return float((residual**2).sum() / ((values_SP.shape[0] - 1) * (values_SP.shape[1] - 1)))


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

    ``p_value`` tests the value against zero (NaN for plain means). In a column of ``family`` comparisons ``level``
    is that of the single interval, wide enough for all of them to hold together, and ``adjusted_p`` is the p-value
    of the column. ``margin`` is in the unit of the value. ``standard_error`` and ``degrees`` are kept for power
    statements. ``absent`` says why there is no value, where more is to be said than that data is missing.
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
        """The word of the interval: where it lies relative to zero and to the margin.

        Above zero: higher; below: lower; with zero in it but inside the margin: equivalent; else not resolved.
        A difference may be both resolved and inside the margin: it is there, and too small to matter. Where
        every interval of a column covers its truth, every word of the column is true.
        """
        inside = self.inside_margin
        if self.low > 0.0:
            return Verdict.HIGHER_INSIDE if inside else Verdict.HIGHER
        if self.high < 0.0:
            return Verdict.LOWER_INSIDE if inside else Verdict.LOWER
        return Verdict.EQUIVALENT if inside else Verdict.NOT_RESOLVED

    def scaled(self, scale: float) -> Estimate:
        """The same estimate in another unit: stored values times ``scale`` are shown ones."""
        ends = {name: scale * getattr(self, name) for name in ("value", "low", "high", "standard_error")}
        return replace(self, **ends, margin=None if self.margin is None else scale * self.margin)

    def words(self, scale: float = 1.0, unit: str = "") -> str:
        """The verdict with its margin as shown: ``equivalent within 3 points``.

        Args:
            scale: what values are multiplied by to be shown.
            unit: of shown values; left out in cells, whose header has it.
        """
        if self.margin is None:
            return self.verdict.value
        return self.verdict.value.replace("the margin", f"{scale * self.margin:g} {unit}".rstrip())


MISSING = Estimate(math.nan, method="no data")


Value = TypeVar("Value", float, NDArray[np.float64])


def replicate_of(seed: int, bases: int | None) -> int:
    """The base policy that a seed starts from, the seed itself where every seed has its own (``bases`` None)."""
    return seed if bases is None else seed % bases


def replicate_means(values: Mapping[int, Value], bases: int | None) -> dict[int, Value]:
    """Replicate to the mean over its seeds, of a value or an array a seed.

    Two runs from one base policy tell the same about other base policies as one does (docs/statistics.md).
    """
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
    """Root of the pooled variance within groups, and how many groups it comes from: those of two or more finite values.

    NaN and 0 where there is none.
    """
    arrays = [np.asarray(group, dtype=np.float64) for group in groups]
    filled = [values for values in arrays if len(values) > 1 and np.isfinite(values).all()]
    if not filled:
        return math.nan, 0
    squares = sum(float(((values - values.mean()) ** 2).sum()) for values in filled)
    return math.sqrt(squares / sum(len(values) - 1 for values in filled)), len(filled)


FAMILY_LEVEL = 0.95


@dataclass(frozen=True)
class Paired:
    """One difference a replicate, in any order: two arms that share prompts and sampling seeds, or a contrast of several.

    A replicate is a seed, or the mean over the seeds of one base policy; ``seeds`` is their number where it is another.
    """

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
    differences: Mapping[str, Difference],
    *,
    margin: float | None = None,
    level: float = FAMILY_LEVEL,
    columns: int = 1,
) -> dict[str, Estimate]:
    """Estimates of all comparisons of a column, with intervals that hold together at ``level``.

    The family is the comparisons that at least two seeds test; the others have a value at most and no interval.
    A family of one has the ordinary t interval.

    Args:
        differences: name of a comparison to its per-seed numbers, in the unit of ``margin``.
        margin: differences below it do not matter; None for no margin.
        level: that of the family. For one look of a sequential design: 1 minus the look's nominal alpha.
        columns: that hold together with this one, one for each metric of the experiment. Each gets the same part of the
            error, so all hold together whatever number of comparisons the others have.
    """
    family = columns * max(1, sum(_testable(difference) for difference in differences.values()))
    return {
        name: judge_one(difference, family=family, margin=margin, level=level)
        for name, difference in differences.items()
    }


def judge_one(
    difference: Difference, *, family: int = 1, margin: float | None = None, level: float = FAMILY_LEVEL
) -> Estimate:
    """The estimate of one comparison out of ``family``, whose intervals hold together at ``level``."""
    single = comparison_level(family, level)
    if isinstance(difference, Paired):
        estimate = paired_difference(difference.differences, [0.0] * len(difference.differences), single)
    else:
        estimate = welch_difference(difference.a, difference.b, single)
    if difference.seeds is not None:
        estimate = replace(estimate, seeds=difference.seeds)
    adjusted = -math.expm1(family * math.log1p(-estimate.p_value)) if estimate.p_value < 1 else estimate.p_value
    return replace(estimate, adjusted_p=adjusted, family=family, margin=margin)


def _testable(difference: Difference) -> bool:
    groups = (difference.differences,) if isinstance(difference, Paired) else (difference.a, difference.b)
    return all(sum(map(math.isfinite, group)) > 1 for group in groups)


class Finding(StrEnum):
    """Words for what an experiment says of a claim."""

    HOLDS = "holds here"
    REVERSED = "reversed here"
    NOTHING = "equivalent to nothing"
    OPEN = "open"
    NOT_ENGAGED = "not engaged"


DECIDED = (Finding.HOLDS, Finding.REVERSED, Finding.NOTHING)
"""The words that a second look can repeat."""


class Second(StrEnum):
    """Words for what a second look says of the first one's."""

    REPLICATED = "replicated"
    FIRST_ONLY = "first look only"
    CONTRADICTED = "contradicted"


def second_look(first: Finding, second: Finding) -> Second:
    """The word for two looks: the same word again, the opposite one, or neither."""
    if first is second:
        return Second.REPLICATED
    opposite = {first, second} == {Finding.HOLDS, Finding.REVERSED}
    return Second.CONTRADICTED if opposite else Second.FIRST_ONLY


def settled(effect: Estimate, expects: str | None) -> bool:
    """True where difference and claim have their words: *lower* alone does not say whether it is lower by the margin or more."""
    known = effect.verdict != Verdict.NOT_RESOLVED
    return known and (expects is None or finding(effect, expects) is not Finding.OPEN)


def finding(effect: Estimate, expects: str, hardly: bool = False) -> Finding:
    """The word for a claim that ``expects`` this sign of ``effect``; ``hardly``: its mechanism was hardly engaged.

    ``not_lower`` holds where the whole interval lies above minus the margin (non-inferiority), and is reversed where all of it lies below;
    ``not_higher`` the other way round; ``equivalent`` where it lies within the margin, or all beyond it.
    An effect whose sign is known came from somewhere, however little was measured of it: only what shows nothing is not engaged.
    """
    margin = math.inf if effect.margin is None else effect.margin
    if math.isnan(effect.low):
        return Finding.OPEN
    if hardly and not effect.resolved:
        return Finding.NOT_ENGAGED
    upward = expects in ("higher", "not_lower", "equivalent")
    low, high = (effect.low, effect.high) if upward else (-effect.high, -effect.low)
    if expects in ("higher", "lower"):
        if low > 0 or high < 0:
            return Finding.HOLDS if low > 0 else Finding.REVERSED
        return Finding.NOTHING if effect.inside_margin else Finding.OPEN
    if expects == "equivalent":
        beyond = low > margin or high < -margin
        return Finding.HOLDS if effect.inside_margin else Finding.REVERSED if beyond else Finding.OPEN
    return Finding.HOLDS if low > -margin else Finding.REVERSED if high < -margin else Finding.OPEN


BOUNDED = ("entropy", "length")


@dataclass
class Collapse:
    """What a collapsed run is, declared with the experiment; any one of these is enough.

    Attributes:
        accuracy: its last evaluated accuracy lies below this share of its own best one, before RL included.
        entropy: lowest and highest entropy of its last evaluation, nats a token; null: any.
        length: lowest and highest mean response length of its last evaluation, tokens; null: any.
    """

    accuracy: float = 0.5
    entropy: list[float] | None = None
    length: list[float] | None = None

    @property
    def bounds(self) -> dict[str, tuple[float, float]]:
        declared = {name: getattr(self, name) for name in BOUNDED}
        return {name: (ends[0], ends[1]) for name, ends in declared.items() if ends is not None}

    def met(self, accuracies: Sequence[float], last: Mapping[str, float]) -> bool:
        """True of a run with these accuracies, in the order of its evaluations, and these bounded metrics at the last (NaN: unknown)."""
        if len(accuracies) > 1 and accuracies[-1] < self.accuracy * max(accuracies):
            return True
        return any(last[name] < low or last[name] > high for name, (low, high) in self.bounds.items())

    @property
    def text(self) -> str:
        """The definition in words: what a run's last evaluation does."""
        parts = [f"accuracy below {_share(self.accuracy)} of the run's own best one"]
        units = {"entropy": "nats a token", "length": "tokens"}
        parts += [f"{name} outside {low:g} to {high:g} {units[name]}" for name, (low, high) in self.bounds.items()]
        return ", or ".join(parts)


def _share(value: float) -> str:
    return "half" if value == 0.5 else f"{100 * value:g} %"


def power(difference: float, sd: float, seeds: int, *, paired: bool, alpha: float = 0.05) -> float:
    """P[|t| exceeds its critical value] at a true ``difference``; NaN with fewer than two seeds, where no test exists."""
    if seeds < 2:
        return math.nan
    degrees, error = _design(sd, seeds, paired)
    critical = float(stdtrit(degrees, 1 - alpha / 2))
    if error == 0:
        return 1.0 if difference else alpha
    above, below = (_distribution(end, degrees, abs(difference) / error) for end in (critical, -critical))
    return 1 - above + below


def minimum_detectable_difference(
    sd: float, seeds: int, *, paired: bool, target_power: float = 0.8, alpha: float = 0.05
) -> float:
    """Smallest true difference that is found with ``target_power``; NaN with fewer than two seeds."""
    if seeds < 2 or not math.isfinite(sd):
        return math.nan
    if sd == 0:
        return 0.0
    degrees, error = _design(sd, seeds, paired)
    # far beyond the critical value the power is 1; the bracket holds for every alpha and power below that
    low, high = 0.0, 2 * error * float(stdtrit(degrees, [1 - alpha / 2, 0.999]).sum())
    for _ in range(40):  # halving: `scipy.optimize` takes a quarter of a second to load
        middle = (low + high) / 2
        enough = power(middle, sd, seeds, paired=paired, alpha=alpha) >= target_power
        low, high = (low, middle) if enough else (middle, high)
    return high


def seeds_needed(
    difference: float,
    sd: float,
    *,
    paired: bool,
    target_power: float = 0.8,
    alpha: float = 0.05,
    limit: int = 1000,
) -> int | None:
    """Fewest seeds per arm that find ``difference`` with ``target_power``; None if ``limit`` are too few or ``sd`` is not known."""
    for seeds in range(2, limit + 1) if math.isfinite(sd) else ():
        if power(difference, sd, seeds, paired=paired, alpha=alpha) >= target_power:
            return seeds
    return None


def _design(sd: float, seeds: int, paired: bool) -> tuple[float, float]:
    if paired:
        return float(seeds - 1), sd / math.sqrt(seeds)
    return float(2 * seeds - 2), sd * math.sqrt(2 / seeds)


def _distribution(value: float, degrees: float, shift: float) -> float:
    """P[t <= value] of the noncentral t; SciPy gives NaN where it is smaller than any number."""
    probability = float(nctdtr(degrees, shift, value))
    return 0.0 if math.isnan(probability) else probability

"""Metrics: their names, units and better direction, and the one reducer of graded samples to them. One number a training seed.

A name may carry a parameter behind ``@`` (``pass@8``), or be ``training/`` and a column of the step metrics.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache, cached_property

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray

HIGHER, LOWER = "higher", "lower"
TRAINING = "training"
POINTS = "points"


class UnknownMetric(ValueError):
    """A name that is no metric, or a parameter that cannot be; the message says what can."""


@dataclass(frozen=True)
class Metric:
    """One metric, one number a seed.

    `name` as declared (``pass@8``), `title` and `unit` as printed; ``points`` is the unit of a fraction of 1 shown in per cent.
    A stored value times `scale` is shown with `digits` behind the point. `better`: ``higher``, ``lower`` or empty. `kind` is the name
    without `parameter`: k of ``pass@k``, or the column of ``training/...``.
    """

    name: str
    title: str
    unit: str
    scale: float = 1.0
    digits: int = 1
    better: str = ""
    kind: str = ""
    parameter: int | str | None = None

    @property
    def percent(self) -> str:
        """`` %`` behind the title of what is shown as a percentage, else nothing."""
        return " %" if self.unit == POINTS else ""

    @property
    def within(self) -> tuple[float, float]:
        """The least and the most that a stored value can be."""
        return (0.0, 1.0) if self.percent else (-math.inf, math.inf)

    def by_guessing(self, chances: Sequence[Sequence[float]] | None) -> float | None:
        """The value that blind answers earn (`harness.problems.problem.Chances`); None where the metric or the problems tell none.

        Of Pass@k the mean of 1 − (1 − chance)^k; of avg and Maj@k the mean chance itself, since votes of blind answers are as blind.
        """
        if chances is None or self.kind not in ("avg", "pass", "maj"):
            return None
        tries = int(self.parameter or 1) if self.kind == "pass" else 1
        return math.fsum(share * (1 - (1 - chance) ** tries) for chance, share in chances)

    @property
    def header(self) -> str:
        """Title and unit of a value: ``Pass@8 %``, ``length of wrong answers, tokens``."""
        return f"{self.title}{self.percent or f', {self.unit}'}"

    @property
    def direction(self) -> str:
        """``higher is better``, ``lower is better``, or empty."""
        return f"{self.better} is better" if self.better else ""

    @property
    def file_name(self) -> str:
        """The name as part of a file's name: ``pass@8`` is ``pass_8``."""
        return re.sub(r"[@/ ]", "_", self.name)


PLAIN: Mapping[str, Metric] = {
    metric.name: metric
    for metric in (
        Metric("avg", "avg@n", POINTS, 100.0, 1, HIGHER, "avg"),
        Metric("length", "length of answers", "tokens", digits=2, kind="length"),
        Metric("length_right", "length of right answers", "tokens", digits=2, kind="length_right"),
        Metric("length_wrong", "length of wrong answers", "tokens", digits=2, kind="length_wrong"),
        Metric("length_truncated", "length of truncated answers", "tokens", digits=2, kind="length_truncated"),
        Metric("truncated", "truncated answers", POINTS, 100.0, 1, LOWER, "truncated"),
        Metric("no_answer", "responses without an answer", POINTS, 100.0, 1, LOWER, "no_answer"),
        Metric("entropy", "entropy per token", "nats", 1.0, 3, "", "entropy"),
        Metric("dead_groups", "dead groups in training", POINTS, 100.0, 1, "", "dead_groups"),
        Metric("area", "area under the accuracy curve over steps", POINTS, 100.0, 1, HIGHER, "area"),
        Metric("generated_tokens", "generated tokens of the run", "k tokens", 1e-3, 1, "", "generated_tokens"),
        Metric("seconds", "wall time of the run", "s", 1.0, 1, LOWER, "seconds"),
    )
}
PATTERNS = ("pass@K", "maj@K", f"{TRAINING}/COLUMN")


def metric(name: str) -> Metric:
    """The metric of a name. Raises `UnknownMetric` that names the nearest one or all."""
    if name in PLAIN:
        return PLAIN[name]
    kind, mark, text = name.partition("@")
    if mark and kind in ("pass", "maj"):
        return _subset_metric(kind, text)
    if name.startswith(f"{TRAINING}/") and len(name) > len(TRAINING) + 1:
        return _training_metric(name.removeprefix(f"{TRAINING}/"))
    close = difflib.get_close_matches(name, [*PLAIN, *PATTERNS], n=1, cutoff=0.6)
    hint = f"did you mean {close[0]!r}?" if close else f"there are: {', '.join([*PLAIN, *PATTERNS])}"
    raise UnknownMetric(f"there is no metric {name!r}; {hint}")


def _subset_metric(kind: str, text: str) -> Metric:
    """Pass@k and Maj@k."""
    if re.fullmatch(r"[1-9]\d*", text) is None:
        raise UnknownMetric(f"{kind}@{text}: k must be a whole number from 1, such as {kind}@8")
    return Metric(f"{kind}@{text}", f"{kind.capitalize()}@{text}", POINTS, 100.0, 1, HIGHER, kind, int(text))


def _training_metric(column: str) -> Metric:
    """The mean of a column of the step metrics over the steps up to the checkpoint; its unit is in its name."""
    unit, scale, digits = next((unit for part, unit in _UNITS.items() if part in column.split("_")), ("units", 1.0, 4))
    return Metric(
        f"{TRAINING}/{column}", f"{column}, mean over training", unit, scale, digits, kind=TRAINING, parameter=column
    )


_UNITS = {
    "fraction": (POINTS, 100.0, 2),
    "accuracy": (POINTS, 100.0, 1),
    "nats": ("nats", 1.0, 3),
    "seconds": ("s", 1.0, 3),
    "tokens": ("tokens", 1.0, 1),
    "groups": ("groups", 1.0, 1),
}


Ints = NDArray[np.int64]
Complexes = NDArray[np.complex128]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Codes = NDArray[np.int8]
Length = dict[str, float | int | None]

RULES = {
    "denominator": "every problem has n samples; lost samples count as wrong and without an answer",
    "maj@k": "mean over k-subsets; equivalence classes; uniform ties; abstentions take a place, never win",
    "pass@k": "unbiased, 1 - C(n-c,k)/C(n,k)",
    "truncated": "finish reason is the token cap, whatever the length",
}
NO_VERDICT = -1  # of the second grader
PARTS = ("both", "only_first", "only_second")


@dataclass(frozen=True)
class Samples:
    """R graded samples of P problems as arrays.

    ``problem_R`` 0 .. P-1; ``class_R`` answer class, ``-1`` for none; ``lost_R`` samples that an engine
    failed to return (they are rows, wrong, without an answer); ``verdict_R`` indexes ``verdict_names``.
    """

    problem_ids: tuple[str, ...]
    verdict_names: tuple[str, ...]
    problem_R: Ints
    right_R: Bools
    class_R: Ints
    tokens_R: Ints
    truncated_R: Bools
    lost_R: Bools
    verdict_R: Ints

    def __post_init__(self) -> None:
        if (self.right_R & self.lost_R).any():
            raise ValueError("a lost sample is marked right: finish_reason and correct contradict each other")

    @property
    def problems(self) -> int:
        """Number of problems, those without a sample included."""
        return len(self.problem_ids)

    @cached_property
    def samples_P(self) -> Ints:
        """Samples of each problem."""
        return np.bincount(self.problem_R, minlength=self.problems)

    @property
    def n(self) -> int:
        """Samples of the problem that has the most."""
        return int(self.samples_P.max(initial=0))

    def take(self, rows: Ints) -> Samples:
        """Return some of the samples, of the same problems."""
        arrays = {name: values[rows] for name, values in vars(self).items() if name.endswith("_R")}
        return Samples(self.problem_ids, self.verdict_names, **arrays)


@dataclass(frozen=True)
class Reduction:
    """Every metric of the samples of one policy at one cap, `n` samples a problem.

    `scores`: metric such as ``pass@8`` to its value of every problem, [P]. `shares` are NaN over nothing; ``accuracy_finished`` is of the
    responses that were not cut. `lengths`: response tokens by outcome, without lost ones.
    """

    n: int
    scores: dict[str, Floats]
    shares: dict[str, float]
    lost_samples: int
    verdicts: dict[str, int]
    lengths: dict[str, Length]

    @property
    def avg_P(self) -> Floats:
        """avg@n of every problem."""
        return self.scores[f"avg@{self.n}"]

    @property
    def means(self) -> dict[str, float]:
        """Mean over problems of every metric."""
        return {name: float(values.mean()) for name, values in self.scores.items()}


def reduce_samples(samples: Samples, ks: Sequence[int]) -> Reduction:
    """Reduce the samples of one policy at one cap, k of Pass@k and Maj@k in 1 .. n. Raises `UnevenSamples`."""
    n = samples.n
    # Dividing by n would understate the score of a problem that has fewer.
    if len(odd := np.flatnonzero(samples.samples_P != n)):
        first = f"problem {odd[0]} has {samples.samples_P[odd[0]]}"
        raise UnevenSamples(f"{len(odd)} of {samples.problems} problems do not have n={n} samples (first: {first})")
    right_P = np.bincount(samples.problem_R[samples.right_R], minlength=samples.problems)
    votes = count_votes(samples.problem_R, samples.class_R, samples.right_R, problems=samples.problems, n=n)
    majority = majority_at_k(votes, ks)
    scores = {f"avg@{n}": right_P / n}
    for k in ks:
        scores[f"pass@{k}"] = pass_at_k(right_P, n, k)
        scores[f"maj@{k}"] = majority[k]
    counts = np.bincount(samples.verdict_R, minlength=len(samples.verdict_names)).tolist()
    present_R, right_R = ~samples.lost_R, samples.right_R
    groups = {"all": present_R, "right": right_R, "wrong": present_R & ~right_R, "truncated": samples.truncated_R}
    return Reduction(
        n=n,
        scores=scores,
        shares={
            "truncated_fraction": _mean(samples.truncated_R),
            "truncated_right_fraction": _mean(samples.truncated_R & samples.right_R),
            "accuracy_finished": _mean(right_R[present_R & ~samples.truncated_R]),
            "no_answer_fraction": _mean(samples.class_R == NO_ANSWER),
        },
        lost_samples=int(samples.lost_R.sum()),
        verdicts=dict(zip(samples.verdict_names, counts, strict=True)),
        lengths={name: _length(samples.tokens_R[mask_R]) for name, mask_R in groups.items()},
    )


def default_ks(n: int) -> list[int]:
    """Return 1, 2, 4, ... up to n, and n itself."""
    return sorted({2**i for i in range(n.bit_length()) if 2**i <= n} | {n}) if n else []


def second_codes(verdicts: Iterable[bool | None]) -> Codes:
    """Return the second grader's verdicts as 1 right, 0 wrong, -1 none."""
    return np.array([NO_VERDICT if verdict is None else int(verdict) for verdict in verdicts], dtype=np.int8)


def grader_shares(first_R: Bools, second_R: Codes) -> dict[str, float]:
    """Return the shares of `PARTS` among the samples that the second grader has a verdict on; NaN without any."""
    right_R, wrong_R = second_R == 1, second_R == 0
    verdict_count = int(right_R.sum() + wrong_R.sum())
    parts = {"both": first_R & right_R, "only_first": first_R & wrong_R, "only_second": ~first_R & right_R}
    return {name: float(mask_R.sum() / verdict_count) if verdict_count else np.nan for name, mask_R in parts.items()}


def nothing_to_learn(right: float | None, where: str) -> str:
    """Say what to do where a policy answers nothing or everything right `where` it was asked; empty in between."""
    if right not in (0.0, 1.0):
        return ""
    how, remedy = ("no answer", "easier") if right == 0 else ("every answer", "harder")
    advice = f"use {remedy} problems, or look at samples for a form of the answer that the verifier does not read"
    return f"{how} {where} is right, so there is nothing to learn from rewards; {advice}"


def _length(tokens_R: Ints) -> Length:
    if not len(tokens_R):
        return {"count": 0, "mean": None, "p50": None, "p95": None}
    p50, p95 = np.quantile(tokens_R, [0.5, 0.95]).tolist()
    return {"count": len(tokens_R), "mean": float(tokens_R.mean()), "p50": p50, "p95": p95}


def _mean(values: Bools) -> float:
    return float(values.mean()) if len(values) else np.nan


class UnevenSamples(ValueError):
    """Some problems do not have the n samples that the metric divides by."""


def pass_at_k(right_P: ArrayLike, n: int, k: int) -> Floats:
    """Pass@k = 1 - C(n-c, k) / C(n, k): P[at least one of a random k-subset is right]."""
    right = np.asarray(right_P, dtype=np.int64)
    if not 1 <= k <= n:
        raise ValueError(f"k={k} needs 1 <= k <= n, but a problem has n={n} samples; sample more or drop k")
    counts, inverse = np.unique(right, return_inverse=True)
    return np.array([_pass_of(int(count), n, k) for count in counts], dtype=np.float64)[inverse]


@cache
def _pass_of(right: int, n: int, k: int) -> float:
    return float(1 - Fraction(math.comb(n - right, k), math.comb(n, k)))


Equivalence = Callable[[Sequence[tuple[str, str]]], Sequence[bool]]  # of pairs of answers
Keys = Callable[[str], Collection[int]]  # of an answer: equal ones share a key, or one has none

NO_ANSWER = -1
_BLOCK_POWERS = 1_000_000  # numbers at a time
_BLOCK_ROWS = 1024  # patterns per pass: keeps the [rows, points] products inside the cache


def representatives(groups: Sequence[Sequence[str]], equivalent: Equivalence, keys: Keys) -> list[list[str]]:
    """Return for each answer of each problem the first answer of that problem that equals it.

    Equality need not be transitive: an answer joins the first class whose first member equals it. The verifier gets all comparisons at
    once, those of answers that share a key or of which one has none: time grows with the answers and not with their square.
    """
    problems = [_comparisons(answers, keys) for answers in groups]
    pairs = [(first, answer) for problem in problems for answer, earlier in problem.items() for first in earlier]
    verdicts = iter(equivalent(pairs))
    result = []
    for answers, problem in zip(groups, problems, strict=True):
        first_of: dict[str, str] = {}
        for answer, earlier in problem.items():
            equal = [first for first in earlier if next(verdicts)]
            first_of[answer] = next((first for first in equal if first_of[first] == first), answer)
        result.append([first_of[answer] for answer in answers])
    return result


def _comparisons(answers: Sequence[str], keys: Keys) -> dict[str, list[str]]:
    """Return for each distinct answer of a problem those before it that may equal it, in order."""
    places: dict[int | None, list[int]] = {}
    earlier: dict[str, list[str]] = {}
    for place, answer in enumerate(distinct := list(dict.fromkeys(answers))):
        own = keys(answer)
        pool = {other for key in (*own, None) for other in places.get(key, ())} if own else range(place)
        earlier[answer] = [distinct[other] for other in sorted(pool)]
        for key in own or (None,):
            places.setdefault(key, []).append(place)
    return earlier


@dataclass(frozen=True)
class Votes:
    """Class sizes of P problems with n samples each, flat over the C (problem, class) pairs.

    ``problem_C`` is sorted; samples in no class are abstentions. A class whose members carry both verdicts counts as right: one accepting
    verdict of its canonical answer.
    """

    problems: int
    n: int
    problem_C: Ints
    size_C: Ints
    right_C: Bools


def count_votes(problem_R: Ints, class_R: Ints, right_R: Bools, *, problems: int, n: int) -> Votes:
    """Count the answer classes of R samples; class ``-1`` is no answer, and ids are distinct within a problem only."""
    voting = class_R >= 0
    span = int(class_R.max(initial=0)) + 1
    key_V = problem_R[voting] * span + class_R[voting]
    keys_C, inverse_V, size_C = np.unique(key_V, return_inverse=True, return_counts=True)
    rights_C = np.bincount(inverse_V[right_R[voting]], minlength=len(keys_C))
    return Votes(problems, n, keys_C // span, size_C.astype(np.int64), rights_C > 0)


def majority_at_k(votes: Votes, ks: Sequence[int]) -> dict[int, Floats]:
    """Maj@k of every problem for each k in 1 .. n: P[the winner of a uniform k-subset is a right class], exact within 1e-12."""
    for k in ks:
        if not 1 <= k <= votes.n:
            raise ValueError(f"maj@{k} needs 1 <= k <= n={votes.n} samples; sample more or drop k={k}")
    own_T, others_TR, problem_T = _targets(votes)
    if all(k == votes.n for k in ks):  # one subset: nothing to share between equal patterns
        win_T = _win_probability(own_T, others_TR, votes.n, votes.n)
        return {k: np.bincount(problem_T, weights=win_T, minlength=votes.problems).clip(0.0, 1.0) for k in ks}
    patterns, inverse_T = np.unique(np.column_stack([own_T, others_TR]), axis=0, return_inverse=True)
    order = np.argsort(-patterns[:, 0], kind="stable")
    result: dict[int, Floats] = {}
    for k in ks:
        win_U = np.empty(len(patterns))
        for start in range(0, len(order), _BLOCK_ROWS):
            block = order[start : start + _BLOCK_ROWS]
            win_U[block] = _win_probability(patterns[block, 0], patterns[block, 1:], votes.n, k)
        right_P = np.bincount(problem_T, weights=win_U[inverse_T.ravel()], minlength=votes.problems)
        result[k] = np.clip(right_P, 0.0, 1.0)
    return result


def _targets(votes: Votes) -> tuple[Ints, Ints, Ints]:
    """One row per right class: its size, the other classes of its problem in falling order, its problem."""
    order = np.lexsort((-votes.size_C, votes.problem_C))
    problem_C, size_C, right_C = votes.problem_C[order], votes.size_C[order], votes.right_C[order]
    classes_P = np.bincount(problem_C, minlength=votes.problems)
    first_P = np.cumsum(classes_P) - classes_P
    column_C = np.arange(len(problem_C)) - first_P[problem_C]
    sizes_PR = np.zeros((votes.problems, int(classes_P.max(initial=0))), dtype=np.int64)
    sizes_PR[problem_C, column_C] = size_C
    problem_T = problem_C[right_C]
    others_TR = sizes_PR[problem_T]
    others_TR[np.arange(len(problem_T)), column_C[right_C]] = 0
    others_TR = -np.sort(-others_TR, axis=1)
    return size_C[right_C], others_TR, problem_T


def _integer_powers(base_BL: Complexes, counts_C: Ints) -> Complexes:
    """Base ** counts for whole counts, [C, B, L], by squaring: few products, so few roundings."""
    result_CBL = np.ones((len(counts_C), *base_BL.shape), dtype=np.complex128)
    while counts_C.any():
        odd = counts_C % 2 == 1
        result_CBL[odd] *= base_BL
        base_BL, counts_C = base_BL * base_BL, counts_C // 2
    return result_CBL


_legendre = cache(np.polynomial.legendre.leggauss)


def _win_probability(own_U: Ints, others_UR: Ints, n: int, k: int) -> Floats:
    """P[the class of size own wins a k-subset] for U patterns; ``own_U`` and the rows of others fall.

    A uniform k-subset is Bernoulli(k/n) sampling of every item given that k were drawn. Sum over the winning
    count t of own: every other class draws < t (factor 1) or = t (a tie, factor u); 1/(ties + 1) is the
    integral of u**ties over [0, 1], exact by Gauss-Legendre. The coefficient of x**k of the product of the
    generating functions is read off at roots of unity: all factors are at most 1 in modulus and P[k drawn] is
    of order 1/sqrt(k), so nothing cancels. Classes smaller than t and abstentions share one closed form; classes
    of one size have one factor, so that time grows with the distinct sizes and not with the classes.
    """
    if k == n:  # one subset: decided by the sizes themselves
        ties_U = (others_UR == own_U[:, None]).sum(axis=1)
        return np.where((others_UR > own_U[:, None]).any(axis=1), 0.0, 1.0 / (1.0 + ties_U))
    p = k / n
    sizes_D = np.unique(np.concatenate([own_U, others_UR.ravel(), [n]]))
    classes_UD = np.stack([(others_UR == size).sum(axis=1) for size in sizes_D], axis=1)
    counts_C, power_UD = np.unique(classes_UD, return_inverse=True)
    power_UD = power_UD.reshape(classes_UD.shape)  # NumPy 1 flattens it
    own_D = np.searchsorted(sizes_D, own_U)
    pmf: Floats = np.asarray(scipy.stats.binom.pmf(np.arange(n + 1), sizes_D[:, None], p))
    points = max(k, n - k) + 1  # no alias of x**k within degree n
    index_L = np.arange(points // 2 + 1)  # the other half is the complex conjugate
    circle = np.exp(-2j * np.pi * np.arange(points) / points)
    mirror_L = np.where((index_L == 0) | (2 * index_L == points), 1.0, 2.0)
    read_L = mirror_L * circle[-k * index_L % points] / points
    free_L = 1.0 - p + p * circle[index_L]
    below_DL = np.zeros((len(sizes_D), len(index_L)), dtype=np.complex128)
    win_U = np.zeros(len(own_U))
    for t in range(1, min(k, int(own_U.max(initial=0))) + 1):
        below_DL += pmf[:, t - 1, None] * circle[(t - 1) * index_L % points]
        equal_DL = pmf[:, t, None] * circle[t * index_L % points]
        rows = int(np.searchsorted(-own_U, -t, side="right"))
        big = np.flatnonzero(sizes_D >= t)
        rivals_UB = classes_UD[:rows, big]
        small = n - own_U[:rows] - rivals_UB @ sizes_D[big]
        start_RL = (pmf[own_D[:rows], t, None] * (circle[t * index_L % points] * read_L)) * free_L ** small[:, None]
        ties = min(k // t - 1, int(rivals_UB.sum(axis=1).max(initial=0)))
        big = big[rivals_UB.any(axis=0)]
        parts = np.array_split(big, 1 + len(big) * len(counts_C) * len(index_L) // _BLOCK_POWERS)
        nodes, weights = _legendre(ties // 2 + 1)
        for u, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
            product_RL = start_RL * weight
            for part in parts:
                powers_CBL = _integer_powers(below_DL[part] + u * equal_DL[part], counts_C)
                for place, d in enumerate(part):
                    product_RL *= powers_CBL[power_UD[:rows, d], place]
            win_U[:rows] += product_RL.real.sum(axis=1)
    probability_U: Floats = win_U / pmf[-1, k]
    return probability_U

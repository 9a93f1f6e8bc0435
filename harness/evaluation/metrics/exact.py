"""Exact evaluation metrics from right counts: no resampling, no randomness, numpy only.

Shapes: ``right_P`` holds the number of right samples of each of P problems, ``n`` the samples per problem. Every function returns one
value per problem; the score is their plain mean, so that each problem weighs the same. Pass@k: Chen et al. 2021 (arXiv:2107.03374).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import zip_longest

import numpy as np
from numpy.typing import ArrayLike, NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class UnevenSamples(ValueError):
    """Some problems do not have the n samples that the metric divides by."""


def require_samples(samples_P: ArrayLike, n: int) -> None:
    """Refuse unless every problem has exactly n samples (lost samples included as rows).

    Raises:
        UnevenSamples: naming how many problems differ. Dividing by n anyway would understate the score; averaging what is
            there would change the weights.
    """
    samples = np.asarray(samples_P)
    odd = np.flatnonzero(samples != n)
    if len(odd):
        raise UnevenSamples(
            f"{len(odd)} of {len(samples)} problems do not have n={n} samples (first: problem {odd[0]} has "
            f"{samples[odd[0]]}); generate the missing ones or record them as lost"
        )


def avg_at_n(right_P: ArrayLike, samples_P: ArrayLike, n: int) -> Floats:
    """avg@n = c / n; refuses (``UnevenSamples``) unless every problem has n samples."""
    require_samples(samples_P, n)
    return np.asarray(right_P, dtype=np.float64) / n


def pass_at_k(right_P: ArrayLike, n: int, k: int) -> Floats:
    """Pass@k = 1 - C(n-c, k) / C(n, k): P[at least one of a random k-subset is right]."""
    right = np.asarray(right_P, dtype=np.int64)
    if not 1 <= k <= n:
        raise ValueError(f"k={k} needs 1 <= k <= n, but a problem has n={n} samples; sample more or drop k")
    if right.size and not 0 <= right.min() <= right.max() <= n:
        raise ValueError("right counts must lie between 0 and the number of samples of their problem")
    counts, inverse = np.unique(right, return_inverse=True)
    subsets = math.comb(n, k)
    values = [float(1 - Fraction(math.comb(n - int(c), k), subsets)) for c in counts]
    return np.array(values, dtype=np.float64)[inverse]


Bools = NDArray[np.bool_]

Equivalence = Callable[[Sequence[tuple[str, str]]], Sequence[bool]]  # of pairs of answers

NO_ANSWER = -1


def representatives(groups: Sequence[Sequence[str]], equivalent: Equivalence) -> list[list[str]]:
    """Return for each answer of each problem the first answer of that problem that equals it.

    Equality need not be transitive: an answer joins the first class whose first member equals it. Every round settles one class of every
    problem, so the verifier gets all comparisons of a round at once.
    """
    first = [dict.fromkeys(answers, "") for answers in groups]
    pending = [list(found) for found in first]
    while any(pending):
        pairs = [(left[0], other) for left in pending for other in left[1:]]
        verdicts = iter(equivalent(pairs) if pairs else [])
        for found, left in zip(first, pending, strict=True):
            if left:
                found[left[0]] = left[0]
                equal = {other for other in left[1:] if next(verdicts)}
                found.update(dict.fromkeys(equal, left[0]))
                left[:] = [other for other in left[1:] if other not in equal]
    return [[found[answer] for answer in answers] for found, answers in zip(first, groups, strict=True)]


@dataclass(frozen=True)
class Votes:
    """Class sizes of P problems with n samples each, flat over the C (problem, class) pairs.

    ``problem_C`` is sorted; samples in no class are abstentions. ``conflicts`` counts the classes whose
    members carry both verdicts (the class then counts as right: one accepting verdict of its canonical
    answer).
    """

    problems: int
    n: int
    problem_C: Ints
    size_C: Ints
    right_C: Bools
    conflicts: int = 0


def count_votes(problem_R: Ints, class_R: Ints, right_R: Bools, *, problems: int, n: int) -> Votes:
    """Count the classes of R samples.

    Args:
        problem_R: problem of each sample, 0 .. problems - 1.
        class_R: its answer class, ``-1`` for no answer; ids need to be distinct within a problem only.
        right_R: its verdict.
        problems: number of problems, those without a vote included.
        n: samples per problem, lost ones included.
    """
    voting = class_R >= 0
    span = int(class_R.max(initial=0)) + 1
    key_V = problem_R[voting] * span + class_R[voting]
    if problems * span <= 4 * max(len(key_V), 1) + 1024:  # dense ids: counting is cheaper than sorting
        size_K = np.bincount(key_V, minlength=problems * span)
        right_K = np.bincount(key_V[right_R[voting]], minlength=problems * span)
        keys_C = np.flatnonzero(size_K)
        size_C, rights_C = size_K[keys_C], right_K[keys_C]
    else:
        keys_C, inverse_V, size_C = np.unique(key_V, return_inverse=True, return_counts=True)
        rights_C = np.bincount(inverse_V[right_R[voting]], minlength=len(keys_C))
    mixed = int(((rights_C > 0) & (rights_C < size_C)).sum())
    return Votes(problems, n, keys_C // span, size_C.astype(np.int64), rights_C > 0, mixed)


def majority_at_k(votes: Votes, ks: Sequence[int]) -> dict[int, Floats]:
    """Maj@k per problem for each k: P[the winner of a uniform k-subset is a right class], exact.

    Returns ``{k: float64[P]}``; absolute error below 1e-12 (tested against rationals). Problems are reduced
    to their distinct class-size patterns first, since the value depends on nothing else.

    Raises:
        ValueError: if a k is not in 1 .. n.
    """
    for k in ks:
        if not 1 <= k <= votes.n:
            raise ValueError(f"maj@{k} needs 1 <= k <= n={votes.n} samples; sample more or drop k={k}")
    own_T, others_TR, problem_T = _targets(votes)
    patterns, inverse_T = _unique_rows(np.column_stack([own_T, others_TR]))
    result: dict[int, Floats] = {}
    sizes = [(int(own), tuple(int(size) for size in others if size)) for own, *others in patterns.tolist()]
    for k in ks:
        win_U = np.array(
            [win_probability(own, rivals, votes.n, k) for own, rivals in sizes], dtype=np.float64
        )
        right_P = np.bincount(problem_T, weights=win_U[inverse_T], minlength=votes.problems)
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


def _unique_rows(rows: Ints) -> tuple[Ints, Ints]:
    """Distinct rows and the index of each row among them (as bytes: far faster than np.unique(axis=0))."""
    packed = np.ascontiguousarray(rows.astype(np.int32))
    keys = packed.view(np.dtype((np.void, packed.dtype.itemsize * packed.shape[1]))).ravel()
    _, first, inverse = np.unique(keys, return_index=True, return_inverse=True)
    return rows[first], inverse


@lru_cache(maxsize=100_000)
def win_probability(size: int, rivals: tuple[int, ...], n: int, k: int) -> float:
    """Return P[a class wins a uniform k-subset of n samples], ties split uniformly.

    A uniform k-subset is Bernoulli(k/n) sampling of every item given that k were drawn. We sum over t, the number drawn of the class: every
    other class draws fewer (a loss) or as many (a tie). All terms are positive, so nothing cancels.

    Args:
        size: size of the class.
        rivals: sizes of the other classes of the problem; samples in no class are abstentions.
        n: samples of the problem.
        k: size of the subset.
    """
    if k == n:  # one subset: decided by the sizes themselves
        return 0.0 if max(rivals, default=0) > size else 1.0 / (1 + rivals.count(size))
    pmf = _binomial_pmf(n, k / n)
    total = 0.0
    for t in range(1, min(size, k) + 1):
        strong = [rival for rival in rivals if rival >= t]
        # by_ties[j][i] = P[j rivals tie, i samples drawn]; abstentions and classes below t can be drawn freely.
        by_ties: list[Floats] = [pmf[n - size - sum(strong), : k - t + 1]]
        for rival in strong:
            fewer = [np.convolve(drawn, pmf[rival, :t])[: k - t + 1] for drawn in by_ties]
            shifted = [np.append(np.zeros(t), drawn)[: k - t + 1] for drawn in by_ties[: k // t - 1]]
            equal = [pmf[rival, t] * drawn for drawn in shifted]
            nothing = np.zeros(k - t + 1)
            by_ties = [lost + tied for lost, tied in zip_longest(fewer, [nothing, *equal], fillvalue=nothing)]
        total += pmf[size, t] * sum(drawn[k - t] / (ties + 1) for ties, drawn in enumerate(by_ties))
    return float(total / pmf[n, k])


@lru_cache(maxsize=64)
def _binomial_pmf(n: int, p: float) -> Floats:
    """pmf[m, i] = P[Binomial(m, p) = i] for m, i = 0 .. n, by the stable forward recursion."""
    pmf = np.zeros((n + 1, n + 1))
    pmf[0, 0] = 1.0
    for m in range(1, n + 1):
        pmf[m] = (1.0 - p) * pmf[m - 1]
        pmf[m, 1:] += p * pmf[m - 1, :-1]
    return pmf

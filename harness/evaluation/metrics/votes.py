"""Majority voting over answer equivalence classes: the exact expectation over k-subsets.

Declared rules: samples without an answer (class ``-1``) occupy a place in the subset and cannot win; a subset
with no answer at all is not right; ties split uniformly over the tied classes; whether a class is right is
decided once per class.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

NO_ANSWER = -1
_BLOCK_ROWS = 1024  # patterns per pass: keeps the [rows, points] products inside the cache


def representatives(answers: Sequence[str], equivalent: Callable[[str, str], bool]) -> list[str]:
    """Return for each answer of one problem the first answer that equals it.

    Verifiers are neither symmetric nor transitive, so two texts are equal only when both directions agree.
    """
    found: dict[str, str] = {}
    firsts: list[str] = []
    for answer in dict.fromkeys(answers):
        same = (first for first in firsts if equivalent(first, answer) and equivalent(answer, first))
        found[answer] = next(same, answer)
        if found[answer] == answer:
            firsts.append(answer)
    return [found[answer] for answer in answers]


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
    order = np.argsort(-patterns[:, 0], kind="stable")
    result: dict[int, Floats] = {}
    for k in ks:
        win_U = np.empty(len(patterns))
        for start in range(0, len(order), _BLOCK_ROWS):
            block = order[start : start + _BLOCK_ROWS]
            win_U[block] = _win_probability(patterns[block, 0], patterns[block, 1:], votes.n, k)
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


def _binomial_pmf(n: int, p: float) -> Floats:
    """pmf[m, i] = P[Binomial(m, p) = i] for m, i = 0 .. n, by the stable forward recursion."""
    pmf = np.zeros((n + 1, n + 1))
    pmf[0, 0] = 1.0
    for m in range(1, n + 1):
        pmf[m] = (1.0 - p) * pmf[m - 1]
        pmf[m, 1:] += p * pmf[m - 1, :-1]
    return pmf


def _win_probability(own_U: Ints, others_UR: Ints, n: int, k: int) -> Floats:
    """P[the class of size own wins a k-subset] for U patterns; ``own_U`` and the rows of others fall.

    A uniform k-subset is Bernoulli(k/n) sampling of every item given that k were drawn. Sum over the winning
    count t of own: every other class draws < t (factor 1) or = t (a tie, factor u); 1/(ties + 1) is the
    integral of u**ties over [0, 1], exact by Gauss-Legendre. The coefficient of x**k of the product of the
    generating functions is read off at roots of unity: all factors are at most 1 in modulus and P[k drawn] is
    of order 1/sqrt(k), so nothing cancels. Classes smaller than t and abstentions share one closed form.
    """
    if k == n:  # one subset: decided by the sizes themselves
        ties_U = (others_UR == own_U[:, None]).sum(axis=1)
        return np.where((others_UR > own_U[:, None]).any(axis=1), 0.0, 1.0 / (1.0 + ties_U))
    p = k / n
    pmf = _binomial_pmf(n, p)
    points = max(k, n - k) + 1  # no alias of x**k within degree n
    index_L = np.arange(points // 2 + 1)  # the other half is the complex conjugate
    circle = np.exp(-2j * np.pi * np.arange(points) / points)
    mirror_L = np.where((index_L == 0) | (2 * index_L == points), 1.0, 2.0)
    read_L = mirror_L * circle[-k * index_L % points] / points
    free_ML = (1.0 - p + p * circle[index_L]) ** np.arange(n + 1)[:, None]
    below_ML = np.zeros((n + 1, len(index_L)), dtype=np.complex128)
    win_U = np.zeros(len(own_U))
    for t in range(1, min(k, int(own_U.max(initial=0))) + 1):
        below_ML += pmf[:, t - 1, None] * circle[(t - 1) * index_L % points]
        equal_ML = pmf[:, t, None] * circle[t * index_L % points]
        rows = int(np.searchsorted(-own_U, -t, side="right"))
        own, others = own_U[:rows], others_UR[:rows]
        big = others >= t
        small = n - own - (others * big).sum(axis=1)
        start_RL = (pmf[own, t, None] * (circle[t * index_L % points] * read_L)) * free_ML[small]
        ties = min(k // t - 1, int(big.sum(axis=1).max(initial=0)))
        nodes, weights = np.polynomial.legendre.leggauss(ties // 2 + 1)
        for u, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
            product_RL = start_RL * weight
            factor_ML = below_ML + u * equal_ML
            for column in range(big.shape[1]):
                rivals = np.flatnonzero(big[:, column])
                if not len(rivals):
                    break
                product_RL[rivals] *= factor_ML[others[rivals, column]]
            win_U[:rows] += product_RL.real.sum(axis=1)
    probability_U: Floats = win_U / pmf[n, k]
    return probability_U

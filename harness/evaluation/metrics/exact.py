"""Exact evaluation metrics from right counts: no resampling, no randomness, numpy only.

Shapes: ``right_P`` holds the number of right samples of each of P problems, ``n`` the samples per problem
(one number, or one per problem). Every function returns one value per problem; the score is their plain mean,
so that each problem weighs the same. Definitions and the errors of other tools: Chen et al. 2021
(arXiv:2107.03374) for Pass@k, arXiv:2412.13147 for G-Pass@k.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

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


def pass_at_k(right_P: ArrayLike, n: ArrayLike, k: int) -> Floats:
    """Pass@k = 1 - C(n-c, k) / C(n, k): P[at least one of a random k-subset is right]."""
    return _by_count(right_P, n, k, _pass_at_k)


def pass_hat_k(right_P: ArrayLike, n: ArrayLike, k: int) -> Floats:
    """pass^k = C(c, k) / C(n, k): P[all of a random k-subset are right]."""
    return _by_count(right_P, n, k, _pass_hat_k)


def g_pass_at_k(right_P: ArrayLike, n: ArrayLike, k: int, tau: float | Fraction) -> Floats:
    """G-Pass@k_tau: P[at least ceil(tau k) of a random k-subset are right]; at least one when tau is 0."""
    if not 0 <= tau <= 1:
        raise ValueError(f"G-Pass@k needs 0 <= tau <= 1, got {tau}")
    # 0.1 * 30 is 3.0000000000000004: the threshold is the exact ceiling of the decimal that was meant.
    exact = tau if isinstance(tau, Fraction) else Fraction(str(tau))
    need = max(math.ceil(exact * k), 1)
    return _by_count(right_P, n, k, lambda c, n_, k_: _at_least(c, n_, k_, need))


def mg_pass_at_k(right_P: ArrayLike, n: ArrayLike, k: int) -> Floats:
    """mG-Pass@k = (2/k) sum of G-Pass@k_{i/k} for i = ceil(k/2)+1 .. k; needs k >= 2 (empty sum at 1)."""
    if k < 2:
        raise ValueError(f"mG-Pass@k needs k >= 2, got k={k}")
    return _by_count(right_P, n, k, _mg_pass_at_k)


def _by_count(right_P: ArrayLike, n: ArrayLike, k: int, value: Callable[[int, int, int], Fraction]) -> Floats:
    """Evaluate an exact rational function of (c, n, k) once per distinct (c, n) and look it up."""
    right = np.asarray(right_P, dtype=np.int64)
    samples = np.broadcast_to(np.asarray(n, dtype=np.int64), right.shape)
    if right.size and ((right < 0) | (right > samples)).any():
        raise ValueError("right counts must lie between 0 and the number of samples of their problem")
    result = np.empty(right.shape)
    for size in np.unique(samples):
        if not 1 <= k <= size:
            raise ValueError(
                f"k={k} needs 1 <= k <= n, but a problem has n={size} samples; sample more or drop k"
            )
        here = samples == size
        counts, inverse = np.unique(right[here], return_inverse=True)
        table = np.array([float(value(int(c), int(size), k)) for c in counts])
        result[here] = table[inverse]
    return result


@lru_cache(maxsize=4096)
def _pass_at_k(c: int, n: int, k: int) -> Fraction:
    return 1 - Fraction(math.comb(n - c, k), math.comb(n, k))


@lru_cache(maxsize=4096)
def _pass_hat_k(c: int, n: int, k: int) -> Fraction:
    return Fraction(math.comb(c, k), math.comb(n, k))


@lru_cache(maxsize=4096)
def _at_least(c: int, n: int, k: int, need: int) -> Fraction:
    ways = sum(math.comb(c, j) * math.comb(n - c, k - j) for j in range(need, min(c, k) + 1))
    return Fraction(ways, math.comb(n, k))


@lru_cache(maxsize=4096)
def _mg_pass_at_k(c: int, n: int, k: int) -> Fraction:
    # sum over i of P[right >= i] = E[max(right - ceil(k/2), 0)]
    half = (k + 1) // 2
    ways = sum((j - half) * math.comb(c, j) * math.comb(n - c, k - j) for j in range(half + 1, min(c, k) + 1))
    return Fraction(2 * ways, k * math.comb(n, k))

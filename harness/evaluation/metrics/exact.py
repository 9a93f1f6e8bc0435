"""Exact evaluation metrics from right counts: no resampling, no randomness, numpy only.

Shapes: ``right_P`` holds the number of right samples of each of P problems, ``n`` the samples per problem. Every function returns one
value per problem; the score is their plain mean, so that each problem weighs the same. Pass@k: Chen et al. 2021 (arXiv:2107.03374).
"""

from __future__ import annotations

import math
from fractions import Fraction

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

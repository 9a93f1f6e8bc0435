"""What other tools compute under similar names, for tests to hold beside the exact values.

Each function is biased in the way its docstring says; sources are the projects' own code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def plugin_pass_at_k(right_P: ArrayLike, n: int, k: int) -> Floats:
    """1 - (1 - c/n)^k: biased low for every 0 < c < n; it is Pass@k of sampling with replacement."""
    return 1.0 - (1.0 - np.asarray(right_P, dtype=np.float64) / n) ** k


def verl_best_at_n(score_PN: ArrayLike, k: int, *, draws: int = 1000, seed: int = 42) -> Floats:
    """best@k by bootstrap *with replacement* (verl ``metric_utils.bootstrap_metric``): biased low and noisy.

    One right sample of 32 gives best@32 near 0.64 where Pass@32 is 1. The original reseeds numpy's global
    generator on every call; this one uses its own.
    """
    scores = np.asarray(score_PN, dtype=np.float64)
    rng = np.random.default_rng(seed)
    picks_DK = rng.integers(scores.shape[1], size=(draws, k))
    return np.array([row[picks_DK].max(axis=1).mean() for row in scores])


def first_seen_majority_at_k(
    answers_PN: Sequence[Sequence[str | None]], right_PN: ArrayLike, k: int, *, none_votes: bool = False
) -> Floats:
    """Majority of the first k *strings*, ties to the first seen, verdict of its first member.

    Depends on sample order; strings split equivalence classes; with ``none_votes`` a missing answer is an
    ordinary vote (verl's ``[INVALID]``). An unbiased reading is
    :func:`harness.evaluation.metrics.votes.majority_at_k`.
    """
    right = np.asarray(right_PN, dtype=bool)
    values = []
    for answers, verdicts in zip(answers_PN, right, strict=True):
        head = [a for a in answers[:k] if none_votes or a is not None]
        if not head:
            values.append(0.0)
            continue
        winner = Counter(head).most_common(1)[0][0]
        values.append(float(verdicts[list(answers[:k]).index(winner)]))
    return np.array(values)


def string_majority_at_n(answers_PN: Sequence[Sequence[str | None]], right_PN: ArrayLike) -> Floats:
    """Majority over raw strings with all n samples, ties averaged: splits ``1/2`` from ``0.5``."""
    right = np.asarray(right_PN, dtype=bool)
    values = []
    for answers, verdicts in zip(answers_PN, right, strict=True):
        counts = Counter(a for a in answers if a is not None)
        top = max(counts.values(), default=0)
        winners = [a for a, size in counts.items() if size == top]
        first = [verdicts[list(answers).index(a)] for a in winners]
        values.append(float(np.mean(first)) if first else 0.0)
    return np.array(values)

"""Intervals of one evaluation over its problems.

They answer: how much would the mean move with other problems like these? (Student's t over per-problem scores, which already
contain the sampling noise; arXiv:2411.00640.) They do not cover another training run: that takes training seeds.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

LEVEL = 0.95
METHOD = (
    "95 %, over problems: Student's t on per-problem scores, cut to [0, 1]; where every problem scores the same 0 or 1, "
    "Clopper-Pearson on the number of problems"
)


def problems_interval(score_P: ArrayLike) -> tuple[float, float] | None:
    """The interval of a mean of per-problem scores in [0, 1]; None with fewer than two problems."""
    scores = np.asarray(score_P, dtype=np.float64)
    if len(scores) < 2:
        return None
    mean = float(scores.mean())
    if np.all(scores == scores[0]) and mean in (0.0, 1.0):
        reach = ((1 - LEVEL) / 2) ** (1 / len(scores))
        return (0.0, 1 - reach) if mean == 0 else (reach, 1.0)
    half = t_half_width(scores)
    return max(0.0, mean - half), min(1.0, mean + half)


def paired_difference(a_P: ArrayLike, b_P: ArrayLike) -> tuple[float, float, float]:
    """Mean of b - a over the same problems and its t interval (infinite with fewer than two problems)."""
    difference = np.asarray(b_P, dtype=np.float64) - np.asarray(a_P, dtype=np.float64)
    mean = float(difference.mean())
    half = t_half_width(difference) if len(difference) > 1 else math.inf
    return mean, mean - half, mean + half


def t_half_width(values: np.ndarray) -> float:
    """Half the width of Student's t interval of a mean; needs two values."""
    from scipy import special

    critical = float(special.stdtrit(len(values) - 1, (1 + LEVEL) / 2))
    return critical * float(values.std(ddof=1)) / math.sqrt(len(values))

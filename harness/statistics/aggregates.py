"""Aggregates over several benchmarks (Agarwal et al. 2021, arXiv:2108.13264)."""

from __future__ import annotations

import numpy as np
import scipy
from numpy.typing import NDArray


def interquartile_mean(scores_S_T: NDArray[np.float64]) -> float:
    """The mean of the middle half of all scores [seeds, tasks] together (Agarwal et al. 2021, arXiv:2108.13264)."""
    return float(scipy.stats.trim_mean(scores_S_T, 0.25, axis=None))


def probability_of_improvement(a_ST: NDArray[np.float64], b_ST: NDArray[np.float64]) -> float:
    """P(a run of a scores above one of b on a task), ties half, each task counting the same (arXiv:2108.13264, section 4.4).

    Scores are [seeds, tasks]; the seeds of the arms may be others. Per task it is Mann and Whitney's U over all pairs.
    """
    return float(0.5 + np.sign(a_ST[:, None] - b_ST).mean() / 2)

"""Aggregates over several benchmarks (Agarwal et al. 2021, arXiv:2108.13264)."""

import numpy as np
import scipy
from numpy.typing import NDArray


def interquartile_mean(scores_S_T: NDArray[np.float64]) -> float:
    """The mean of the middle half of all scores [seeds, tasks] together (Agarwal et al. 2021, arXiv:2108.13264)."""
    return float(scipy.stats.trim_mean(scores_S_T, 0.25, axis=None))


def probability_of_improvement(a_ST: NDArray[np.float64], b_ST: NDArray[np.float64]) -> float:
    """P(a run of a scores above one of b on a task), ties half, each task counting the same (arXiv:2108.13264, section 4.4).

    Scores are [seeds, tasks]; the seeds of the arms may be others. Per task it is Mann and Whitney's U over all pairs, by ranks.
    """
    own, others = len(a_ST), len(b_ST)
    ranks_T = scipy.stats.rankdata(np.concatenate([a_ST, b_ST]), axis=0)[:own].sum(axis=0)
    wins_T = ranks_T - own * (own + 1) / 2
    return float((wins_T / (own * others)).mean())

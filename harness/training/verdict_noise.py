"""A verifier that errs at given rates, for training: right answers are believed with one probability, wrong ones with another.

The setting of noisy-verifier studies (arXiv:2601.04411: Youden's J = true minus false positive rate) and, at equal rates, a reward that is
random whatever the answer (arXiv:2506.10947). Each verdict's draw belongs to its response's seed, so it repeats, on any number of ranks.
Held-out evaluation keeps the exact verifier.
"""

from __future__ import annotations

import numpy as np
import torch

from harness.configuration.algorithm import RewardConfig
from harness.rollout.noise import key, uniforms

_STREAM = key("verdict")  # apart from the numbers that chose the response's tokens


def believed(correct_PG: torch.Tensor, seeds_PG: np.ndarray, reward: RewardConfig) -> torch.Tensor:
    """The verdicts that training sees, bool [P, G].

    Args:
        correct_PG: the verifier's verdicts.
        seeds_PG: the sampling seeds of the responses.
        reward: `true_positive` and `false_positive`.
    """
    if reward.exact:
        return correct_PG
    draws = torch.from_numpy(uniforms((seeds_PG ^ _STREAM).reshape(-1), 1)).view(correct_PG.shape)
    return draws <= torch.where(correct_PG, reward.true_positive, reward.false_positive).double()

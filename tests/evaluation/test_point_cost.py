"""What a difference over problems takes: the parts of its variance by hand, and numbers of problems and samples by search."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from harness.evaluation.counts import problems_needed, samples_needed, sampling_noise
from harness.statistics.intervals import power, seeds_needed


def test_the_noise_of_a_share_by_hand_and_without_bias() -> None:
    assert sampling_noise([0, 1, 2, 4], 4).tolist() == [0, 0.0625, 1 / 12, 0]  # 1/4 * 3/4 / 3, 1/2 * 1/2 / 3
    assert np.isnan(sampling_noise([0, 1], 1)).all()
    for rate in (0.1, 0.5, 0.9):
        weights = stats.binom.pmf(range(6), 5, rate)
        assert weights @ sampling_noise(range(6), 5) == pytest.approx(rate * (1 - rate) / 5)


def test_problems_needed_are_the_fewest() -> None:
    assert problems_needed(0.05, 0.04, 0.95) == seeds_needed(0.05, 0.2, paired=True)  # the same t test over fewer units
    many = problems_needed(0.01, 0.04, 0.95)
    assert many == pytest.approx(0.04 * ((stats.norm.ppf(0.975) + stats.norm.ppf(0.8)) / 0.01) ** 2, rel=1e-3)
    assert problems_needed(0.01, 0.04, 0.99) > many
    assert problems_needed(0.01, 0.0, 0.95) is None


def test_samples_needed_are_the_fewest_or_none_does() -> None:
    problems = 1000  # they make 0.01 of the variance, one sample a problem 0.24
    samples = samples_needed(0.01, 0.04, 0.03, 8, problems, 0.95)
    reached = [
        power(0.01, math.sqrt(0.01 + 0.24 / n), problems, paired=True, alpha=0.05) for n in (samples - 1, samples)
    ]
    assert reached[0] < 0.8 <= reached[1]
    assert samples_needed(0.01, 0.04, 0.03, 8, 700, 0.95) is None  # 0.01 * 7.849 / 0.0001 = 785 problems at least
    assert samples_needed(0.01, 0.04, 0.05, 8, 700, 0.95) is not None  # noise beyond the variance leaves problems none
    assert samples_needed(0.01, 0.04, math.nan, 1, problems, 0.95) is None

"""Variance components and the spread of a seed's difference, against hand-worked values and enumeration."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from spread import spread
from variance_components import sampling_variance, variance_components

BASES = np.repeat(np.arange(4), 3)


def test_equal_groups_give_the_analysis_of_variance() -> None:
    """Groups (1 2 3), (5 6 7), (1 3 5), (8 9 10): mean squares within (2+2+8+2)/8 = 1.75, between 3·(var of 2 6 3 9) = 30."""
    scores = np.array([1, 2, 3, 5, 6, 7, 1, 3, 5, 8, 9, 10.0])
    noise = np.full(12, 0.25)
    found = variance_components(scores, BASES, noise, refits=20)
    assert found.mean == pytest.approx(5.0)
    assert found.seed == pytest.approx(1.75 - 0.25, rel=1e-4)
    assert found.base == pytest.approx((30 - 1.75) / 3, rel=1e-4)
    assert found.samples == 0.25
    assert (found.bases, found.runs) == (4, 12)
    assert sum(found.shares) == pytest.approx(1.0)


def test_units_labels_and_order_do_not_matter() -> None:
    rng = np.random.default_rng(1)
    scores = rng.normal(size=12) + np.repeat(rng.normal(size=4), 3)
    noise = rng.uniform(0.1, 0.4, 12)
    one = variance_components(scores, BASES, noise, refits=5)
    order = rng.permutation(12)
    names = np.array(["d", "a", "c", "b"])[BASES]
    other = variance_components(7 + 10 * scores[order], names[order], 100 * noise[order], refits=5)
    assert other.base == pytest.approx(100 * one.base, rel=1e-3)
    assert other.seed == pytest.approx(100 * one.seed, rel=1e-3)
    assert other.mean == pytest.approx(7 + 10 * one.mean, rel=1e-3)


def test_sampling_variance_is_the_binomials() -> None:
    """Enumerated over many draws: the estimate's mean is the true variance of avg@n."""
    assert sampling_variance([0.5, 0.0], 5) == pytest.approx(0.25 / 4 / 4)
    rng = np.random.default_rng(3)
    p, n = np.array([0.1, 0.5, 0.9]), 8
    shares = rng.binomial(n, p, size=(20_000, 3)) / n
    estimated = np.mean([sampling_variance(row, n) for row in shares[:4000]])
    assert estimated == pytest.approx(float((p * (1 - p) / n).sum() / 9), rel=0.03)
    assert shares.mean(1).var() == pytest.approx(estimated, rel=0.05)
    with pytest.raises(ValueError, match="at least two"):
        sampling_variance([0.5], 1)


@pytest.mark.parametrize("bases", [[0, 0, 0, 0], [0, 1, 2, 3]])
def test_designs_that_cannot_tell_are_refused(bases: list[int]) -> None:
    with pytest.raises(ValueError, match="told apart"):
        variance_components([1.0, 2.0, 3.0, 5.0], bases, [0.1] * 4)


def test_the_parts_of_a_difference_by_hand() -> None:
    """Differences 3/4 and 1/4 of one base policy, 0 and 0 of the other: mean squares within 1/16, between 1/4; base (1/4 - 1/16) / 2.

    The four problems' means are 1/2, 1/4, 1/4 and 0: variance 1/24, over 4.
    """
    reference = pd.DataFrame(0.0, index=[0, 1, 2, 3], columns=["a", "b", "c", "d"])
    arm = reference.copy()
    arm.loc[0] = [1.0, 1.0, 1.0, 0.0]
    arm.loc[2] = [1.0, 0.0, 0.0, 0.0]
    mean, base, seed, samples, problems = spread(arm, reference, samples=4, bases=2)
    assert (mean, samples, problems) == ("+25.0", "0.0", "10.2")
    assert (base.partition(" ")[0], seed.partition(" ")[0]) == ("30.6", "25.0")

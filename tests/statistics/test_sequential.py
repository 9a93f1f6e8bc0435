"""Boundaries of the sequential design: against published constants, geometry and simulation."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from harness.statistics.sequential import design_levels, nominal_levels

LOOKS = (5, 8, 11, 14, 17, 20)


def test_two_and_three_seeds_by_the_area_of_the_sphere():
    """Three normal seeds point in a uniform direction: the probabilities are areas of the unit sphere."""
    levels = nominal_levels((2, 3), 0.1)
    height, angle = np.meshgrid(np.linspace(-1, 1, 2001)[1::2], np.linspace(0, 2 * np.pi, 8001)[1::2])
    ring = np.sqrt(1 - height**2)
    x = np.stack([ring * np.cos(angle), ring * np.sin(angle), height])
    t2 = np.abs(x[0] + x[1]) / np.abs(x[0] - x[1])
    t3 = np.abs(x.mean(axis=0)) / x.std(axis=0, ddof=1) * np.sqrt(3)
    first = t2 > stats.t.isf(levels[0] / 2, 1)
    second = ~first & (t3 > stats.t.isf(levels[1] / 2, 2))
    assert [first.mean(), second.mean()] == pytest.approx([0.2 / 3, 0.1 / 3], abs=5e-4)


@pytest.mark.parametrize("looks", [LOOKS, tuple(range(3, 13)), (2, 3, 20)])
def test_every_look_spends_its_share_and_no_more(looks):
    levels = nominal_levels(looks, 0.05)
    x = np.random.default_rng(1).normal(size=(200_000, looks[-1]))
    alive = np.ones(len(x), dtype=bool)
    spent = []
    for seeds, level in zip(looks, levels, strict=True):
        t = x[:, :seeds].mean(axis=1) / x[:, :seeds].std(axis=1, ddof=1) * np.sqrt(seeds)
        alive &= np.abs(t) < stats.t.isf(level / 2, seeds - 1)
        spent.append(1 - alive.mean())
    assert spent == pytest.approx(0.05 * np.array(looks) / looks[-1], abs=0.0015)  # three standard errors


def test_one_look_is_the_fixed_design():
    assert nominal_levels((20,), 0.05) == pytest.approx([0.05], rel=1e-4)
    assert design_levels([20], 5) == pytest.approx([1 - 0.95**0.2], rel=1e-4)

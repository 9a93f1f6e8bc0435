"""Scripts whose answers are published: their numbers by hand; the tables themselves stand under results/published."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import rates
from difficulty_bands import band_means, crossed_bands
from matched import Course, match
from ranks import INVERTED, NEITHER, ONE, SAME, Orders, order_of
from rates import Trial
from tukey import compact_letters, fit_blocks, honest_difference, odd_spreads


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_two_arms_share_a_letter_exactly_where_they_are_not_told_apart(share: float) -> None:
    rng = np.random.default_rng(int(10 * share))
    for arms in [*range(1, 9)] * 5:
        drawn = np.triu(rng.random((arms, arms)) < share, 1)
        letters = compact_letters(drawn | drawn.T)
        assert all(letters)
        for a, b in itertools.combinations(range(arms), 2):
            assert bool(set(letters[a]) & set(letters[b])) == (not drawn[a, b])


def test_blocks_by_hand() -> None:
    """Means 3, 5, 8; block means 3, 5, 8; residual squares 2/3, 8/3, 2/3, so 4 on 4 degrees of freedom."""
    fit = fit_blocks(np.array([[1.0, 3, 5], [2, 4, 9], [6, 8, 10]]))
    assert fit.means_A.tolist() == pytest.approx([3, 5, 8])
    assert (fit.sd, fit.degrees, fit.blocks) == (pytest.approx(1.0), 4, 3)
    assert fit.own_sd_A**2 == pytest.approx([0.5, 2.0, 0.5])  # their mean is the pooled variance
    # Printed tables: q(0.05; 3, 4) = 5.04.
    assert honest_difference(fit) == pytest.approx(5.04 / 3**0.5, abs=0.001)
    values = np.random.default_rng(6).normal(size=(12, 4))
    assert odd_spreads(values) == {}
    values[7] *= 30  # a collapsed arm is measured against the others alone
    assert odd_spreads(values) == {7: pytest.approx(fit_blocks(np.delete(values, 7, axis=0)).sd)}


def test_bands_come_from_the_other_replicates() -> None:
    bands = crossed_bands(
        {0: np.array([0.0, 1.0, 0.3]), 1: np.array([0.2, 0.6, 0.9]), 2: np.array([0.6, 0.2, 0.6])}, [0.25, 0.5]
    )
    # Means of the two others: .4, .4, .75; .3, .6, .45; .1, .8, .6.
    assert [bands[seed].tolist() for seed in range(3)] == [[1, 1, 2], [1, 2, 1], [0, 2, 2]]
    found = band_means(np.array([1.0, 0.0, 0.5]), np.array([0, 0, 2]), 3)
    assert found[[0, 2]].tolist() == [0.5, 0.5]
    assert np.isnan(found[1])


def test_a_match_by_hand_either_way_round() -> None:
    """The reference ends at 0.4; the arm passes 0.4 half-way between steps 5 and 10, at 0.6 half-way between 0.5 and 0.7."""
    steps = np.array([0.0, 5, 10])
    arm = Course(steps, np.array([0.0, 0.3, 0.5]), np.array([0.2, 0.5, 0.7]), 0.7)
    reference = Course(steps, np.array([0.0, 0.1, 0.4]), np.array([0.2, 0.4, 0.65]), 0.65)
    found = match(arm, reference)
    assert (found.distance, found.last) == (0.4, (0.7, 0.65))
    assert (found.score, found.step) == (pytest.approx((0.6, 0.65)), pytest.approx((7.5, 10.0)))
    assert match(reference, arm).score == pytest.approx((0.65, 0.6))


def test_orders_at_two_sizes_by_hand() -> None:
    """Of three pairs one is turned round: (2 - 1) / 3, whatever the seeds."""

    def orders(large: list[float]) -> Orders:
        noise = np.array([-0.1, 0.1, -0.1, 0.1])
        effects = [[level + place * noise for place, level in enumerate(own)] for own in ([1.0, 2.0, 3.0], large)]
        return Orders(("small", "large"), ("a", "b", "c"), np.array(effects))

    turned, close = orders([20.0, 10.0, 30.0]), orders([20.0, 20.0, 20.0]).pairs()
    assert orders([10.0, 20.0, 30.0]).tau() == pytest.approx(1.0)
    assert (turned.tau(), turned.interval(50)) == (pytest.approx(1 / 3), pytest.approx((1 / 3, 1 / 3)))
    assert (turned.halves(0, 0), turned.halves(0, 1)) == (pytest.approx(1.0), pytest.approx(1 / 3))
    found = {pair: order_of(both) for pair, both in turned.pairs().items()}
    assert found == {("a", "b"): INVERTED, ("a", "c"): SAME, ("b", "c"): SAME}
    assert {order_of(both) for both in close.values()} == {ONE}
    assert order_of((close["a", "b"][1], close["a", "b"][1])) == NEITHER


def test_the_highest_mean_wins_and_of_equal_ones_the_lower_rate() -> None:
    low, high = Trial(70.1, 2), Trial(70.1 + 1e-12, 2)
    assert rates.choice({1e-4: low, 2e-4: high, 5e-4: Trial(60.0, 2)}) == 1e-4
    assert rates.choice({1e-4: low, 2e-4: Trial(70.2, 2)}) == 2e-4
    assert rates.choice({1e-4: low, 2e-4: Trial(99.0, 1, diverged=True)}) == 1e-4
    assert rates.choice({1e-4: Trial(None, 0)}) is None

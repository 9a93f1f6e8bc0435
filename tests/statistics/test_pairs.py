"""Tango's interval against a likelihood that is maximised by search, McNemar's test, and coverage by enumeration."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import optimize, stats

from harness.statistics.intervals import paired_difference
from harness.statistics.pairs import paired_shares, score


def answers(wins: int, losses: int, pairs: int) -> tuple[np.ndarray, np.ndarray]:
    """Two sides that agree, half right, on the rest."""
    ties = np.arange(pairs - wins - losses) % 2
    return np.concatenate([[1] * wins, [0] * losses, ties]), np.concatenate([[0] * wins, [1] * losses, ties])


@pytest.mark.parametrize(("wins", "losses", "pairs"), [(12, 2, 50), (8, 16, 86), (10, 1, 100)])
def test_both_ends_are_rejected_by_the_score_test_of_the_likeliest_shares(wins: int, losses: int, pairs: int) -> None:
    found = paired_shares(*answers(wins, losses, pairs))
    for end in (found.low, found.high):

        def against(lost: float, end: float = end) -> float:
            return -stats.multinomial.logpmf(
                [wins, losses, pairs - wins - losses], pairs, [lost + end, lost, 1 - 2 * lost - end]
            )

        bounds = max(0.0, -end) + 1e-9, (1 - end) / 2 - 1e-9
        lost = optimize.minimize_scalar(against, bounds=bounds, method="bounded", options={"xatol": 1e-10}).x
        error = math.sqrt(pairs * (2 * lost + end - end**2))
        assert abs(wins - losses - pairs * end) / error == pytest.approx(stats.norm.ppf(0.975), rel=1e-4)


def test_at_zero_it_is_mcnemars_test() -> None:
    assert score(12, 2, 50, 0.0) == pytest.approx(10 / math.sqrt(14))
    assert paired_shares(*answers(12, 2, 50)).p_value == pytest.approx(2 * stats.norm.sf(10 / math.sqrt(14)))


@pytest.mark.parametrize(
    ("counts", "ends"),
    [((0, 0, 30), (-0.1135, 0.1135)), ((30, 0, 30), (0.773, 1)), ((0, 20, 20), (-1, -0.6777))],
)
def test_sides_that_agree_and_sides_that_never_do_have_an_interval(counts: tuple[int, int, int], ends: tuple) -> None:
    """Without a pair that differs the ends are z^2 / (n + z^2)."""
    found = paired_shares(*answers(*counts))
    assert (found.low, found.high) == pytest.approx(ends, abs=1e-4)


def test_one_sided_wins_are_covered_where_students_t_is_too_short() -> None:
    pairs, rate = 100, 0.03
    weights = stats.binom.pmf(range(31), pairs, rate)
    tango, student = (
        sum(
            weight
            for wins, weight in enumerate(weights)
            if (found := make(*answers(wins, 0, pairs))).low <= rate <= found.high
        )
        for make in (paired_shares, paired_difference)
    )
    assert student < 0.9 < 0.94 < tango

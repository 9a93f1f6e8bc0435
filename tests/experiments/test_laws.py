"""Sigmoid and entropy laws: exact curves are found again, hand-worked values, what cannot be told is not told."""

from __future__ import annotations

import numpy as np
import pytest
from curve_fits import fit_entropy_law, fit_sigmoid
from laws import main

STEPS = np.arange(0.0, 100.0)


def sigmoid(C, start, asymptote, midpoint, exponent):
    return start + (asymptote - start) * C**exponent / (C**exponent + midpoint**exponent)


@pytest.mark.parametrize("given", [True, False])
def test_an_exact_curve_is_found_again(given: bool) -> None:
    score = sigmoid(STEPS, 0.3, 0.8, 15.0, 1.6)
    fit = fit_sigmoid(STEPS, score, 0.3 if given else None)
    assert (fit.start, fit.asymptote, fit.midpoint, fit.exponent) == pytest.approx(
        (0.3, 0.8, 15.0, 1.6), rel=1e-4
    )
    assert fit.missing == ""
    assert fit.rmse < 1e-6
    assert fit([15.0, 0.0]) == pytest.approx(
        [0.55, 0.3], abs=1e-5
    )  # half of the rise at the midpoint, R_0 without compute


@pytest.mark.parametrize(
    ("compute", "score", "reason"),
    [
        ([0, 20, 40, 60], [0.3, 0.6, 0.7, 0.75], "4 points for 4 parameters"),
        (STEPS, 0.3 + 0.001 * STEPS, "midpoint lies beyond"),
        (STEPS, sigmoid(STEPS, 0.3, 1.2, 60.0, 1.0), "asymptote is at its bound"),
        (STEPS, 0.3 + 0.05 * np.random.default_rng(2).normal(size=100), ""),
    ],
)
def test_what_the_points_cannot_tell_is_said(compute, score, reason: str) -> None:
    missing = fit_sigmoid(compute, score).missing
    assert missing
    assert reason in missing


def test_entropy_law_against_values_worked_by_hand() -> None:
    """exp(H) = 1, 2, 3 and R = 0.9, 0.6, 0.6: slope -0.15, mean 0.7 at 2, so b = 1.0; residuals 0.05, -0.1, 0.05."""
    fit = fit_entropy_law(np.log([1.0, 2.0, 3.0]), [0.9, 0.6, 0.6])
    assert (fit.a, fit.b, fit.ceiling) == pytest.approx((0.15, 1.0, 0.85))
    assert fit.rmse == pytest.approx(np.sqrt(0.015 / 3))
    assert fit.r_squared == pytest.approx(1 - 0.015 / 0.06)


def test_the_command_prints_a_row_an_arm(root, capsys) -> None:
    assert main([str(root), "ladder", "--law", "entropy"]) == 0
    printed = capsys.readouterr().out
    assert printed.count("| 4 |") == 4
    assert main([str(root), "nothing"]) == 2
    assert "nothing" in capsys.readouterr().err

"""Intervals over problems, and who votes with whom."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from harness.evaluation.metrics.intervals import paired_difference, problems_interval
from harness.evaluation.result import voting_answers


def test_the_interval_is_students_t_over_problems() -> None:
    # mean 0.5, standard deviation √(0.02/3), t(0.975, 3 degrees) = 3.1824
    low, high = problems_interval([0.4, 0.4, 0.6, 0.6]) or (math.nan, math.nan)
    half = 3.182446 * math.sqrt(0.04 / 3) / 2
    assert (low, high) == pytest.approx((0.5 - half, 0.5 + half), abs=1e-6)


def test_a_perfect_score_is_not_certain() -> None:
    assert problems_interval(np.ones(10)) == pytest.approx((stats.beta.ppf(0.025, 10, 1), 1.0))
    assert problems_interval(np.zeros(10)) == pytest.approx((0.0, stats.beta.ppf(0.975, 1, 10)))
    assert problems_interval([1.0]) is None


def test_a_difference_is_paired_by_problem() -> None:
    a, b = [0.1, 0.5, 0.9], [0.2, 0.6, 1.0]
    value, low, high = paired_difference(a, b)
    assert value == pytest.approx(0.1)
    assert (low, high) == pytest.approx((0.1, 0.1))
    assert paired_difference([0.0], [1.0])[1:] == (-math.inf, math.inf)


def frame(*rows: tuple[str, str | None, str]) -> pd.DataFrame:
    made = pd.DataFrame(rows, columns=["problem_id", "answer", "verdict"])
    return made.assign(correct=made["verdict"] == "right")


def test_right_answers_vote_together_without_asking_and_wrong_ones_when_the_verifier_says_so() -> None:
    asked: list[set[str]] = []

    def equivalent(a: str, b: str) -> bool:
        asked.append({a, b})
        return {a, b} == {"x+1", "1+x"}

    rows = [("a", "1/2", "right"), ("a", "0.5", "right"), ("a", "x+1", "wrong"), ("a", "1+x", "wrong")]
    rows += [("a", None, "no_answer"), ("b", "0.5", "wrong")]
    assert voting_answers(frame(*rows), equivalent) == ["1/2", "1/2", "x+1", "x+1", None, "0.5"]
    assert all(pair == {"x+1", "1+x"} for pair in asked)


def test_integers_are_compared_here_and_answers_in_trouble_stand_alone() -> None:
    def never(a: str, b: str) -> bool:
        raise AssertionError((a, b))

    rows = [("a", "7", "wrong"), ("a", "07", "wrong"), ("a", "9^9^9", "over_limit"), ("a", "8", "wrong")]
    assert voting_answers(frame(*rows), never) == ["7", "7", "9^9^9", "8"]

"""Second looks: p-values of words by hand, repeated over looks; both looks as one sample; what two looks share."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from harness.statistics.intervals import Estimate, Finding, paired_difference
from harness.statistics.sequential import (
    distance_to_another_word,
    nominal_levels,
    overlap_text,
    pool_looks,
    repeated_p_value,
    word_p_value,
)

HOLDS, REVERSED, NOTHING, OPEN, NOT_ENGAGED = Finding
LOOKS = (8, 12, 16)


def estimate(value: float, error: float = 1.0, seeds: int = 8) -> Estimate:
    return Estimate(value, value - 2, value + 2, seeds=seeds, standard_error=error, degrees=seeds - 1, margin=3.0)


@pytest.mark.parametrize(
    ("expects", "value", "word", "distance"),
    [
        ("higher", 2.0, HOLDS, 2.0),
        ("higher", -2.0, HOLDS, -2.0),
        ("higher", -2.0, REVERSED, 2.0),
        ("higher", 1.0, NOTHING, 2.0),
        ("lower", -2.0, HOLDS, 2.0),
        ("lower", 2.0, REVERSED, 2.0),
        ("equivalent", -1.0, HOLDS, 2.0),
        ("equivalent", -5.0, REVERSED, 2.0),
        ("not_lower", -1.0, HOLDS, 2.0),
        ("not_lower", -5.0, REVERSED, 2.0),
        ("not_higher", 1.0, HOLDS, 2.0),
        ("not_higher", 5.0, REVERSED, 2.0),
    ],
)
def test_a_word_s_p_value_is_that_of_the_nearest_border(
    expects: str, value: float, word: Finding, distance: float
) -> None:
    assert distance_to_another_word(estimate(value), word, expects) == distance
    wanted = 2 * stats.t.sf(2.0, 7) if distance > 0 else 1.0  # 0.0856 two-sided
    assert word_p_value(estimate(value), (), word, expects) == pytest.approx(wanted)


@pytest.mark.parametrize("word", [OPEN, NOT_ENGAGED])
def test_a_word_that_says_nothing_has_no_evidence(word: Finding) -> None:
    assert math.isnan(distance_to_another_word(estimate(5.0), word, "higher"))
    assert word_p_value(estimate(5.0), LOOKS, word, "higher") == 1.0


def test_one_look_has_its_own_p_value_and_the_first_of_several_its_part_of_the_error() -> None:
    assert repeated_p_value(0.03, (8,), 8) == 0.03
    assert repeated_p_value(0.01, LOOKS, 8) == pytest.approx(0.02)  # 8 of 16 seeds: half of the error
    assert repeated_p_value(0.7, LOOKS, 8) == 1.0


@pytest.mark.parametrize(("p", "seeds"), [(0.02, 12), (0.001, 16), (1e-6, 12)])
def test_a_repeated_p_value_is_the_error_whose_boundary_is_reached(p: float, seeds: int) -> None:
    error = repeated_p_value(p, LOOKS, seeds)
    assert error > p
    assert nominal_levels(LOOKS, error)[LOOKS.index(seeds)] == pytest.approx(p, rel=1e-3)


def test_both_looks_are_one_sample_at_the_level_of_a_further_look() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(1.0, 2.0, 8), rng.normal(0.0, 2.0, 12)
    first, second = (paired_difference(one, np.zeros(len(one))) for one in (a, b))
    found = pool_looks(first, second, LOOKS, LOOKS)
    level = 1 - nominal_levels((8, 16, 20, 24), 0.05)[2]
    together = np.concatenate([a, b])
    plain = paired_difference(together, np.zeros(20), level)
    assert found.level == pytest.approx(level)
    assert (found.value, found.low, found.high) == pytest.approx((plain.value, plain.low, plain.high))
    assert (found.seeds, found.degrees) == (20, 19)


def test_looks_without_spread_or_pairs_are_not_pooled() -> None:
    with pytest.raises(ValueError, match="no interval"):
        pool_looks(Estimate(1.0, seeds=1), estimate(1.0), LOOKS, LOOKS)
    welch = Estimate(1.0, 0.0, 2.0, seeds=8, standard_error=1.0, degrees=9.3, method="Welch t over seeds")
    with pytest.raises(ValueError, match="not paired"):
        pool_looks(welch, estimate(1.0), LOOKS, LOOKS)


def test_what_two_looks_have_in_common_is_named() -> None:
    first = {0: "set/0", 1: "set/1", 2: "set/2"}
    assert overlap_text(first, {16: "set/16", 17: "set/17"}) == ""
    assert overlap_text(first, {2: "set/18"}) == "the seed 2"
    assert overlap_text(first, {16: "set/0", 17: "set/1"}) == "the base policies set/0, set/1"
    assert overlap_text(first, {1: "set/2"}) == "the seed 1 and the base policy set/2"

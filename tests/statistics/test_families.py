"""The words and the intervals of a column: by hand, by scipy, and that they never disagree."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from tables import table

from analysis.tables.table import Column, cell_text
from harness.statistics.intervals import Estimate, Independent, Paired, Verdict, judge, judge_one

FINITE = st.integers(-200, 200).map(lambda tenths: tenths / 1000)
SEEDS = st.lists(FINITE, max_size=8)
DIFFERENCES = st.one_of(st.builds(Paired, SEEDS), st.builds(Independent, SEEDS, SEEDS))
COLUMN = Column("d", "difference", scale=100, signed=True, words=True)


def test_each_interval_is_students_or_welchs_at_the_level_of_one():
    a, b, c = [0.03, 0.05, 0.02, 0.06], [0.5, 0.52, 0.55], [0.4, 0.48, 0.47, 0.41, 0.5]
    found = judge({"paired": Paired(a), "independent": Independent(b, c)})
    level = math.sqrt(0.95)
    student = stats.t.interval(level, 3, loc=np.mean(a), scale=stats.sem(a))
    welch = stats.ttest_ind(b, c, equal_var=False).confidence_interval(level)
    assert (found["paired"].low, found["paired"].high) == pytest.approx(student)
    assert (found["independent"].low, found["independent"].high) == pytest.approx(tuple(welch))
    assert {estimate.family for estimate in found.values()} == {2}


def test_a_comparison_that_stands_alone_is_not_corrected():
    seeds = [0.03, 0.05, 0.02]
    (alone,) = judge({"a": Paired(seeds)}).values()
    assert (alone.level, alone.adjusted_p) == (0.95, pytest.approx(alone.p_value))
    assert alone == judge_one(Paired(seeds))


def test_comparisons_without_two_seeds_count_in_the_family():
    """What has not run, or fails, must not make the intervals of the others narrower."""
    found = judge({"a": Paired([0.03, 0.05]), "b": Paired([0.1]), "c": Independent([0.1, 0.2], []), "d": Paired([])})
    assert found["a"].level == pytest.approx(0.95 ** (1 / 4))
    assert [found[name].verdict for name in "bcd"] == [Verdict.NOT_RESOLVED] * 3
    assert found["b"].value == 0.1


@table(__file__, "words", "low, high, margin, verdict, words")
def test_the_word_is_where_the_interval_lies(low, high, margin, verdict, words):
    estimate = Estimate((low + high) / 2, low, high, margin=margin)
    assert estimate.verdict is Verdict[verdict]
    assert estimate.words(100, "points") == words


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.text("abcdef", min_size=1), DIFFERENCES, max_size=6), st.sampled_from([None, 0.03, 0.1]))
def test_no_interval_contradicts_its_word_or_its_p_value(differences, margin):
    found = judge(differences, margin=margin)
    assert list(found) == list(differences)
    for estimate in found.values():
        excludes_zero = estimate.low > 0 or estimate.high < 0
        assert estimate.resolved is excludes_zero
        assert excludes_zero is estimate.verdict.startswith(("higher", "lower"))
        if excludes_zero:
            assert (estimate.value > 0) is estimate.verdict.startswith("higher")
        if estimate.verdict is Verdict.EQUIVALENT:
            assert -margin < estimate.low <= 0 <= estimate.high < margin
        if abs(estimate.adjusted_p - 0.05) > 1e-9:
            assert excludes_zero is (estimate.adjusted_p < 0.05)


@settings(max_examples=300, deadline=None)
@given(st.floats(-0.05, 0.05), st.floats(0, 0.05), st.sampled_from([None, 0.03]))
def test_the_printed_interval_does_not_contradict_the_printed_word(low, width, margin):
    text = cell_text(Estimate(low + width / 2, low, low + width, margin=margin), COLUMN)
    low_text, high_text = text[text.index("[") + 1 : text.index("]")].replace("−", "-").split(", ")
    word = text[text.index("] ") + 2 :]
    printed_low, printed_high = float(low_text), float(high_text)
    assert (printed_low > 0) is word.startswith("higher")
    assert (printed_high < 0) is word.startswith("lower")
    if margin is not None:
        inside = printed_low > -100 * margin and printed_high < 100 * margin
        assert inside is any(part in word for part in ("equivalent", "less than"))

"""Reduced simulation: intervals and words keep their promise (``python experiments/statistics/simulation.py`` for the full one)."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from simulated_coverage import Model, rates, table
from simulated_ladders import LADDERS, bounds, detection_rate, draw, false_words
from simulated_looks import (
    COMPARISONS,
    EQUIVALENT,
    HIGHER,
    LADDER,
    LOWER,
    OPEN,
    any_of,
    fixed_seeds,
    power_at_least,
    run_course,
    simulate_ladders,
)

from harness.statistics.intervals import Independent, Paired, Verdict, comparison_level, judge, judge_one
from harness.statistics.sequential import design_levels

LOOKS = (5, 8, 11, 14, 17, 20)


@pytest.mark.parametrize(("seeds", "paired"), [(3, True), (5, True), (10, True), (5, False), (10, False)])
def test_null_is_resolved_five_percent_of_the_time_and_intervals_cover(seeds, paired):
    measured = rates(seeds, paired=paired, simulations=1500, model=Model(problems=32, shared_variance=0.5 * paired))
    assert measured.false_positive == pytest.approx(0.05, abs=0.015)
    assert 0.93 <= measured.coverage <= 0.97


def test_the_published_table_of_coverage_is_of_this_script():
    page = (Path(__file__).parents[2] / "experiments/statistics/README.md").read_text()
    assert all(f"\n{line.rpartition(' | ')[0]} | " in page for line in list(table(20, 0))[1:])


@pytest.mark.parametrize("name", LADDERS)
def test_the_simulated_bounds_are_those_of_the_tables(name):
    ladder = dataclasses.replace(LADDERS[name], truth=(0, 1, 0, 2, 2, 5))
    arms = draw(ladder, 4, 20, np.random.default_rng(1))
    low, high = bounds(ladder, arms)
    for row in range(20):
        pairs = [(arms[i + 1][row], arms[i][row]) for i in range(5)]
        column = judge(
            {str(i): Paired(a - b) if ladder.paired else Independent(a, b) for i, (a, b) in enumerate(pairs)}
        )
        assert low[row] == pytest.approx([estimate.low for estimate in column.values()])
        assert high[row] == pytest.approx([estimate.high for estimate in column.values()])


@pytest.mark.parametrize("seeds", [3, 5, 8, 12])
@pytest.mark.parametrize("name", ["paired, arms alike", "paired, spreads of arms 0.5 to 4"])
def test_a_ladder_of_five_null_steps_has_a_false_word_five_percent_of_the_time(name, seeds):
    held, plain = false_words(LADDERS[name], seeds, 20_000)
    assert held == pytest.approx(0.05, abs=0.015)
    assert plain > 0.18


@pytest.mark.parametrize("seeds", [3, 5, 8, 12])
@pytest.mark.parametrize("name", [name for name in LADDERS if name.startswith("Welch")])
def test_independent_ladders_are_never_liberal(name, seeds):
    held, _ = false_words(LADDERS[name], seeds, 20_000)
    assert 0.02 <= held <= 0.065


def test_power_of_one_step_is_that_of_the_noncentral_t_at_the_corrected_level():
    critical = stats.t.isf((1 - comparison_level(5)) / 2, 4)
    exact = stats.nct.sf(critical, 4, 8.0 / (3.2 / np.sqrt(5)))
    assert detection_rate(8.0, 3.2, 5, 40_000) == pytest.approx(exact, abs=0.01)


@pytest.mark.parametrize("paired", [True, False])
def test_a_sequential_ladder_without_differences_gets_a_false_word_five_percent_of_the_time(paired):
    rate = any_of(simulate_ladders(LOOKS, 0.0, 6_000, paired=paired), HIGHER, LOWER)
    assert rate == pytest.approx(0.05, abs=0.015)


@pytest.mark.parametrize("edge", [1.0, 3.0])
def test_equivalent_is_false_at_the_edge_of_the_margin_in_at_most_five_percent(edge):
    rate = any_of(simulate_ladders(LOOKS, edge, 6_000, margin=edge), EQUIVALENT)
    assert 0.0 < rate <= 0.05


def test_a_difference_of_three_standard_deviations_takes_thirty_percent_fewer_seeds():
    found = simulate_ladders(tuple(range(4, 21, 2)), 3.0, 20_000)
    hits = int((found.word_NC == HIGHER).sum())
    fixed = fixed_seeds(power_at_least(hits, found.word_NC.size), 3.0)
    assert found.seeds_NC.mean() <= 0.7 * fixed


@pytest.mark.parametrize("paired", [True, False])
def test_the_course_has_the_words_of_the_verdict_core(paired):
    rng = np.random.default_rng(3)
    scores = rng.normal(0, np.sqrt(0.5), (40, COMPARISONS + 1, LOOKS[-1]))
    scores += rng.choice([0.0, 0.7, 3.0], (40, COMPARISONS + 1, 1))
    course = run_course(scores, LADDER, LOOKS, paired=paired, margin=1.3)
    names = {HIGHER: "higher", LOWER: "lower", EQUIVALENT: "equivalent", OPEN: "not resolved"}
    seen = set()
    for arms, words, closed in zip(scores, course.word_NC, course.seeds_NC, strict=True):
        for (ours, theirs), code, seeds_at_end in zip(LADDER, words, closed, strict=True):
            word, seeds = _one_by_one(arms[ours], arms[theirs], paired)
            assert (str(word).split(",")[0].split(" within")[0], seeds) == (names[code], seeds_at_end)
            seen.add(names[code])
    assert seen == set(names.values())


def _one_by_one(ours, theirs, paired):
    for seeds, level in zip(LOOKS, design_levels(LOOKS, COMPARISONS), strict=True):
        a, b = ours[:seeds], theirs[:seeds]
        estimate = judge_one(Paired(a - b) if paired else Independent(a, b), margin=1.3, level=1 - level)
        if estimate.verdict != Verdict.NOT_RESOLVED:
            break
    return estimate.verdict, seeds


def test_arms_get_seeds_while_one_of_their_comparisons_is_open():
    """The lower comparison is seen at once, the upper never: the arm they share goes on, the lowest stops."""
    rng = np.random.default_rng(0)
    noise = rng.normal(size=20)
    arms = np.stack([noise, noise + 100 + 0.01 * rng.normal(size=20), noise + 100 + 5 * rng.normal(size=20)])
    course = run_course(arms[None], [(1, 0), (2, 1)], LOOKS)
    assert course.word_NC.tolist() == [[HIGHER, OPEN]]
    assert course.seeds_NC.tolist() == [[5, 20]]
    assert course.runs_N.tolist() == [5 + 20 + 20]

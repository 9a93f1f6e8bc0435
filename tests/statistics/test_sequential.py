"""Boundaries of the sequential design: against published constants, geometry, simulation and the words of the verdict core."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from harness.experiment.looks import EQUIVALENT, HIGHER, LOWER, OPEN, expected_runs, heights, run_course
from harness.statistics.intervals import Independent, Paired, Verdict, judge_one
from harness.statistics.sequential import design_levels, nominal_levels

LOOKS = (5, 8, 11, 14, 17, 20)
COMPARISONS = 5
LADDER = [(arm + 1, arm) for arm in range(COMPARISONS)]


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


def test_expected_runs_lie_between_the_first_look_and_the_budget_and_fall_with_the_difference():
    runs = [expected_runs(6, LADDER, LOOKS, effect) for effect in (0.0, 1.0, 2.0, 3.0)]
    assert 6 * 5 < runs[3] < runs[2] < runs[1] < runs[0] < 6 * 20
    assert heights(4, [(1, 0), (2, 1), (3, 0)]).tolist() == [0, 1, 2, 1]
    assert heights(3, [(0, 1), (1, 2)]).tolist() == [2, 1, 0]

"""A sequential experiment out of its store: what each look says, which seeds are wanted, and that nothing else matters."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from synthetic_store import SHORT, build_store, loaded, replanned

from analysis.answer import answer_of
from analysis.declared import wanted_seeds
from analysis.effects import declared_effects
from analysis.tables.experiment import all_tables, main_table
from harness.statistics.sequential import design_levels

LOOKS = (3, 5, 8)
# Neighbours differ by 0, by 40 points, and by 0: the middle comparison is closed at the first look that can.
RUNGS = [(name, name, accuracy, 1.0) for name, accuracy in (("a", 0.3), ("b", 0.301), ("c", 0.7), ("d", 0.701))]


def build(root, seeds, missing=(), rungs=RUNGS):
    build_store(root, rungs=rungs, seeds=tuple(range(seeds)), missing=missing, looks=LOOKS, **SHORT)
    return loaded(root)


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return build(tmp_path_factory.mktemp("whole"), 8)


def test_a_look_is_the_t_interval_of_its_first_seeds_at_its_level(whole):
    lower, middle, _ = whole.looks
    levels = design_levels(LOOKS, 3)
    a, b = (whole.scores(arm, "avg") for arm in (lower.arm, lower.reference))
    assert [estimate.seeds for estimate in lower.looks] == list(LOOKS)
    for estimate, level in zip(lower.looks, levels, strict=True):
        difference = np.array([a[seed] - b[seed] for seed in range(estimate.seeds)])
        interval = stats.ttest_1samp(difference, 0.0).confidence_interval(1 - level)
        assert (estimate.low, estimate.high) == pytest.approx((interval.low, interval.high))
    assert lower.state == "open at the budget"
    assert (middle.state, middle.newest.verdict, middle.newest.seeds) == ("decided", "higher", 3)


def test_arms_get_the_seeds_of_the_longest_of_their_comparisons(whole, tmp_path):
    plan = whole.experiment.plan
    assert wanted_seeds(plan, whole.looks) == {"a": 8, "b": 8, "c": 8, "d": 8}
    first = build(tmp_path, 3)
    assert [one.next_look for one in first.looks] == [5, None, 5]
    assert wanted_seeds(plan, first.looks) == {"a": 5, "b": 5, "c": 5, "d": 5}


def test_an_arm_stops_with_the_last_of_its_comparisons(tmp_path):
    rungs = [("a", "a", 0.2, 1.0), ("b", "b", 0.8, 1.0), ("c", "c", 0.801, 1.0)]
    results = build(tmp_path, 3, rungs=rungs)
    assert wanted_seeds(results.experiment.plan, results.looks) == {"a": 3, "b": 5, "c": 5}


@pytest.mark.parametrize("status", ["failed", "not started", "running"])
def test_half_a_look_decides_nothing(tmp_path, status):
    """Seed 2 of c is missing: both its comparisons wait for the first look, whatever the other seeds say."""
    results = build(tmp_path, 5, missing=[((2, 2), status)])
    lower, middle, upper = results.looks
    assert (middle.looks, middle.next_look, upper.looks, upper.next_look) == ((), 3, (), 3)
    assert (len(lower.looks), lower.next_look) == (2, 8)
    assert results.declared["c"].seeds == 0
    assert answer_of(results).lines[1].verdict == "open, next look at 3 seeds"


def test_seeds_beyond_the_look_do_not_matter(whole, tmp_path):
    """The middle comparison was closed at 3 seeds; that its arms have 8 by now changes nothing in it."""
    early, late = build(tmp_path, 3).looks[1], whole.looks[1]
    assert early.newest == late.newest


def test_a_comparison_tells_its_method_and_has_no_p_value_of_seeds_beyond_its_look(whole):
    assert all(np.isnan(effect.estimate.p_value) for effect in declared_effects(whole))
    methods = [replanned(whole, paired=paired).looks[0].newest.method for paired in (True, False)]
    assert methods == ["repeated t interval", "repeated Welch t interval"]


def test_tables_show_the_path_and_keep_to_the_declared_comparisons(whole):
    table = main_table(whole)
    assert [row["look"] for row in table.rows[2:]] == [
        "open at the budget, 8 seeds",
        "at 3 seeds",
        "open at the budget, 8 seeds",
    ]
    assert whole.to_base == {}
    assert "delta_base" not in [column.key for column in table.columns]
    notes = " ".join(table.notes)
    assert "looks at 3, 5, 8 seeds, declared in advance" in notes
    assert "keeps interval and verdict of its last look" in notes
    assert "80 % power" not in notes
    (looks,) = [found for found in all_tables(whole) if found.name == "ladder-looks"]
    text = looks.text()
    assert [len([cell for cell in row[2:-1] if cell != "–"]) for row in text] == [3, 1, 3]
    assert "higher" in text[1][2]

"""Seeds that share base policies: intervals are over base policies, and hold their level where seeds taken one by one do not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from synthetic_store import SHORT, build_store, loaded, replanned
from tables import table

from analysis.html.page import render_page
from analysis.tables.experiment import main_table
from harness.experiment.plan import Plan
from harness.experiment.planning import plan_experiment
from harness.statistics.intervals import Paired, judge_one, minimum_detectable_difference
from harness.statistics.sequential import design_levels

BASES, SEEDS, LOOKS = 4, 8, (4, 8)


def built(root, base_policies):
    rungs = [("a", "a", 0.3, 1.0), ("b", "b", 0.32, 1.0)]
    build_store(root, rungs=rungs, seeds=tuple(range(SEEDS)), base_policies=base_policies, **SHORT)
    return loaded(root)


def of_two(root):
    """The results over shared base policies, b and a, their scores by seed, and the differences."""
    results = built(root, BASES)
    arms = [results.experiment.plan.arm(name) for name in "ba"]
    scores = [results.scores(arm, "avg") for arm in arms]
    return results, arms, scores, np.array([scores[0][seed] - scores[1][seed] for seed in range(SEEDS)])


def test_intervals_are_students_over_the_means_of_base_policies(tmp_path):
    results, (b, a), scores, differences = of_two(tmp_path)
    means = differences.reshape(-1, BASES).mean(axis=0)  # seeds 0 and 4 start from one base policy
    found = results.difference(b, a)
    interval = stats.ttest_1samp(means, 0.0).confidence_interval(0.95)
    assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
    assert (found.value, found.seeds, found.degrees) == (pytest.approx(differences.mean()), SEEDS, BASES - 1)
    level = np.array(list(scores[0].values())).reshape(-1, BASES).mean(axis=0)
    interval = stats.ttest_1samp(level, 0.0).confidence_interval(0.95)
    mean = results.mean(b)
    assert (mean.low, mean.high) == pytest.approx((interval.low, interval.high))
    assert mean.seeds == SEEDS
    assert any("over base policies, each the mean of its seeds" in note for note in main_table(results).notes)
    assert "t interval over base policies, pointwise" in render_page(results, tmp_path).replace("\n", " ")


def test_without_shared_base_policies_every_seed_counts(tmp_path):
    results = built(tmp_path, None)
    b, a = (results.experiment.plan.arm(name) for name in "ba")
    assert results.difference(b, a).degrees == SEEDS - 1
    assert not any("base policies" in note for note in main_table(results).notes)


def test_looks_are_taken_over_base_policies_too(tmp_path):
    (one,) = replanned(built(tmp_path, BASES), looks=LOOKS).looks
    assert [look.seeds for look in one.looks] == list(LOOKS)[: len(one.looks)]
    assert all(look.degrees == BASES - 1 for look in one.looks)


@table(__file__, "turns", "changes, expected")
def test_the_plan_records_how_many_base_policies_take_turns(changes, expected):
    record = plan_experiment(["experiment=dapo_ladder", *changes]).record()
    assert record["base_policies"] == expected
    assert Plan.read(record).base_policies == expected


def test_the_declared_error_holds_where_an_effect_differs_between_base_policies():
    """Null on average, but every base policy has its own difference: 8 base policies, looks at 8, 16, 24 seeds, one comparison."""
    rng, looks, count = np.random.default_rng(5), (8, 16, 24), 1500
    levels = design_levels(looks, 1)
    wrong = {"by base": 0, "by seed": 0}
    for _ in range(count):
        differences = rng.normal(0, 1, 8)[None] + rng.normal(0, 1, (3, 8))
        for name, rows in (("by base", True), ("by seed", False)):
            for look, level in enumerate(levels, 1):
                seen = differences[:look]
                values = seen.mean(axis=0) if rows else seen.ravel()
                if judge_one(Paired(values.tolist()), level=1 - level).resolved:
                    wrong[name] += 1
                    break
    # standard error 0.6 points
    assert wrong["by base"] / count < 0.065
    assert wrong["by seed"] / count > 0.09


def test_power_counts_base_policies(tmp_path):
    results, _, _, differences = of_two(tmp_path)
    sd = differences.reshape(-1, BASES).mean(axis=0).std(ddof=1)
    smallest = minimum_detectable_difference(float(sd), BASES, paired=True, alpha=0.05)
    (note,) = [note for note in main_table(results).notes if "80 % power" in note]
    assert note.startswith(f"With 4 base policies a difference of {100 * smallest:.1f} points is found")
    assert any(note.startswith("4 base policies are a survey:") for note in main_table(results).notes)

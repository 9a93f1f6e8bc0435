"""What runs were evaluated on beside the benchmark that their experiment is about: tables, and results of one of them."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from synthetic_store import build_store, make_samples

from analysis import difference, on_benchmark, seed_frame
from analysis.evidence.load import load_experiment
from analysis.evidence.results import results_of
from analysis.report import write_tables
from analysis.tables.experiment_tables import all_tables
from harness.store import layout

OWN, OTHER = "arithmetic_heldout", "aime25"
PROBLEMS, SAMPLES = 12, 4


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Three rungs with four seeds; a second benchmark that one run of the last rung was not evaluated on."""
    store = build_store(tmp_path_factory.mktemp("two"), seeds=(0, 1, 2, 3), problems=8, n=8)
    for arm in store.plan("ladder")["arms"]:
        for seed, run_id in arm["runs"].items():
            if (arm["name"], seed) == ("ladder_3_dynamic_sampling", "3"):
                continue
            for step in (0, 20):
                rng = np.random.default_rng([int(seed), step, len(arm["name"])])
                frames = [make_samples(rng, 0.2 + 0.02 * step, PROBLEMS, SAMPLES, cap) for cap in (32, 64)]
                store.run(run_id).write_samples(OTHER, 1, step, pd.concat(frames, ignore_index=True))
    return store


@pytest.fixture(scope="module")
def results(store):
    return results_of(load_experiment(store.root, "ladder"))


def by_hand(store, arm, benchmark, step=20):
    """avg@n by seed at the primary cap, out of the samples themselves."""
    found = {}
    for seed, run_id in next(a for a in store.plan("ladder")["arms"] if a["name"] == arm)["runs"].items():
        run = store.run(run_id)
        if step in run.sample_steps(benchmark):
            samples = run.samples(benchmark, step)
            found[int(seed)] = float(samples.loc[samples["max_response_tokens"] == 32, "correct"].mean())
    return found


def test_scores_are_those_of_each_benchmark_and_their_mean(store, results):
    table = {table.name: table for table in all_tables(results)}["ladder-benchmarks"]
    before, *rows = table.rows
    assert [column.key for column in table.columns] == ["arm", OWN, OTHER, "mean of all"]
    for row, arm in zip(rows, results.experiment.plan.arms, strict=True):
        own, other = by_hand(store, arm.name, OWN), by_hand(store, arm.name, OTHER)
        assert row[OWN].value == pytest.approx(np.mean([*own.values()]))
        assert row[OTHER].value == pytest.approx(np.mean([*other.values()]))
        both = [(own[seed] + other[seed]) / 2 for seed in other]
        assert row["mean of all"].value == pytest.approx(np.mean(both))
        half = stats.t.ppf(0.975, len(both) - 1) * np.std(both, ddof=1) / np.sqrt(len(both))
        assert row["mean of all"].high - row["mean of all"].value == pytest.approx(half)
    assert before[OTHER] == pytest.approx(
        np.mean(
            [v for arm in results.experiment.plan.arms for v in by_hand(store, arm.name, OTHER, 0).values()]
        )
    )
    assert before["mean of all"] == pytest.approx((before[OWN] + before[OTHER]) / 2)
    assert any("Samples a problem: arithmetic_heldout 8, aime25 4." in note for note in table.notes)
    assert any("dynamic sampling_& refill 3 of 4 on aime25" in note for note in table.notes)


def test_differences_on_the_others_hold_together_over_the_whole_table(store, results):
    table = {table.name: table for table in all_tables(results)}["ladder-benchmark-differences"]
    assert [column.key for column in table.columns] == ["arm", OTHER, "mean of all"]
    found = table.rows[3][OTHER]
    below, last = (by_hand(store, arm.name, OTHER) for arm in results.experiment.plan.arms[2:])
    by_seed = [last[seed] - below[seed] for seed in last]
    assert found.value == pytest.approx(np.mean(by_seed))
    assert (found.seeds, found.family) == (3, 6)  # three differences on each of two columns
    quantile = stats.t.ppf((1 + 0.95 ** (1 / 6)) / 2, 2)
    assert found.high - found.value == pytest.approx(quantile * np.std(by_seed, ddof=1) / np.sqrt(3))


def test_the_other_benchmark_changes_no_table_of_the_first(store, results, tmp_path):
    """Byte for byte, the frames of the front included."""
    alone = results_of(load_experiment(_without_other(store, tmp_path / "alone"), "ladder"))
    texts = []
    for index, one in enumerate((results, alone)):
        tables = [table for table in all_tables(one) if "benchmark" not in table.name]
        paths = write_tables(one, tables, tmp_path / f"tables_{index}")
        texts.append({path.name: path.read_bytes() for path in paths})
    assert texts[0] == texts[1]
    assert not any("benchmark" in table.name for table in all_tables(alone))
    pd.testing.assert_frame_equal(results.experiment.cells, alone.experiment.cells)


def _without_other(store, root):
    build_store(root, seeds=(0, 1, 2, 3), problems=8, n=8)
    return root


def test_results_on_another_benchmark_answer_like_any(store, results):
    other = on_benchmark(results, OTHER)
    arms = [arm.name for arm in results.experiment.plan.arms]
    frame = seed_frame(other).set_index(["arm", "seed"])["avg"]
    for arm in arms:
        assert frame[arm].to_dict() == pytest.approx(
            {k: 100 * v for k, v in by_hand(store, arm, OTHER).items()}
        )
    a, b = by_hand(store, arms[1], OTHER), by_hand(store, arms[0], OTHER)
    assert difference(other, arms[1], arms[0]).value == pytest.approx(100 * np.mean([a[s] - b[s] for s in a]))
    assert all(arm.published is None for arm in other.experiment.plan.arms)
    assert {table.name for table in all_tables(other)} >= {"ladder", "ladder-benchmarks"}
    back = on_benchmark(other, OWN)
    assert back.scores(back.experiment.plan.arms[0], "avg") == results.scores(
        results.experiment.plan.arms[0], "avg"
    )
    with pytest.raises(LookupError, match=r"'amc23'; benchmarks: arithmetic_heldout, aime25"):
        on_benchmark(results, "amc23")


def test_every_metric_of_evaluations_has_its_tables(store, tmp_path):
    plan = {**store.plan("ladder"), "metric": ["pass@4", "length", "generated_tokens"]}
    path = layout.plan_file(store.root, "metrics")
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({**plan, "name": "metrics"}))
    tables = {table.name: table for table in all_tables(results_of(load_experiment(store.root, "metrics")))}
    named = {name for name in tables if "benchmark" in name}
    assert named == {
        "metrics-benchmarks",
        "metrics-benchmark-differences",
        "metrics-benchmarks-length",
        "metrics-benchmark-differences-length",
    }
    lengths = tables["metrics-benchmarks-length"]
    assert lengths.columns[2].header == "aime25, tokens (95 % interval)"
    assert lengths.rows[1][OTHER].value > 1
    assert tables["metrics-benchmark-differences"].rows[1][OTHER].family == 18  # three metrics


def test_a_sequential_design_judges_nothing_on_benchmarks_that_did_not_stop_it(store):
    plan = {**store.plan("ladder"), "name": "looked", "looks": [2, 4], "margin": 3}
    path = layout.plan_file(store.root, "looked")
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(plan))
    tables = {table.name: table for table in all_tables(results_of(load_experiment(store.root, "looked")))}
    assert "looked-benchmark-differences" not in tables
    assert any("decided how many seeds ran" in note for note in tables["looked-benchmarks"].notes)

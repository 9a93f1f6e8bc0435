"""What runs were evaluated on beside the benchmark that their experiment is about: tables, and results of one of them."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from scipy import stats
from synthetic_store import RUNGS, build_store, loaded, make_samples, replanned

from analysis import difference, on_benchmark, seed_frame
from analysis.answer import answer_sentences
from analysis.effects import benchmark_differences
from analysis.report import write_tables
from analysis.tables.experiment import all_tables
from harness.store import layout

OWN, OTHER, MEAN = "arithmetic_heldout", "aime25", "mean of all"
PROBLEMS, SAMPLES = 12, 4


def on(benchmark):
    """The key of a benchmark's column."""
    return f"on:{benchmark}"


def declare(store, name, **changes):
    """Another plan over the same runs, and its tables by name."""
    path = layout.plan_file(store.root, name)
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps({**store.plan("ladder"), "name": name, **changes}))
    return {table.name: table for table in all_tables(loaded(store.root, name))}


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
    return loaded(store.root)


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
    assert [column.key for column in table.columns] == ["arm", on(OWN), on(OTHER), on(MEAN)]
    for row, arm in zip(rows, results.experiment.plan.arms, strict=True):
        own, other = by_hand(store, arm.name, OWN), by_hand(store, arm.name, OTHER)
        assert row[on(OWN)].value == pytest.approx(np.mean([*own.values()]))
        assert row[on(OTHER)].value == pytest.approx(np.mean([*other.values()]))
        both = [(own[seed] + other[seed]) / 2 for seed in other]
        assert row[on(MEAN)].value == pytest.approx(np.mean(both))
        half = stats.t.ppf(0.975, len(both) - 1) * np.std(both, ddof=1) / np.sqrt(len(both))
        assert row[on(MEAN)].high - row[on(MEAN)].value == pytest.approx(half)
    untrained = [by_hand(store, arm.name, OTHER, 0).values() for arm in results.experiment.plan.arms]
    assert before[on(OTHER)] == pytest.approx(np.mean([value for values in untrained for value in values]))
    assert before[on(MEAN)] == pytest.approx((before[on(OWN)] + before[on(OTHER)]) / 2)
    assert any("Samples a problem: arithmetic_heldout 8, aime25 4." in note for note in table.notes)
    assert any("dynamic sampling_& refill 3 of 4 on aime25" in note for note in table.notes)


def test_guessing_on_the_declared_benchmark_says_nothing_of_the_mean(results):
    guessed = replanned(results, chances=[[0.99, 1.0]])
    assert all("not informative" in one.absent for one in guessed.declared.values())
    assert [one.absent for one in benchmark_differences(guessed)[MEAN].values()] == [""] * len(guessed.declared)


def test_differences_on_the_others_hold_together_over_the_whole_table(store, results):
    table = {table.name: table for table in all_tables(results)}["ladder-benchmark-differences"]
    assert [column.key for column in table.columns] == ["arm", on(OTHER), on(MEAN)]
    found = table.rows[3][on(OTHER)]
    below, last = (by_hand(store, arm.name, OTHER) for arm in results.experiment.plan.arms[2:])
    by_seed = [last[seed] - below[seed] for seed in last]
    assert found.value == pytest.approx(np.mean(by_seed))
    assert (found.seeds, found.family) == (3, 6)  # three differences on each of two columns
    quantile = stats.t.ppf((1 + 0.95 ** (1 / 6)) / 2, 2)
    assert found.high - found.value == pytest.approx(quantile * np.std(by_seed, ddof=1) / np.sqrt(3))


def test_the_other_benchmark_changes_no_table_of_the_first(store, results, tmp_path):
    """Byte for byte, the frames of the front included."""
    alone = loaded(build_store(tmp_path / "alone", seeds=(0, 1, 2, 3), problems=8, n=8).root)
    texts = []
    for index, one in enumerate((results, alone)):
        paths = write_tables(one, tmp_path / f"tables_{index}", everything=True)
        others = ("benchmark", "numbers.tex")
        texts.append({path.name: path.read_bytes() for path in paths if not any(map(path.name.count, others))})
    assert texts[0] == texts[1]
    assert not any("benchmark" in table.name for table in all_tables(alone))
    pd.testing.assert_frame_equal(results.experiment.cells, alone.experiment.cells)


def test_results_on_another_benchmark_answer_like_any(store, results):
    other = on_benchmark(results, OTHER)
    arms = [arm.name for arm in results.experiment.plan.arms]
    frame = seed_frame(other).set_index(["arm", "seed"])["avg"]
    for arm in arms:
        expected = {seed: 100 * value for seed, value in by_hand(store, arm, OTHER).items()}
        assert frame[arm].to_dict() == pytest.approx(expected)
    a, b = by_hand(store, arms[1], OTHER), by_hand(store, arms[0], OTHER)
    assert difference(other, arms[1], arms[0]).value == pytest.approx(100 * np.mean([a[s] - b[s] for s in a]))
    assert all(arm.published is None for arm in other.experiment.plan.arms)
    (main,) = [table for table in all_tables(other) if table.name == "ladder"]
    assert any("what is said of aime25 here was not declared" in note for note in main.notes)
    assert not any("benchmark" in table.name for table in all_tables(other))
    with pytest.raises(LookupError, match=r"'amc23': no run was evaluated on it; .*: arithmetic_heldout, aime25"):
        on_benchmark(results, "amc23")


def test_every_metric_of_evaluations_has_its_tables(store):
    tables = declare(store, "metrics", metric=["pass@4", "length", "generated_tokens", "pass@64"])
    names = ("metrics-benchmarks", "metrics-benchmark-differences")
    expected = {f"{name}{metric}" for name in names for metric in ("", "-length")}
    assert {name for name in tables if "benchmark" in name} == expected
    lengths = tables["metrics-benchmarks-length"]
    assert lengths.columns[2].header == "aime25, tokens (95 % interval)"
    assert lengths.rows[1][on(OTHER)].value > 1
    assert tables["metrics-benchmark-differences"].rows[1][on(OTHER)].family == 24  # four metrics
    assert any("No finished run has a value of pass@64" in note for note in tables["metrics-pass_64"].notes)


def test_a_sequential_design_judges_nothing_on_benchmarks_that_did_not_stop_it(store):
    tables = declare(store, "looked", looks=[2, 4], margin=3)
    assert "looked-benchmark-differences" not in tables
    assert any("decided how many seeds ran" in note for note in tables["looked-benchmarks"].notes)
    other = on_benchmark(loaded(store.root, "looked"), OTHER)
    (main,) = [table for table in all_tables(other) if table.name == "looked"]
    assert any("arithmetic_heldout decided how many seeds ran" in note for note in main.notes)
    assert {column.key for column in main.columns} == {"arm", "score", "delta", "seeds"}
    assert main.title == "Which rung helps? on aime25"
    assert not any("80 % power" in note for note in main.notes)
    assert not any("single comparison" in line for line in answer_sentences(other))


def small(root, **changes):
    """Two arms by two seeds, and the ids of their runs."""
    store = build_store(root, rungs=RUNGS[:2], seeds=(0, 1), problems=4, n=4, caps=(32,), **changes)
    return store, [run for arm in store.plan("ladder")["arms"] for run in arm["runs"].values()]


def evaluate(store, run_id, step, benchmark=OTHER):
    store.run(run_id).write_samples(benchmark, 1, step, make_samples(np.random.default_rng(step), 0.5, 4, 4, 32))


def test_a_mean_is_of_one_checkpoint(tmp_path):
    """A run that was not evaluated on the other benchmark at its checkpoint has no value there, though it has one of an earlier step."""
    store, runs = small(tmp_path)
    for index, run_id in enumerate(runs):
        evaluate(store, run_id, 10 if index == 0 else 20)
    results = loaded(store.root)
    first = results.experiment.plan.arms[0]
    assert on_benchmark(results, OTHER).scores(first, "avg").keys() == {1}
    table = {table.name: table for table in all_tables(results)}["ladder-benchmarks"]
    assert table.rows[1][on(MEAN)].seeds == 1
    view = on_benchmark(results, OTHER)
    assert view.notes == ("ladder_0_naive_grpo, seed 0: not evaluated on aime25 at its checkpoint",)
    assert any("naive GRPO 1 of 2 on aime25" in note for note in table.notes)


@pytest.mark.parametrize("fault", ["a copied folder", "a torn file", "a missing column", "other parts"])
def test_whatever_is_wrong_with_another_benchmark_the_answer_is_written(tmp_path, fault):
    store, runs = small(tmp_path)
    for run_id in runs:
        for step in (0, 20):
            evaluate(store, run_id, step)
    own = loaded(store.root).per_seed
    folder = store.run(runs[0]).path / "samples" / OTHER
    (part,) = layout.samples_dir(store.run(runs[0]).path, OTHER, 20).glob("*.parquet")
    if fault == "a copied folder":
        shutil.copytree(folder, folder.with_name("aime25 old"))
    elif fault == "a torn file":
        part.write_bytes(b"PA")
    else:
        table = pq.read_table(part)
        changed = table.drop_columns(["verdict"]) if fault == "a missing column" else table.slice(0, 3)
        pq.write_table(changed, part)
    results = loaded(store.root)
    pd.testing.assert_frame_equal(results.per_seed, own)
    tables = {table.name: table for table in all_tables(results)}
    assert tables["ladder-benchmarks"].rows[2][on(OTHER)].value > 0
    assert list(results.experiment.further) == [OTHER]

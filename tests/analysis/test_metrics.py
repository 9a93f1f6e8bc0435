"""A question about anything but accuracy: metrics per seed, their differences as one family, their names and units wherever told."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from synthetic_store import RUNGS, SHORT, build_store, declared
from tables import table

from analysis.answer import answer_sentences, decisions
from analysis.figures.curves import metric_figure
from analysis.figures.drawing import figure_style
from analysis.figures.effects import differences_figure, grid_figure
from analysis.html.page import chart_data
from analysis.report import write_answer
from analysis.samples import value_of
from analysis.tables.experiment import all_tables, main_table
from analysis.tables.table import to_markdown
from harness.evaluation.metrics.names import PLAIN, UnknownMetric, metric
from harness.experiment.plan import Plan, PlanError
from harness.statistics.sequential import design_levels
from harness.store import ResultStore

SEEDS = (0, 1, 2, 3)
ASKED = ["length_wrong", "avg", "pass@2", "truncated", "dead_groups", "area", "seconds", "generated_tokens"]
ASKED += ["training/gradient_norm"]


def declare(root, metrics, **more):
    return declared(root, **{"metric": metrics, "margin": None, **more})


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    path = tmp_path_factory.mktemp("metrics")
    build_store(path, seeds=SEEDS, problems=40, steps=20)
    return path


@pytest.fixture(scope="module")
def results(root):
    return declare(root, ASKED)


@table(__file__, "opened", "asked, first")
def test_the_chart_opens_on_the_first_declared_metric(root, asked, first):
    titles = [chart["title"] for chart in chart_data(declare(root, asked))["charts"]]
    assert first in titles[0]
    assert sum("evaluation accuracy" in title for title in titles) == 1


def test_names_carry_unit_scale_and_direction():
    wrong, gradient = metric("length_wrong"), metric("training/clip_fraction_low")
    assert (wrong.title, wrong.unit, wrong.better) == ("length of wrong answers", "tokens", "")
    assert (gradient.unit, gradient.scale, gradient.parameter) == ("points", 100, "clip_fraction_low")
    assert (metric("pass@8").header, wrong.header) == ("Pass@8 %", "length of wrong answers, tokens")
    assert metric("training/gradient_norm").file_name == "training_gradient_norm"
    assert all(metric(name).name == name for name in [*PLAIN, *ASKED])


@table(__file__, "unknown", "name, words")
def test_names_that_cannot_be_say_what_can(name, words):
    with pytest.raises(UnknownMetric, match=words):
        metric(name)


def test_plans_with_metrics_that_cannot_be_are_refused(root):
    plan = ResultStore(root).plan("ladder")
    with pytest.raises(PlanError, match="no metric 'speed'"):
        Plan.read({**plan, "metric": "speed"})
    assert Plan.read({**plan, "metric": ["avg", "length"], "margin": {"length": 3}}).margins == {"length": 3}


def run_samples(root, arm, seed):
    store = ResultStore(root)
    run_id = store.plan("ladder")["arms"][arm]["runs"][str(seed)]
    samples = store.run(run_id).samples("arithmetic_heldout", 20)
    return samples[samples["max_response_tokens"] == 32], store.run(run_id).steps()


def test_every_metric_is_that_of_the_stored_samples_and_steps(root, results):
    arm = results.experiment.plan.arms[2]
    for seed in SEEDS:
        samples, steps = run_samples(root, 2, seed)
        of = {name: results.about(metric(name)).values(arm)[seed] for name in ASKED}
        assert of["length_wrong"] == pytest.approx(samples[~samples["correct"]]["response_tokens"].mean())
        assert of["avg"] == pytest.approx(samples["correct"].mean())
        assert of["truncated"] == pytest.approx((samples["finish_reason"] == "length").mean())
        right = samples.groupby("problem_id")["correct"].sum()
        assert of["pass@2"] == pytest.approx(np.mean([1 - math.comb(8 - c, 2) / math.comb(8, 2) for c in right]))
        assert of["dead_groups"] == pytest.approx(((steps["all_right_groups"] + steps["all_wrong_groups"]) / 32).mean())
        assert of["seconds"] == pytest.approx(20 * 0.16)
        assert of["generated_tokens"] == 20 * 3100
        assert of["training/gradient_norm"] == pytest.approx(steps["gradient_norm"].mean())


def curve(*points):
    return pd.DataFrame(points, columns=["step", "avg"])


def test_area_by_hand():
    area, none = metric("area"), pd.DataFrame({"step": []})
    by_hand = (10 * 0.4 + 30 * 0.6) / 40
    assert value_of(area, curve((0, 0.2), (10, 0.6), (40, 0.6)), none, 40) == pytest.approx(by_hand)
    assert math.isnan(value_of(area, curve((0, 0.2)), none, 0))


def test_what_a_run_has_not_logged_has_no_value():
    cells, logged = curve((0, 0.2), (10, 0.6)), pd.DataFrame({"step": [10], "loss": [0.5]})
    for name in ("seconds", "dead_groups", "training/gradient_norm"):
        assert math.isnan(value_of(metric(name), cells, logged, 10)), name
        assert math.isnan(value_of(metric(name), cells, logged.iloc[:0], 10)), name
    assert value_of(metric("training/loss"), cells, logged, 10) == 0.5


def test_all_comparisons_of_all_metrics_hold_together(root):
    both = declare(root, ["length_wrong", "avg"], margin={"length_wrong": 1.5})
    for view in both.each_metric:
        arms, deltas = view.experiment.plan.arms, view.declared
        for arm, below in zip(arms[1:], arms[:-1], strict=True):
            a, b = view.values(arm), view.values(below)
            single = stats.ttest_1samp([a[s] - b[s] for s in SEEDS], 0).confidence_interval(0.95 ** (1 / 6))
            assert (deltas[arm.name].low, deltas[arm.name].high) == pytest.approx((single.low, single.high))
            assert deltas[arm.name].family == 6
        assert view.margin == (1.5 if view.metric.name == "length_wrong" else None)
    assert declare(root, "length_wrong").declared[RUNGS[1][0]].family == 3
    lone = both.about(metric("entropy"))  # asked of the API only: no part of the declared family
    assert lone.declared[RUNGS[1][0]].family == 3


def test_factorial_effects_of_several_metrics_are_one_family(tmp_path):
    patches = [[], ["a"], ["b"], ["a", "b"]]
    build_store(tmp_path, seeds=SEEDS, problems=20, steps=2, evaluate=(0, 2), design="factorial", patches=patches)
    tables = {table.name: table for table in all_tables(declare(tmp_path, ["avg", "length"]))}
    effects = tables["ladder-main-effects"], tables["ladder-main-effects-length"]
    assert [row["effect"].family for table in effects for row in table.rows] == [4] * 4
    assert "on length of answers, tokens" in effects[1].columns[1].header


def test_answer_table_and_figure_name_metric_unit_and_margin(root):
    view = declare(root, "length_wrong", margin=2.0)
    table, sentences = main_table(view), answer_sentences(view)
    headers, text = " ".join(column.header for column in table.columns), to_markdown(table)
    for said in (sentences[0].lower(), table.title, headers):
        assert "length of wrong answers" in said
    assert " tokens" in " ".join(sentences)
    assert "±2 tokens" in text
    assert "avg@" not in text
    with figure_style("screen"):
        forest, over_training = (draw(view) for draw in (differences_figure, metric_figure))
    labels = forest.axes[0].get_xlabel(), over_training.axes[0].get_ylabel()
    assert all("length of wrong answers" in label and "tokens" in label for label in labels)
    drawn = over_training.axes[0].lines[0].get_ydata()[-1]
    assert drawn == pytest.approx(view.mean(view.experiment.plan.arms[0]).value)


def test_every_metric_has_its_files_and_accuracy_is_never_called_by_another_name(root, tmp_path, monkeypatch):
    monkeypatch.setattr("analysis.figures.curves.FIGURES", {})  # those of training, which `test_figures.py` draws
    declare(root, ["length_wrong", "seconds"])
    paths = write_answer(root, "ladder", tmp_path, figures="all", formats=("svg",))
    names = {path.name for path in paths}
    assert {"ladder.md", "ladder-seconds.md", "differences-seconds.svg", "metric.svg"} <= names
    assert "metric-seconds.svg" not in names
    assert "seconds" in set(pd.read_csv(tmp_path / "frames" / "scores.csv")["metric"])
    assert "wall time of the run" in (tmp_path / "report.html").read_text()


def test_a_direction_decides_what_is_best_in_a_grid_and_none_is_best_without_one(tmp_path):
    cells = [(f"g{i}", f"g{i}", accuracy, 1.0) for i, accuracy in enumerate((0.4, 0.8, 0.5, 0.6))]
    arm_fields = [{"changes": {}, "overrides": [f"lr={x}", f"clip={y}"]} for x in (1, 2) for y in (1, 2)]
    build_store(tmp_path, rungs=cells, seeds=SEEDS, design="arms", arm_fields=arm_fields, **SHORT)
    tables = {table.name: table for table in all_tables(declare(tmp_path, ["no_answer", "avg", "entropy"]))}
    assert "Best: g1" in " ".join(tables["ladder-grid-avg"].notes)
    assert "Best" not in " ".join(tables["ladder-grid-entropy"].notes)
    view = declare(tmp_path, "no_answer")
    least = min(view.experiment.plan.arms, key=lambda arm: view.mean(arm).value)
    assert f"Best: {least.label}." in " ".join({table.name: table for table in all_tables(view)}["ladder-grid"].notes)
    with figure_style("screen"):
        assert grid_figure(view.about(metric("entropy"))) is not None


def test_a_metric_that_no_run_has_is_said_with_what_is_missing(root):
    for name, missing in (("pass@16", "8 samples a problem"), ("training/refill_rounds", "refill_rounds")):
        (note,) = [n for n in main_table(declare(root, name)).notes if n.startswith("No finished run")]
        assert name in note
        assert missing in note
    assert answer_sentences(declare(root, "pass@16"))[0].startswith("Pass@16: nothing to compare: no two arms")


def test_a_comparison_stays_open_until_all_its_metrics_are_decided(tmp_path):
    """Accuracy differs by 40 points, the lengths are drawn from one distribution."""
    rungs = [("a", "a", 0.2, 1.0), ("b", "b", 0.8, 1.0)]
    build_store(tmp_path, rungs=rungs, **SHORT)
    view = declare(tmp_path, "avg", looks=[3, 5])
    assert decisions(view.experiment.plan, ResultStore(tmp_path)).seed_counts == {"a": 3, "b": 3}
    view = declare(tmp_path, ["avg", "length"], looks=[3, 5])
    accuracy, length = (one.looks[0] for one in view.each_metric)
    assert (accuracy.state, length.state) == ("decided", "open")
    level = 1 - design_levels([3, 5], 2)[0]
    a, b = (view.values(arm) for arm in view.experiment.plan.arms)
    single = stats.ttest_1samp([b[s] - a[s] for s in (0, 1, 2)], 0).confidence_interval(level)
    assert (accuracy.newest.low, accuracy.newest.high) == pytest.approx((single.low, single.high))
    said = decisions(view.experiment.plan, ResultStore(tmp_path))
    assert said.seed_counts == {"a": 5, "b": 5}
    (comparison,) = said.comparisons
    assert comparison["state"] == "open"
    assert comparison["text"].startswith("avg@n: +")
    assert "; length of answers: " in comparison["text"]
    assert comparison["text"].endswith("next look at 5 seeds")

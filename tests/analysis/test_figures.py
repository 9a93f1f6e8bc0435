"""Figures by their data, and files that come out byte for byte the same, whole or not at all."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import math
import os
import re
import runpy
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import Mock

import matplotlib.image
import numpy as np
import pandas as pd
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from synthetic_store import replanned

from analysis.effects import Effect
from analysis.figures.curves import FIGURES, accuracy_figure, difference_curves_figure, k_figure, training_figure
from analysis.figures.drawing import (
    Panel,
    Series,
    appearances,
    difference_series,
    figure_style,
    k_curves,
    new_figure,
    panel_series,
    save,
    tidy,
)
from analysis.figures.effects import differences_figure, forest_figure
from analysis.report import figure_makers, write_answer
from analysis.tables.experiment import main_table
from analysis.tables.table import write_texts
from harness.evaluation.metrics.names import metric
from harness.statistics.intervals import Estimate
from harness.store import StoreFull


def test_a_band_is_over_the_means_of_seeds_that_share_a_base_policy():
    x, rows = np.array([1.0]), np.array([[0.0], [2.0], [10.0], [12.0]])
    series = Series.from_seeds(x, rows, [0, 0, 1, 1])
    alone = Series.from_seeds(x, np.array([[1.0], [11.0]]), [0, 1])
    assert (series.mean, series.low, series.high) == (alone.mean, alone.low, alone.high)
    assert len(series.seed_y) == 4


def test_panel_data_is_the_logged_column(results):
    experiment = results.experiment
    panel = FIGURES["dead-groups"][0]
    series = panel_series(experiment, "ladder_0_naive_grpo", panel, "step")
    own = experiment.steps[experiment.steps["arm"] == "ladder_0_naive_grpo"]
    expected = 100 * (own["all_right_groups"] / own["groups"]).groupby(own["step"]).mean()
    assert series.mean == pytest.approx(expected.to_numpy())
    tokens = panel_series(experiment, "ladder_0_naive_grpo", panel, "tokens")
    assert tokens.x[-1] == pytest.approx(own["generated_tokens_total"][own["step"] == 20].mean())


def test_a_curve_is_smoothed_over_its_window_without_missing_values():
    squares = np.arange(75.0) ** 2  # a window of three steps
    squares[10] = math.nan
    log = pd.DataFrame({"seed": 0, "step": range(75), "entropy_nats": squares})
    runs, plan = pd.DataFrame({"arm": ["a"], "seed": [0], "run_id": ["r"]}), SimpleNamespace(base_policies=None)
    experiment = SimpleNamespace(runs=runs, training={("r", "a"): log}, steps=log, collapses=[], plan=plan)
    series = panel_series(experiment, "a", Panel("entropy_nats", ""), "step")
    assert series.mean[[0, 1, 9, 10, 74]].tolist() == pytest.approx([0.5, 5 / 3, 72.5, 101, 5402.5])


def test_accuracy_and_k_curves_are_the_tables_numbers(results):
    arm = results.experiment.plan.arms[0]
    accuracy = Panel("avg", "", scale=100, evaluated=True)
    series = panel_series(results.experiment, arm.name, accuracy, "step")
    assert series.x.tolist() == [0, 10, 20]
    assert series.mean[-1] == pytest.approx(100 * results.mean(arm, "avg").value)
    tokens = panel_series(results.experiment, arm.name, accuracy, "tokens")
    own = results.experiment.steps[results.experiment.steps["arm"] == arm.name]
    assert tokens.mean.tolist() == series.mean.tolist()  # a point an evaluation, none between and none after
    assert tokens.x[-1] == pytest.approx(own.groupby("seed")["generated_tokens_total"].max().mean())
    majority = k_curves(results, arm.name)["maj"]
    assert majority.x.tolist() == [1, 2, 4, 8]
    expected = results.mean(arm, "maj@8")
    ends = (majority.mean[-1], majority.low[-1], majority.high[-1])
    assert ends == pytest.approx((100 * expected.value, 100 * expected.low, 100 * expected.high))


def test_a_difference_is_paired_and_ends_at_the_tables_number(results):
    arm = results.experiment.plan.arms[1]
    series = difference_series(results, arm, "step")
    assert (series.x.tolist(), len(series.seed_y)) == ([0, 10, 20], 3)
    assert series.mean[-1] == pytest.approx(100 * results.declared[arm.name].value)
    assert not len(difference_series(results, results.experiment.plan.arms[0], "step"))
    with figure_style("paper"):
        figure, arms = difference_curves_figure(results), results.experiment.plan.arms[1:]
    assert [axes.get_title("left") for axes in figure.axes] == [arm.label for arm in arms]
    (text,) = figure.legends[0].get_texts()
    assert text.get_text().startswith("95 % t interval of the difference to the rung below, paired, over seeds, ")


def test_k_curves_are_drawn_where_there_is_an_evaluation_before_rl(results):
    with figure_style("paper"):
        assert k_figure(results).axes[1].get_xticks().tolist() == [1, 2, 4, 8]
        assert k_figure(dataclasses.replace(results, before=results.before.iloc[:0])) is None


def test_legend_never_covers_the_axes(results):
    with figure_style("paper"):
        length = training_figure(results.experiment, "length")
        for figure in (k_figure(results), length):
            assert figure is not None
            figure.draw_without_rendering()
            legend = figure.legends[0].get_window_extent()
            assert not any(legend.overlaps(axes.get_window_extent()) for axes in figure.axes)


def test_files_are_byte_identical_and_free_of_dates(results, tmp_path):
    def write(folder):
        with figure_style("paper"):
            figure = training_figure(results.experiment, "entropy")
            assert figure is not None
            return save(figure, tmp_path / folder, "entropy")

    for first, second in zip(write("a"), write("b"), strict=True):
        assert hashlib.sha256(first.read_bytes()).digest() == hashlib.sha256(second.read_bytes()).digest()
        assert not re.search(rb"CreationDate|<dc:date>", first.read_bytes())


@pytest.fixture(scope="module")
def without_figures(ladder_root, tmp_path_factory):
    """A folder with the whole answer but its figures, and its files."""
    folder = tmp_path_factory.mktemp("without_figures")
    return folder, write_answer(ladder_root, "ladder", folder, formats=())


def test_write_answer_writes_every_file_once_and_reproducibly(ladder_root, without_figures, tmp_path):
    first = write_answer(ladder_root, "ladder", tmp_path / "a", formats=("svg",))
    folder, again = without_figures  # figures: the test above
    names = [str(path.relative_to(tmp_path / "a")) for path in first]
    assert len(set(names)) == len(names)
    tables = {"tables/ladder.md", "tables/ladder.tex", "frames/scores.parquet", "frames/steps.csv", "report.html"}
    figures = {f"figures/{name}.svg" for name in ("differences", "accuracy", "k-curves")}
    assert tables | figures <= set(names)
    assert {name for name in names if name.startswith("figures/")} == figures
    assert len(names) + len(figures) <= 25  # in two formats
    for path in again:
        assert path.read_bytes() == (tmp_path / "a" / path.relative_to(folder)).read_bytes(), path.name


def test_the_forest_of_differences_draws_the_margin_and_every_interval(results):
    shown = replanned(results, margins={"avg": 3.0})
    with figure_style("paper"):
        axes = differences_figure(shown).figure.axes[0]
        plain = differences_figure(results).figure.axes[0]
    deltas = [delta for delta in shown.declared.values() if not math.isnan(delta.value)]
    drawn = {
        (round(y), round(x, 6)): [end for end, _ in segment]
        for container in axes.containers  # one a word
        for (x, y), segment in zip(container.lines[0].get_xydata(), container.lines[2][0].get_segments(), strict=True)
    }
    assert len(drawn) == len(deltas)
    for row, delta in enumerate(deltas):
        ends = drawn[row, round(100 * delta.value, 6)]
        assert ends == pytest.approx([] if math.isnan(delta.low) else [100 * delta.low, 100 * delta.high])
    assert [patch.get_x() for patch in axes.patches] == [-3.0]
    assert not plain.patches


@pytest.mark.parametrize(("parents", "reference", "columns"), [((0, 0), "naive GRPO", 0), ((1, 1), "the reference", 1)])
def test_an_arm_of_a_list_without_a_parent_is_compared_with_the_first(results, parents, reference, columns):
    """The second arm names no parent; the last two name the first or the second."""
    first, second, *others = results.experiment.plan.arms
    names = (first.name, second.name)
    others = [dataclasses.replace(arm, parent=names[place]) for arm, place in zip(others, parents, strict=True)]
    arms = (first, dataclasses.replace(second, parent=None), *others)
    listed = replanned(results, design="arms", arms=arms)
    with figure_style("paper"):
        label = differences_figure(listed).axes[0].get_xlabel()
    assert label.startswith(f"difference at equal steps to {reference}, points")
    assert [column.key for column in main_table(listed).columns].count("reference") == columns


def test_bands_are_drawn_of_four_arms_and_the_lines_alone_of_more(results):
    known = results.experiment.plan.arms
    fifth = dataclasses.replace(known[0], name="fifth", label="without a run")

    def drawn(arms):
        experiment = replanned(results, arms=tuple(arms)).experiment
        with figure_style("paper"):
            return accuracy_figure(experiment)

    def bands(figure):
        return sum(isinstance(c, PolyCollection) for c in figure.axes[0].collections)

    figure = drawn(known)
    assert bands(figure) == 4
    (legend,) = figure.legends
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels == [*(arm.label for arm in known), "95 % t interval over seeds, pointwise", "one seed"]
    markers = [one.marker for one in appearances([arm.name for arm in known]).values()]
    assert [line.get_marker() for line in legend.get_lines()][:4] == markers
    figure = drawn([*known, fifth])
    assert bands(figure) == 0
    assert [text.get_text() for text in figure.legends[0].get_texts()] == [arm.label for arm in (*known, fifth)]


def test_percentages_stay_within_0_and_100_and_no_label_is_longer_than_its_axis():
    with figure_style("paper"):
        figure, axes = new_figure(wide=True, ncols=2)
    axes[0].plot([0, 1], [-20, 130])
    axes[0].set_ylabel(r"accuracy, % of $\boxed{}$")  # no formula
    axes[1].plot([0, 1], [-20, 130])
    axes[1].set(ylabel="difference, points (95 % interval)", xlabel="a label with many words, " * 4)
    tidy(figure)
    assert axes[0].get_ylim() == (0.0, 100.0)
    assert axes[1].get_ylim()[1] > 130
    figure.draw_without_rendering()
    assert axes[1].xaxis.label.get_window_extent().width <= axes[1].get_window_extent().width


def test_the_example_draws_a_figure_in_a_style_of_its_own(ladder_root, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    example = Path(__file__).parents[2] / "examples" / "figures.py"
    runpy.run_path(str(example))["main"](str(ladder_root), "ladder", "training/entropy")
    drawn = (tmp_path / "figures" / "ladder-training-entropy.pdf").read_bytes()
    width = float(re.search(rb"/MediaBox \[ 0 0 ([\d.]+)", drawn)[1])
    assert width == pytest.approx(72 * 2.648, abs=0.1)
    assert b"DejaVuSerif" in drawn


def forest(*ends: tuple[float, float, int]) -> Figure:
    """A forest of intervals of so many seeds in points, with long names."""
    score = metric("avg")
    effects = [
        Effect(
            "reference",
            score,
            Estimate((low + high) / 2, low, high, seeds, degrees=seeds - 1, margin=3.0).rescale(0.01),
            "",
            comparison=NAME,
        )
        for low, high, seeds in ends
    ]
    return forest_figure(effects, "difference to naive GRPO, points", 3.0)


NAME = "random reward on a policy that was trained before, sixty long"


def test_an_interval_of_two_seeds_sets_no_axis_and_ends_in_arrows():
    with figure_style("paper"):
        axes = forest((-787, 779, 2), (1.4, 18.1, 8)).axes[0]
    low, high = axes.get_xlim()
    assert -30 < low < high < 30
    arrows = [line for line in axes.lines if line.get_marker() in "<>" and line.get_clip_on() is False]
    assert [line.get_xdata()[0] for line in arrows] == [low, high]


def test_no_figure_has_ink_at_its_border(results, tmp_path):
    figures = dict(figure_makers(results))
    with figure_style("paper"):
        made = {name: make() for name, make in figures.items()}
        made |= {"wide": forest((-787, 779, 2), (1.4, 18.1, 8))}
        for name, figure in made.items():
            if figure is None:
                continue
            (path,) = save(figure, tmp_path, name.replace("/", "-"), ("png",))
            pixels = matplotlib.image.imread(path)[..., :3]
            edges = np.concatenate([pixels[0], pixels[-1], pixels[:, 0], pixels[:, -1]])
            assert (edges > 0.98).all(), name


def test_a_disk_that_takes_nothing_is_named_and_the_old_files_stay(tmp_path, monkeypatch):
    write_texts(tmp_path, {"answer.md": "old"})
    save(Figure(), tmp_path, "ladder", ("pdf",))
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", Mock(side_effect=OSError(errno.ENOSPC, "full")))
        with pytest.raises(StoreFull, match=r"answer\.md"):
            write_texts(tmp_path, {"answer.md": "new"})
        with pytest.raises(StoreFull, match=r"ladder\.pdf"):
            save(Figure(figsize=(1, 1)), tmp_path, "ladder", ("pdf",))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before

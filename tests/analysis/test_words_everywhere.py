"""One experiment with every verdict: table, CSV, LaTeX, page, answer and figures say the same of each difference."""

from __future__ import annotations

import re

import pytest
from synthetic_store import SHORT, build_store, loaded

from analysis.answer import answer_of
from analysis.colours import look_of
from analysis.figures.drawing import figure_style
from analysis.figures.effects import differences_figure
from analysis.html.page import render_page
from analysis.results import Results
from analysis.tables.experiment import main_table
from analysis.tables.table import to_frame, to_latex
from harness.statistics.intervals import Verdict

RUNGS = [
    ("w_0_base", "base", 0.50, 1.0),
    ("w_1_up", "up", 0.70, 1.0),
    ("w_2_same", "same", 0.701, 1.0),
    ("w_3_down", "down", 0.60, 1.0),
    ("w_4_little", "little", 0.62, 1.0),
]
CELL = re.compile(r"[+−]\d+\.\d+ \[([+−]\d+\.\d+), ([+−]\d+\.\d+)\] ([a-z][a-z0-9 ,.]*)")


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    path = tmp_path_factory.mktemp("words")
    build_store(path, rungs=RUNGS, seeds=range(6), n=16, margin=4.0, **SHORT | {"problems": 60})
    return path


@pytest.fixture(scope="module")
def results(root) -> Results:
    return loaded(root)


def test_all_words_occur(results):
    found = {name: delta.verdict for name, delta in results.declared.items()}
    assert found["w_1_up"] is Verdict.HIGHER
    assert found["w_2_same"] is Verdict.NOT_RESOLVED
    assert found["w_3_down"] is Verdict.LOWER
    assert found["w_4_little"] is Verdict.EQUIVALENT


def test_page_answer_csv_latex_and_figure_have_the_words_of_the_table(results, root):
    table, deltas = main_table(results), results.declared
    frame, latex, page = to_frame(table), to_latex(table), render_page(results, root)
    for (name, delta), line in zip(deltas.items(), answer_of(results).lines, strict=True):
        word = delta.words(100)
        assert line.verdict == word
        assert (frame["delta_verdict"] == delta.verdict.value).any()
        assert word.split(" within")[0].split(",")[0] in latex  # its notes say the margin
        assert f">{word}</" in page, name
    assert ">95\u00a0% simultaneous</th>" in page
    with figure_style("screen"):
        figure = differences_figure(results)
    assert figure is not None
    drawn = [label.get_text() for axes in figure.axes for child in axes.child_axes for label in child.get_yticklabels()]
    assert [CELL.match(text)[3] for text in drawn] == [delta.words(100) for delta in deltas.values()]
    lines = [container.lines[0] for container in figure.axes[0].containers]
    colours = {round(row): line.get_color() for line in lines for row in line.get_ydata()}
    assert [colours[row] for row in range(len(deltas))] == [look_of(delta.verdict).colour for delta in deltas.values()]

"""The HTML page: self-contained, escaped, within its size, complete when runs are missing."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest
from synthetic_store import build_store, embedded, loaded

from analysis.answer import answer_of
from analysis.figures.drawing import Series
from analysis.html import page
from analysis.html.page import browser_data
from harness.evaluation.stored import write_problems
from harness.problems.problem import Benchmark, Problem
from harness.statistics.intervals import Estimate
from harness.store import ResultStore
from harness.store.layout import problems_file

PROBLEMS = {"problems": 4, "steps": 2, "evaluate": (0, 2)}
ATTACK = "</script><script>alert(1)</script><img src=x onerror=alert(2)> &lt; \u2028"


class Outline(HTMLParser):
    def __init__(self):
        super().__init__()
        self.tags, self.links, self.ids = [], [], []

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        found = dict(attrs)
        self.ids += [found["id"]] if "id" in found else []
        self.links += [value for name, value in attrs if name in ("src", "href") and value]


def outline(text):
    parser = Outline()
    parser.feed(text)
    return parser


@pytest.fixture(scope="module")
def text(results, ladder_root):
    return page.render_page(results, ladder_root)


def test_page_has_every_part_and_needs_no_network(text):
    found = outline(text)
    for part in ("answer", "tables", "chart", "configuration", "samples", "checks", "provenance"):
        assert part in found.ids
    assert len(set(found.ids)) == len(found.ids)
    assert all(link.startswith(("#", "data:")) for link in found.links)
    assert "default-src 'none'" in text
    cells = re.findall(r"<td[^>]*>", re.sub(r'<table class="forest">.*?</table>', "", text))
    assert cells
    assert all("data-label=" in cell for cell in cells)  # for narrow screens
    assert "ladder_3_dynamic_sampling, seed 2: failed" in text
    assert not re.search(r"fetch\(|XMLHttpRequest|import\(|@import|url\(http", text)


def test_chart_lines_are_the_figures_numbers(text, results):
    data = embedded(text, "chart-data")
    assert [arm["label"] for arm in data["arms"]] == [arm.label for arm in results.experiment.plan.arms]
    difference, accuracy = (chart["axes"]["rollout steps"] for chart in data["charts"][:2])
    assert data["charts"][0]["title"] == "difference to the rung below, points of avg@8"
    base, other = results.experiment.plan.arms[:2]
    assert accuracy[0]["mean"][-1] == pytest.approx(100 * results.mean(base, "avg").value, rel=1e-4)
    assert difference[0]["x"] == []
    assert difference[1]["mean"][-1] == pytest.approx(100 * results.declared[other.name].value, rel=1e-4)
    assert all(chart["axes"] for chart in data["charts"])


def test_a_point_without_a_place_on_the_axis_is_left_out():
    """The second evaluation is of a run that has not logged its tokens."""
    x, y = np.array([0.0, np.nan, 200.0]), np.array([10.0, np.nan, 30.0])
    line = page._line(Series.from_seeds(x, y[None], [0]))
    assert (line["x"], line["mean"], line["low"]) == ([0.0, 200.0], [10.0, 30.0], [None, None])


@pytest.mark.parametrize(
    ("end", "margin", "texts"),
    [(0.05, 0.02, ["0", "+0.02", "−0.02", "−0.04", "+0.04"]), (10.0, 4.25, ["0", "+4.25", "−4.25", "−8", "+8"])],
)
def test_ticks_of_a_small_unit_have_their_digits(end, margin, texts):
    ticks = page._ticks((-end, end), [Estimate(0.0, margin=margin)])
    assert [text for _, text in ticks] == texts


def test_browser_shows_the_same_samples_for_every_arm(text, ladder_root):
    data = embedded(text, "sample-data")
    assert data["seed"] == 0  # the seed that most arms finished
    problem = data["problems"][0]
    assert len(problem["samples"]) == len(problem["rates"]) == 4
    assert [len(samples) for samples in problem["samples"]] == [2, 2, 2, 2]
    assert "<b>" in problem["samples"][0][0]["text"]


def test_a_run_on_other_problems_is_named_and_shows_no_sample_beside_theirs(tmp_path):
    store = build_store(tmp_path, rungs=[("a", "A", 0.5, 1.0), ("b", "B", 0.6, 1.0)], seeds=(0,), **PROBLEMS)
    run = store.run(store.plan("ladder")["arms"][1]["runs"]["0"])
    for step in PROBLEMS["evaluate"]:
        samples = run.samples("arithmetic_heldout", step)
        run.write_samples("arithmetic_heldout", 1, step, samples[samples["problem_id"] != "p0000"])
    results = loaded(tmp_path)
    assert results.experiment.notes == ("b, seed 0: evaluated on other problems than the first run",)
    problems = browser_data(results, store)["problems"]
    assert [rate is None for rate in problems[0]["rates"]] == [False, True]


def test_browser_keeps_its_byte_limit(results, ladder_root):
    whole = browser_data(results, ResultStore(ladder_root))["problems"]
    few = browser_data(results, ResultStore(ladder_root), byte_limit=5000)["problems"]
    assert 0 < len(few) < len(whole)
    assert few == whole[: len(few)]


def test_whatever_a_model_wrote_stays_text(tmp_path):
    store = build_store(tmp_path, rungs=[("a", ATTACK, 0.5, 1.0), ("b", "B", 0.6, 1.0)], seeds=(0, 1), problems=4)
    run = store.run(store.plan("ladder")["arms"][0]["runs"]["0"])
    samples = run.samples("arithmetic_heldout", 20)
    samples["response"] = f"{ATTACK} 7 % 3"
    run.write_samples("arithmetic_heldout", 1, 20, samples)
    text = page.render_page(loaded(tmp_path), tmp_path)
    assert ATTACK not in text
    assert outline(text).tags.count("script") == 3
    assert not re.search(r"<[a-z]+ [^>]*onerror", text)
    shown = embedded(text, "sample-data")["problems"][0]["samples"][0][0]["text"]
    assert shown == f"{ATTACK} 7 % 3"


def test_a_card_shows_the_problem_and_its_gold_that_lie_beside_the_samples(tmp_path):
    store = build_store(tmp_path, rungs=[("a", "A", 0.5, 1.0), ("b", "B", 0.6, 1.0)], seeds=(0,), problems=4)
    run = store.run(store.plan("ladder")["arms"][0]["runs"]["0"])
    ids = sorted(set(run.samples("arithmetic_heldout", 20)["problem_id"]))
    bare = browser_data(loaded(tmp_path), store)["problems"]
    assert {(problem["text"], problem["gold"]) for problem in bare} == {(None, None)}
    asked = Benchmark("held", 1, [Problem(name, ATTACK, "7") for name in ids])
    write_problems(problems_file(run.path, "arithmetic_heldout"), asked)
    text = page.render_page(loaded(tmp_path), tmp_path)
    shown = embedded(text, "sample-data")["problems"]
    assert {(problem["text"], problem["gold"]) for problem in shown} == {(ATTACK, "7")}
    assert ATTACK not in text


def test_every_row_of_the_answer_draws_its_interval_beside_its_words(text, results):
    rows = re.findall(r"<tr[^>]*>.*?</tr>", re.search(r'<table class="forest">.*?</table>', text)[0])[1:]
    lines = answer_of(results).lines
    assert len(rows) == len(lines) == 3
    for row, line in zip(rows, lines, strict=True):
        assert row.count("<svg ") == 1
        assert all(part in row for part in (line.points, line.interval, f">{line.verdict}<"))

"""Factors with levels in the answer: effects and interactions in words, tables, page and figure."""

from __future__ import annotations

import pytest
from synthetic_store import SHORT, build_store, declared, loaded, replanned

from analysis.answer import answer_of, answer_sentences
from analysis.figures.drawing import figure_style
from analysis.figures.effects import design_figure
from analysis.html.page import render_page
from analysis.tables.experiment import all_tables
from harness.store import ResultStore

CELLS = [[size, *bonus] for bonus in ([], ["bonus"]) for size in ("g4", "g8", "g16")]


@pytest.fixture(scope="module")
def crossed(tmp_path_factory):
    """Three group sizes by a bonus that changes what a group of 16 does: 60 points instead of 80."""
    root = tmp_path_factory.mktemp("crossed")
    levels = [0.4, 0.6, 0.8, 0.4, 0.6, 0.6]
    rungs = [("+".join(cell), "+".join(cell), level, 1.0) for cell, level in zip(CELLS, levels, strict=True)]
    factors = {"group": ["g4", "g8", "g16"], "bonus": ["none", "bonus"]}
    declaration = {"design": "factorial", "patches": CELLS, "factors": factors, "margin": 3.0}
    build_store(root, rungs=rungs, seeds=range(4), **declaration, **SHORT)
    return root


def test_effects_and_interactions_of_levels_are_said(crossed):
    """Marginal means 40, 60, 70: the bonus costs 20 points at 16 and nothing else."""
    results = loaded(crossed)
    tables = {table.name: table for table in all_tables(results)}
    assert [name for name in tables if "shapley" in name or "order" in name] == []
    main, both = (tables[f"ladder-{name}"] for name in ("main-effects", "interactions"))
    assert [row["patch"] for row in main.rows] == ["g8 against g4", "g16 against g4", "bonus"]
    for row, expected in zip(main.rows, (0.2, 0.3, -0.067), strict=True):
        assert row["effect"].value == pytest.approx(expected, abs=0.06)
    assert both.rows[1]["effect"].value == pytest.approx(-0.2, abs=0.08)
    sentences = answer_sentences(results)
    assert sentences[0].startswith("At equal steps g16 against g4 (+")
    assert sentences[0].endswith("are shown to help.")
    assert "g16 × bonus (−" in sentences[1]
    assert "g16 × bonus" in render_page(results, crossed)


def test_a_figure_has_a_row_an_effect(crossed):
    results = loaded(crossed)
    with figure_style("paper"):
        (axes, *_) = design_figure(results, "interactions").axes
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["g8 × bonus", "g16 × bonus"]
    values = [container.lines[0].get_xdata()[0] for container in axes.containers]
    assert values == pytest.approx([100 * effect.value for effect in results.attributions["interactions"].effects])


def test_effects_in_what_a_guess_earns_are_none(crossed):
    guessed = replanned(loaded(crossed), chances=[[0.99, 1.0]])
    assert "not informative" in guessed.attributions["main-effects"].missing


def test_an_empty_cell_leaves_no_effect(crossed):
    *arms, last = ResultStore(crossed).plan("ladder")["arms"]
    results = declared(crossed, arms=[*arms, last | {"runs": {}}])
    tables = {table.name: table for table in all_tables(results)}
    assert "no finished run of: bonus+g16" in tables["ladder-main-effects"].notes[0]
    assert all("against" not in line.name for line in answer_of(results).lines)  # the cells themselves
    assert design_figure(results, "interactions") is None

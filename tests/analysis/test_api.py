"""The Python front: frames, differences in shown units, tables and figures, and errors that say what is there."""

from __future__ import annotations

from pathlib import Path

import pytest
from scipy import stats
from synthetic_store import RUNGS, build_store

import analysis
from analysis import difference, figure_of, load, save_figure, seed_frame, tables_of
from harness.evaluation.metrics.names import UnknownMetric
from harness.store import StoreError

FIRST, LAST = RUNGS[0][0], RUNGS[3][0]


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    path = tmp_path_factory.mktemp("front")
    build_store(path, seeds=(0, 1, 2, 3), problems=40, steps=4, evaluate=(0, 2, 4))
    return path


@pytest.fixture(scope="module")
def results(root):
    return load(root, "ladder", ["pass@3"])


def test_the_front_shows_its_names_and_nothing_else() -> None:
    assert dir(analysis) == sorted(analysis.__all__)


def test_frames_have_one_row_a_seed_an_evaluation_and_a_step(results):
    seeds = seed_frame(results, ["length_wrong", "pass@3", "seconds"])
    assert list(seeds.columns) == ["arm", "label", "seed", "run_id", "length_wrong", "pass@3", "seconds"]
    assert len(seeds) == 4 * 4
    assert list(seed_frame(results).columns)[4:] == ["avg"]
    assert seeds["pass@3"].between(1, 100).all()
    evaluated = results.experiment.cells
    assert len(evaluated) == 4 * 4 * 3 * 2
    last = evaluated[(evaluated["step"] == 4) & (evaluated["cap"] == 32)].sort_values(["arm", "seed"])
    assert last["tokens_wrong_mean"].tolist() == seeds.sort_values(["arm", "seed"])["length_wrong"].tolist()
    assert len(results.experiment.steps) == 4 * 4 * 4


def test_a_difference_is_the_paired_t_interval_in_the_shown_unit(results):
    seeds = seed_frame(results, ["avg", "length_wrong"]).set_index(["arm", "seed"])
    for metric, margin in (("avg", 50.0), ("length_wrong", None)):
        found = difference(results, LAST, FIRST, metric, margin=margin)
        expected = seeds.loc[LAST, metric] - seeds.loc[FIRST, metric]
        interval = stats.ttest_1samp(expected, 0).confidence_interval(0.95)
        assert found.value == pytest.approx(expected.mean())
        assert (found.low, found.high) == pytest.approx((interval.low, interval.high))
        assert (found.seeds, found.margin, found.family) == (4, margin, 1)
        assert found.standard_error == pytest.approx(stats.sem(expected))
    with pytest.raises(ValueError, match="margin=-3 must be a finite number above 0"):
        difference(results, LAST, FIRST, margin=-3)
    with pytest.raises(StoreError, match="no arm 'lst'"):
        difference(results, "lst", FIRST)


def test_tables_and_figures_are_those_of_the_report(results, tmp_path):
    assert {"ladder", "ladder-answers"} <= tables_of(results).keys()
    forest = figure_of(results, "differences", "length_wrong")
    label = forest.axes[0].get_xlabel().replace("\n", " ")
    assert label.startswith("difference in length of wrong answers at equal steps to the rung below, tokens")
    (path,) = save_figure(forest, tmp_path, "forest", formats=["svg"])
    assert path.read_bytes().startswith(b"<?xml")


def test_what_is_not_there_is_named(results, root):
    with pytest.raises(StoreError, match="other"):
        load(root, "other")
    with pytest.raises(UnknownMetric, match="did you mean 'length_wrong'"):
        difference(results, LAST, FIRST, "length_wrng")
    with pytest.raises(analysis.NoValueError, match="they have 8 samples a problem"):
        seed_frame(results, ["pass@99"])
    with pytest.raises(analysis.NoValueError, match=r"load the experiment with metrics=\['pass@5'\]"):
        difference(results, LAST, FIRST, "pass@5")
    with pytest.raises(ValueError, match=f"arms: {FIRST}"):
        difference(results, "nobody", FIRST)
    with pytest.raises(ValueError, match="only='pages' is none of all, tables"):
        analysis.write_answer(root, "ladder", only="pages")
    with pytest.raises(LookupError, match="there are: differences"):
        figure_of(results, "histogram")
    with pytest.raises(LookupError, match="no data for the figure 'grid'"):
        figure_of(results, "grid")
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = analysis.nothing


def test_every_name_of_the_front_is_there_and_documented():
    page = (Path(analysis.__file__).parents[1] / "docs" / "python.md").read_text()
    for name in analysis.__all__:
        assert getattr(analysis, name) is not None
    called = [name for name in analysis.__all__ if name[0].islower()]
    assert [name for name in called if f"`{name}(" not in page and f"`{name}`" not in page] == []

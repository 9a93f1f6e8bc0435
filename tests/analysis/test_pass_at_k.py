"""Pass@k over all k, for an experiment: beside the same numbers by hand."""

from __future__ import annotations

import pytest
from synthetic_store import build_store, loaded, replanned

from analysis.answer import answer_of
from analysis.figures.curves import k_bands_figure
from analysis.figures.drawing import figure_style
from analysis.tables.experiment import answers_table
from analysis.tables.pass_at_k import k_bands, k_bands_table
from analysis.tables.table import to_markdown
from harness.evaluation.metrics.names import metric
from harness.statistics.intervals import comparison_level


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    root = tmp_path_factory.mktemp("pass")
    build_store(root, steps=2, evaluate=(0, 2), caps=(32,), problems=40, seeds=(0, 1, 2, 3))
    return loaded(root)


def test_the_band_at_each_k_is_that_of_the_seeds_pass_at_k(whole):
    bands = k_bands(whole)
    arm, reference = whole.experiment.plan.arms[3], whole.experiment.plan.arms[2]
    band = bands["dynamic sampling_& refill against clip-higher"]
    n = 8
    for k in (2, 4, 8):
        column = f"pass@{k}"
        difference = whole.mean(arm, column).value - whole.mean(reference, column).value
        assert band.value_K[k - 2] == pytest.approx(difference)
    assert (band.first, band.last) == (2, n)
    assert band.level == pytest.approx(comparison_level(3))
    assert set(bands) == {
        "overlong filtering against naive GRPO",
        "clip-higher against overlong filtering",
        "dynamic sampling_& refill against clip-higher",
    }


def test_seeds_of_one_base_policy_are_one_replicate(whole):
    shared = k_bands(replanned(whole, base_policies=2))["clip-higher against overlong filtering"]
    assert (shared.replicates, shared.over) == (2, "base policies")


def test_bands_are_a_table_and_a_figure(whole):
    table = k_bands_table(whole)
    assert table is not None
    assert table.name == "ladder-k-bands"
    assert {row["k"] for row in table.rows} >= {2, 4, 8}
    with figure_style("paper"):
        assert k_bands_figure(whole) is not None


def test_a_design_that_results_stopped_has_none(whole):
    sequential = replanned(whole, looks=(2, 4))
    assert k_bands(sequential) == {}


def test_arms_that_do_no_better_than_blind_answers_are_not_compared(whole):
    guessed = replanned(whole, chance=0.9, metrics=(metric("avg"), metric("pass@2")))
    for view, level in zip(guessed.each_metric(), ("90.0", "99.0"), strict=True):
        expected = [f"not informative: guessing earns {level} %"] * len(view.declared)
        assert [one.absent for one in view.declared.values()] == expected
        assert [line.verdict for line in answer_of(view).lines] == expected
    assert "| blind answers | 99.0 |" in to_markdown(answers_table(guessed))
    assert "Blind answers earn 99.0 % at k = 2" in " ".join(k_bands_table(guessed).notes)
    hard = replanned(whole, chance=0.1)
    assert hard.declared == whole.declared

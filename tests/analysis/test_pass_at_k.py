"""Pass@k and accuracy of arms beside what blind answers earn."""

from __future__ import annotations

import pytest
from synthetic_store import build_store, loaded, replanned

from analysis.answer import answer_of
from analysis.tables.experiment import answers_table
from analysis.tables.table import to_markdown
from harness.evaluation.metrics.names import metric


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    root = tmp_path_factory.mktemp("pass")
    build_store(root, steps=2, evaluate=(0, 2), caps=(32,), problems=40, seeds=(0, 1, 2, 3))
    return loaded(root)


def test_arms_that_do_no_better_than_blind_answers_are_not_compared(whole):
    guessed = replanned(whole, chances=[[0.9, 1.0]], metrics=(metric("avg"), metric("pass@2")))
    for view, level in zip(guessed.each_metric, ("90.0", "99.0"), strict=True):
        expected = [f"not informative: guessing earns {level} %"] * len(view.declared)
        assert [one.absent for one in view.declared.values()] == expected
        assert [line.verdict for line in answer_of(view).lines] == expected
    assert "| blind answers | 99.0 |" in to_markdown(answers_table(guessed))
    hard = replanned(whole, chances=[[0.1, 1.0]])
    assert hard.declared == whole.declared

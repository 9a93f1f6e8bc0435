"""What `harness compare` says and draws of intervals over problems alone."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.comparison import comparison_figure, notes_of
from analysis.figures.drawing import figure_style
from harness.evaluation.counts import AVG, difference_of, mean_rows
from harness.evaluation.side_by_side import Comparison

PROBLEMS = 40


def compared(runs: int, bases: int) -> Comparison:
    """Two sides of so many runs, which start from so many base policies."""
    rng = np.random.default_rng(0)
    sides = {name: rng.binomial(8, level, (runs, PROBLEMS)) / 8 for name, level in (("a", 0.4), ("b", 0.6))}
    first, other = (mean_rows(scores, [run % bases for run in range(runs)]) for scores in sides.values())
    problems = pd.DataFrame({"problem_id": [f"p{place}" for place in range(PROBLEMS)], "gold": "1"})
    difference = difference_of(first, other, paired=True, level=0.95)
    return Comparison(problems, {name: {AVG: scores} for name, scores in sides.items()}, {"b": {AVG: difference}})


def test_the_interval_of_single_checkpoints_is_drawn_whole() -> None:
    comparison = compared(runs=1, bases=1)
    with figure_style("paper"):
        axes = comparison_figure(comparison).axes[0]
    (bar,) = axes.containers
    interval, (low, high) = comparison.differences["b"][AVG], axes.get_xlim()
    assert low < 0 < 100 * interval.low < 100 * interval.high < high
    assert bar.lines[0].get_alpha() == 1.0


@pytest.mark.parametrize(
    ("runs", "bases", "unit", "retraining"),
    [(1, 1, "problems, each", True), (2, 1, "problems, each", False), (2, 2, "runs and", False)],
)
def test_runs_of_one_base_policy_are_not_said_to_be_judged(runs: int, bases: int, unit: str, retraining: bool) -> None:
    first, *rest = notes_of(compared(runs, bases))
    assert unit in first
    assert any(note.startswith("One training run on a side") for note in rest) == retraining

"""What `harness compare` says and draws of intervals over problems."""

from __future__ import annotations

import numpy as np
import pandas as pd

from analysis.comparison import comparison_figure, comparison_table
from analysis.figures.drawing import figure_style
from harness.evaluation.paired import AVG, TOKENS, Comparison
from harness.statistics.intervals import paired_difference

PROBLEMS = 40


def test_the_interval_is_drawn_whole_and_tokens_stand_in_the_table_alone() -> None:
    rng = np.random.default_rng(0)
    scores = {name: {AVG: rng.binomial(8, level, PROBLEMS) / 8} for name, level in (("a", 0.4), ("b", 0.6))}
    differences = {AVG: paired_difference(scores["b"][AVG], scores["a"][AVG])}
    differences[TOKENS] = differences[AVG].rescale(50)
    for side in scores.values():
        side[TOKENS] = 50 * side[AVG]
    problems = pd.DataFrame({"problem_id": [f"p{place}" for place in range(PROBLEMS)], "gold": "1"})
    comparison = Comparison(problems, scores, {"b": differences})
    with figure_style("paper"):
        axes = comparison_figure(comparison).axes[0]
    (bar,) = axes.containers
    (low, high), interval = axes.get_xlim(), differences[AVG]
    assert low < 0 < 100 * interval.low < 100 * interval.high < high
    assert bar.lines[0].get_alpha() == 1.0
    table = comparison_table(comparison)
    assert [row["metric"] for row in table.rows] == ["avg@n %", "length of answers, tokens"]
    assert "nothing about training again" in table.notes[-1]

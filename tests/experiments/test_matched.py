"""Two arms where both have moved equally far: numbers worked by hand, and arms that move alike differ as at the end."""

from __future__ import annotations

import numpy as np
import pytest
from matched import Course, main, match, matched_table

from analysis import load


def run(step, moved, score) -> Course:
    return Course(
        np.array(step, dtype=float),
        np.array(moved, dtype=float),
        np.array(score, dtype=float),
        float(score[-1]),
    )


def test_a_match_by_hand_either_way_round() -> None:
    """The reference ends at 0.4; the arm passes 0.4 half-way between steps 5 and 10, at 0.6 half-way between 0.5 and 0.7."""
    arm = run([0, 5, 10], [0.0, 0.3, 0.5], [0.2, 0.5, 0.7])
    reference = run([0, 5, 10], [0.0, 0.1, 0.4], [0.2, 0.4, 0.65])
    found = match(arm, reference)
    assert found.moved == 0.4
    assert found.score == pytest.approx((0.6, 0.65))
    assert found.step == pytest.approx((7.5, 10.0))
    assert found.last == (0.7, 0.65)
    assert match(reference, arm).score == pytest.approx((0.65, 0.6))


def test_arms_that_move_alike_differ_as_at_the_end(root) -> None:
    """Generated tokens grow alike in all runs of the synthetic store."""
    results = load(root, "ladder")
    for row in matched_table(results, "generated_tokens_total").rows:
        assert row["moved"] == 3100 * 20
        assert row["difference"].value == pytest.approx(row["last"].value)
        assert (row["difference"].low, row["difference"].high) == pytest.approx(
            (row["last"].low, row["last"].high)
        )
        assert row["step_arm"] == row["step_reference"] == 20


def test_the_command_prints_a_table_and_names_what_is_missing(root, capsys) -> None:
    assert main([str(root), "ladder", "--by", "generated_tokens_total"]) == 0
    assert "at equal generated" in capsys.readouterr().out
    assert main([str(root), "ladder"]) == 2
    assert (
        "no number in kl_to_reference: it is logged where algorithm.kl.coefficient" in capsys.readouterr().err
    )
    assert main([str(root), "nothing"]) == 2

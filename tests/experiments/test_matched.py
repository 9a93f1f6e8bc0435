"""Two arms where both have moved equally far: numbers worked by hand, and the command."""

from __future__ import annotations

import numpy as np
import pytest
from matched import Course, main, match


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
    assert found.distance == 0.4
    assert found.score == pytest.approx((0.6, 0.65))
    assert found.step == pytest.approx((7.5, 10.0))
    assert found.last == (0.7, 0.65)
    assert match(reference, arm).score == pytest.approx((0.65, 0.6))


def test_the_command_prints_a_table_and_names_what_is_missing(root, capsys) -> None:
    assert main([str(root), "ladder", "--by", "generated_tokens_total"]) == 0
    assert "at equal generated" in capsys.readouterr().out
    assert main([str(root), "ladder"]) == 2
    assert "no number in kl_to_reference: it is logged where algorithm.kl.coefficient" in capsys.readouterr().err
    assert main([str(root), "nothing"]) == 2

"""Two arms where both have moved equally far: numbers worked by hand, and arms that move alike differ as at the end."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from matched import Course, at_first_reach, main, match, matched_table, matches
from run_curves import run_curve
from synthetic_store import build_store

from analysis import load


def run(step, moved, score) -> Course:
    return Course(
        np.array(step, dtype=float),
        np.array(moved, dtype=float),
        np.array(score, dtype=float),
        float(score[-1]),
    )


def test_the_first_reach_is_linear_between_points() -> None:
    moved, score = [0.0, 0.2, 0.1, 0.6], [0.3, 0.5, 0.9, 0.7]
    assert at_first_reach(moved, score, 0.05) == pytest.approx(0.35)  # a quarter of the way from 0.3 to 0.5
    assert at_first_reach(moved, score, 0.2) == 0.5
    assert at_first_reach(moved, score, 0.15) == pytest.approx(0.45)  # before the fall to 0.1, not after it
    assert at_first_reach(moved, score, 0.4) == pytest.approx(0.78)  # 0.9 - 0.2 * 0.3 / 0.5
    assert at_first_reach(moved, score, 0.0) == 0.3
    with pytest.raises(ValueError, match=r"0\.7 is never reached: the largest is 0\.6"):
        at_first_reach(moved, score, 0.7)


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


@pytest.fixture(scope="module")
def root(tmp_path_factory):
    place = tmp_path_factory.mktemp("matched")
    build_store(place, seeds=(0, 1, 2), caps=(32,))
    return place


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


def test_an_arm_that_moves_twice_as_fast_is_read_half_way(root) -> None:
    results = load(root, "ladder")
    steps = results.experiment.steps
    arm, reference = results.experiment.plan.arms[1], results.experiment.plan.arms[0]
    rate = np.where(steps["arm"] == arm.name, 0.02, 0.01)
    moved = steps.assign(kl_to_reference=rate * steps["step"])
    results = replace(results, experiment=replace(results.experiment, steps=moved))
    for seed, found in matches(results, arm, reference, "kl_to_reference").items():
        ours, theirs = (
            run_curve(results, one.name, one.runs[seed], "steps", "evaluation")[1] for one in (arm, reference)
        )
        assert found.moved == pytest.approx(0.2)
        assert found.step == pytest.approx((10.0, 20.0))
        assert found.score == pytest.approx((ours[1], theirs[2]))


def test_the_command_prints_a_table_and_names_what_is_missing(root, capsys) -> None:
    assert main([str(root), "ladder", "--by", "generated_tokens_total"]) == 0
    assert "at equal generated" in capsys.readouterr().out
    assert main([str(root), "ladder"]) == 2
    assert (
        "no number in kl_to_reference: it is logged where algorithm.kl.coefficient" in capsys.readouterr().err
    )
    assert main([str(root), "nothing"]) == 2

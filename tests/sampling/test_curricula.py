"""Curricula: what is drawn, paused, retired, tried again and recorded, and that a resume changes nothing."""

from __future__ import annotations

import io

import numpy as np
import pytest
import torch

from harness.configuration.compose import compose_run
from harness.configuration.error import ConfigError
from harness.configuration.registry import kinds, member
from harness.configuration.sections import DeadGroupsConfig
from harness.sampling.curriculum import offline_filter, retire, success_bands, uniform
from harness.sampling.never_give_up import NeverGiveUp

FAMILY = "harness.sampling.curriculum"
KINDS = sorted(kinds(FAMILY))


def build(kind: str, problems: int = 40, seed: int = 3):  # type: ignore[no-untyped-def]
    module = member(FAMILY, kind)
    return module.build(module.Config(), problems, seed)


def pass_rate(problems: np.ndarray) -> np.ndarray:
    """A fixed difficulty: problem i is solved with probability i / 40, in eighths."""
    return np.round(problems / 40 * 8) / 8


@pytest.mark.parametrize("kind", KINDS)
def test_every_curriculum_draws_distinct_problems_and_goes_on_the_same_from_its_state(kind: str) -> None:
    whole, again, restored = (build(kind) for _ in range(3))
    for _ in range(20):
        drawn = whole.draw(7)
        assert len(set(drawn.tolist())) == 7
        assert set(drawn.tolist()) <= set(range(40))
        assert drawn.tolist() == again.draw(7).tolist() == restored.draw(7).tolist()
        for curriculum in (whole, again, restored):
            curriculum.observe(drawn, pass_rate(drawn))
        assert whole.record() == restored.record()
        checkpoint = io.BytesIO()
        torch.save(restored.state(), checkpoint)
        checkpoint.seek(0)
        restored = build(kind)
        restored.restore(torch.load(checkpoint, weights_only=True))
    with pytest.raises(ConfigError):
        build(kind).draw(41)


def test_numpy_numbers_in_a_state_are_written_as_plain_ones() -> None:
    curriculum = build("uniform")
    curriculum.STATE = ("rates",)
    curriculum.rates = {"mean": np.float64(0.5), "each": [np.int64(3), (np.bool_(True),)]}
    state = curriculum.state()["rates"]
    assert state == {"mean": 0.5, "each": [3, (True,)]}
    assert [type(state["mean"]), type(state["each"][0]), type(state["each"][1][0])] == [float, int, bool]


def test_retired_problems_do_not_come_back_while_others_are_left() -> None:
    curriculum = retire.build(retire.Config(pass_rate=0.75), 40, 0)
    for _ in range(30):
        drawn = curriculum.draw(8)
        curriculum.observe(drawn, (drawn < 20).astype(float))
        row = curriculum.record()
        assert row["curriculum_sampled_problems"].split() == [str(i) for i in drawn]
    assert all(drawn >= 20)
    assert row["curriculum_retired"] == 20


def test_the_offline_filter_keeps_what_the_initial_policy_cannot_do() -> None:
    curriculum = offline_filter.build(offline_filter.Config(pass_rate=0.625, min_pass_rate=0.125), 40, 0)
    rates = pass_rate(np.arange(40))
    curriculum.calibrate(rates)
    inside = np.flatnonzero((rates >= 0.125) & (rates <= 0.625))
    drawn = np.concatenate([curriculum.draw(5) for _ in range(20)])
    assert set(drawn.tolist()) == set(inside.tolist())
    assert curriculum.record() == {"curriculum_kept": len(inside), "curriculum_filtered": 40 - len(inside)}


def test_a_filter_that_keeps_nothing_says_so() -> None:
    curriculum = offline_filter.build(offline_filter.Config(pass_rate=0.2), 4, 0)
    with pytest.raises(ConfigError, match=r"keep no problem: pass rates are 0.500 to"):
        curriculum.calibrate(np.array([0.5, 0.6, 0.7, 1.0]))


def bands(**settings: object) -> success_bands.SuccessBands:
    return success_bands.build(success_bands.Config(**settings), 40, 1)  # type: ignore[arg-type]


def test_a_problem_is_paused_and_returns() -> None:
    curriculum = bands(pause_draws=3)
    curriculum.draw(4)
    curriculum.observe(np.array([7]), np.array([0.0]))
    row = curriculum.record()
    assert (row["curriculum_paused"], row["curriculum_paused_problems"]) == (1, "7")
    for _ in range(3):
        assert 7 not in curriculum.draw(39)
    assert 7 in curriculum.draw(40)


def test_a_problem_retires_for_good() -> None:
    curriculum = bands()
    curriculum.draw(4)
    curriculum.observe(np.array([5]), np.array([1.0]))
    assert curriculum.record()["curriculum_retired_problems"] == "5"
    for _ in range(60):
        assert 5 not in curriculum.draw(39)
    assert 5 in curriculum.draw(40)  # unless nothing else is left


def test_the_window_rolls() -> None:
    curriculum = bands(window_groups=2, min_groups=2)
    for accuracy in (0.0, 0.5, 0.7):
        curriculum.observe(np.array([3]), np.array([accuracy]))
    assert curriculum.rates()[3] == pytest.approx(0.6)  # the newest two of three


def test_weights_favour_the_middle_band() -> None:
    # One group seen each: smoothed p = (accuracy + 1/2) / 2, weight p(1 - p): 0.1875 at 0 or 1, 0.25 at 1/2
    curriculum = bands(pause_below=0.0, retire_from=2.0)
    curriculum.observe(np.array([0, 1, 2]), np.array([0.0, 0.5, 1.0]))
    assert curriculum.weights()[:4].tolist() == pytest.approx([0.1875, 0.25, 0.1875, 0.25])


def test_every_step_says_which_bands_were_sampled() -> None:
    curriculum = bands()
    drawn = curriculum.draw(10)
    curriculum.observe(drawn, np.full(10, 0.5))
    row = curriculum.record()
    assert row["curriculum_sampled_band_2"] == 10  # unseen problems count as 1/2
    assert row["curriculum_band_2"] == 10
    assert row["curriculum_unseen"] == 30
    assert row["curriculum_sampled_problems"].split() == [str(i) for i in drawn]
    assert curriculum.record()["curriculum_sampled_problems"] == ""


@pytest.mark.parametrize("rights", range(1, 10))
def test_an_exact_bound_counts_as_reached(rights: int) -> None:
    curriculum = bands(retire_from=rights / 10, pause_below=0.0, window_groups=3)
    correct_PG = torch.arange(10)[None] < rights
    for _ in range(3):
        curriculum.observe(np.array([5]), correct_PG.double().mean(1).numpy())
    assert "5" in curriculum.record()["curriculum_retired_problems"].split()
    curriculum = bands(pause_below=rights / 10, retire_from=1.0, window_groups=3)
    curriculum.observe(np.array([5]), correct_PG.double().mean(1).numpy())
    assert curriculum.record()["curriculum_paused_problems"] == ""


def test_all_problems_are_walked_through_before_any_comes_again() -> None:
    curriculum = build("uniform")
    epochs = [np.concatenate([curriculum.draw(8) for _ in range(5)]).tolist() for _ in range(2)]
    assert [sorted(epoch) for epoch in epochs] == [list(range(40))] * 2
    assert epochs[0] != epochs[1]


def never(problems: int = 40, **settings: object) -> NeverGiveUp:
    config = DeadGroupsConfig(policy="never_give_up", **{"retry_probability": 1.0, **settings})  # type: ignore[arg-type]
    return NeverGiveUp(uniform.build(uniform.Config(), problems, 3), config, problems, 3)


def step(curriculum: NeverGiveUp, right: set[int], count: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """Problems drawn, and how many groups each had before; those in `right` are solved in half of their responses."""
    drawn = curriculum.draw(count)
    earlier = curriculum.earlier(drawn)
    curriculum.observe(drawn, np.array([0.5 * (problem in right) for problem in drawn]))
    return drawn, earlier


def test_an_all_wrong_problem_comes_first_in_the_next_step_until_it_is_solved() -> None:
    curriculum = never()
    first, earlier = step(curriculum, set())
    assert earlier.tolist() == [0, 0, 0, 0]
    again, earlier = step(curriculum, set(first[:3].tolist()))
    assert again.tolist() == first.tolist()
    assert earlier.tolist() == [1, 1, 1, 1]
    third, earlier = step(curriculum, set(range(40)))
    assert third[0] == first[3]
    assert earlier.tolist() == [2, 0, 0, 0]
    assert len(set(third.tolist())) == 4
    row = curriculum.record()
    assert row["curriculum_solved_problems"] == " ".join(map(str, [*first[:3], first[3]]))
    assert row["retried_fraction"] == 5 / 12
    assert row["curriculum_waiting"] == 0
    assert curriculum.attempts.sum() == 0


def test_no_problem_gets_more_groups_than_it_may() -> None:
    curriculum, drawn = never(max_attempts=3), list[int]()
    for _ in range(9):
        drawn += step(curriculum, set())[0].tolist()
    assert max(drawn.count(problem) for problem in drawn) == 3
    assert len(set(drawn)) == 12
    assert set(curriculum.record()["curriculum_given_up_problems"].split()) == set(map(str, drawn))


def test_a_problem_is_tried_again_with_the_probability_that_was_asked_for() -> None:
    curriculum = never(problems=2000, retry_probability=0.75)
    drawn, _ = step(curriculum, set(), 2000)
    assert abs(len(curriculum.waiting) / 2000 - 0.75) < 3 * (0.75 * 0.25 / 2000) ** 0.5
    assert curriculum.waiting.tolist() == [problem for problem in drawn.tolist() if curriculum.attempts[problem]]


def test_a_problem_that_waits_is_not_drawn_twice_in_a_step() -> None:
    curriculum = never(problems=6)
    for _ in range(12):
        drawn, _ = step(curriculum, {0, 1, 2})
        assert len(set(drawn.tolist())) == 4


def test_an_offline_filter_is_no_hindrance() -> None:
    config = compose_run(["patch=[never_give_up]", "algorithm/curriculum=offline_filter"])
    assert config.algorithm.dead_groups.policy == "never_give_up"
    filtered = never()
    filtered.inner = offline_filter.build(offline_filter.Config(samples=4), 40, 3)
    filtered.calibrate(np.where(np.arange(40) < 5, 0.5, 1.0))
    for _ in range(12):
        drawn, _ = step(filtered, {0, 1})
        assert set(drawn.tolist()) <= set(range(5))
        assert len(set(drawn.tolist())) == 4

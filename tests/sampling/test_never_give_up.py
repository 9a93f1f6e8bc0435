"""Never Give Up: which problems are tried again, for how long, and what a resume keeps."""

from __future__ import annotations

import numpy as np

from harness.configuration.compose import compose_run
from harness.configuration.sections import DeadGroupsConfig
from harness.sampling.curriculum import offline_filter, uniform
from harness.sampling.never_give_up import NeverGiveUp


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

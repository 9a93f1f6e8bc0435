"""Who votes with whom."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from harness.evaluation.result import voting_answers


def frame(*rows: tuple[str, str | None, str]) -> pd.DataFrame:
    made = pd.DataFrame(rows, columns=["problem_id", "answer", "verdict"])
    return made.assign(correct=made["verdict"] == "right")


def test_right_answers_vote_together_without_asking_and_wrong_ones_when_the_verifier_says_so() -> None:
    asked: list[set[str]] = []

    def equivalent(pairs: Sequence[tuple[str, str]]) -> list[bool]:
        asked.extend(map(set, pairs))
        return [set(pair) == {"x+1", "1+x"} for pair in pairs]

    rows = [("a", "1/2", "right"), ("a", "0.5", "right"), ("a", "x+1", "wrong"), ("a", "1+x", "wrong")]
    rows += [("a", None, "no_answer"), ("b", "0.5", "wrong")]
    assert voting_answers(frame(*rows), equivalent) == ["1/2", "1/2", "x+1", "x+1", None, "0.5"]
    assert all(pair == {"x+1", "1+x"} for pair in asked)


def test_integers_are_compared_here_and_answers_in_trouble_stand_alone() -> None:
    def never(pairs: Sequence[tuple[str, str]]) -> list[bool]:
        raise AssertionError(pairs)

    rows = [("a", "7", "wrong"), ("a", "07", "wrong"), ("a", "9^9^9", "over_limit"), ("a", "8", "wrong")]
    assert voting_answers(frame(*rows), never) == ["7", "7", "9^9^9", "8"]


def test_a_round_of_comparisons_of_all_problems_is_one_call() -> None:
    calls: list[int] = []

    def equivalent(pairs: Sequence[tuple[str, str]]) -> list[bool]:
        calls.append(len(pairs))
        return [a[0] == b[0] for a, b in pairs]

    answers = ["x", "y", "x+1", "y+1", "x+2", "z"]
    rows = [(problem, answer, "wrong") for problem in "abcd" for answer in answers]
    assert voting_answers(frame(*rows), equivalent) == ["x", "y", "x", "y", "x", "z"] * 4
    assert calls == [20, 8]  # two rounds for three classes, not one call for each of 28 pairs

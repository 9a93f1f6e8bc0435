"""The one-call summary on a table small enough to check by hand, and who votes with whom."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pandas as pd
import pytest

from analysis.tables.evaluation import evaluation_table
from harness.configuration.error import ConfigError
from harness.evaluation.metrics.names import default_ks
from harness.evaluation.result import code_samples, result_of, voting_answers


def table(**changes):
    columns = {
        "problem_id": ["a", "a", "a", "a", "b", "b", "b", "b"],
        "correct": [True, True, False, False, False, False, False, False],
        "answer": ["4", "4", "5", None, "1", "2", None, None],
        "response_tokens": [10, 20, 30, 64, 5, 7, 64, 0],
        "finish_reason": ["stop", "stop", "stop", "length", "stop", "stop", "length", "lost"],
        "verdict": ["right", "right", "wrong", "no_answer", "wrong", "timeout", "no_answer", "no_answer"],
    }
    return pd.DataFrame(columns | changes)


def summarise(frame, ks=None):
    return result_of(code_samples(frame, "response_tokens", None), ks, "response_tokens")


def test_summary_of_a_hand_made_table():
    summary = summarise(table(), ks=[1, 2, 4])
    assert summary["samples_per_problem"] == 4
    assert summary["lost_samples"] == 1
    assert summary["scores"]["avg@4"] == 0.25
    assert summary["scores"]["pass@2"] == pytest.approx((1 - 1 / 6) / 2)
    assert summary["scores"]["maj@4"] == 0.5
    assert summary["truncated_fraction"] == 0.25
    assert summary["truncated_right_fraction"] == 0.0
    assert summary["accuracy_finished"] == pytest.approx(2 / 5)
    assert summary["no_answer_fraction"] == pytest.approx(3 / 8)
    assert summary["response_tokens"]["right"] == {"count": 2, "mean": 15.0, "p50": 15.0, "p95": 19.5}
    assert summary["response_tokens"]["truncated"]["count"] == 2
    assert summary["response_tokens"]["wrong"]["count"] == 5
    assert summary["verifier"]["verdicts"] == {"no_answer": 3, "right": 2, "timeout": 1, "wrong": 2}
    assert summary["coarse_ks"] == [4]
    json.dumps(summary, allow_nan=False)


def test_a_table_without_any_k_has_none():
    shown = evaluation_table([{**summarise(table(), ks=[]), "model": "m", "benchmark": "b", "cap": 64}])
    assert not any("@" in column.header for column in shown.columns)


def test_lost_samples_stand_beside_the_score_of_those_that_are_there():
    """Of 30 problems with 4 of 64 samples each, two of them right, avg was 3 % and called avg@64."""
    columns = {"problem_id": ["a"] * 8 + ["b"] * 8, "answer": [None] * 16, "response_tokens": [1] * 16}
    columns |= {"correct": [True, *[False] * 15], "verdict": ["right", *["no_answer"] * 15]}
    lost = pd.DataFrame(columns).assign(finish_reason=(["stop"] * 2 + ["lost"] * 6) + ["lost"] * 8)
    summary = summarise(lost)
    assert (summary["avg"], summary["avg_present"], summary["lost_samples"]) == (1 / 16, 0.5, 14)
    shown = evaluation_table([summary])
    heads = [column.header for column in shown.columns]
    assert "avg@n %" not in heads
    assert {"avg %, lost as wrong", "avg % of those there"} <= set(heads)
    assert "14 samples were lost" in shown.notes[-1]
    whole = evaluation_table([summarise(table(finish_reason=["stop"] * 8))])
    assert "avg@n %" in [column.header for column in whole.columns]


def test_sample_order_changes_nothing():
    shuffled = table().sample(frac=1, random_state=0)
    assert summarise(shuffled) == summarise(table())


def test_missing_rows_are_refused_and_lost_rows_are_counted():
    with pytest.raises(ConfigError, match=r"1 of 2 problems do not have n=5 samples \(first: problem 1 has 3\)"):
        summarise(table(problem_id=["a", "a", "a", "a", "b", "b", "b", "a"]))


def test_a_lost_sample_cannot_be_right():
    with pytest.raises(ValueError, match="lost sample is marked right"):
        summarise(table(correct=[False] * 7 + [True]))


def test_cap_length_sample_that_stopped_is_not_truncated():
    assert summarise(table(finish_reason=["stop"] * 8))["truncated_fraction"] == 0


def test_default_ks_are_powers_of_two_and_n():
    assert default_ks(12) == [1, 2, 4, 8, 12]
    assert default_ks(1) == [1]


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


def test_all_comparisons_of_all_problems_are_one_call() -> None:
    calls: list[int] = []

    def equivalent(pairs: Sequence[tuple[str, str]]) -> list[bool]:
        calls.append(len(pairs))
        return [a[:2] == b[:2] for a, b in pairs]

    # Functions have no magnitude: each is compared with all.
    answers = [r"\sin x", r"\cos y", r"\sin x+1", r"\cos y+1", r"\sin x+2", r"\tan z"]
    sine, cosine, tangent = answers[0], answers[1], answers[5]
    rows = [(problem, answer, "wrong") for problem in "abcd" for answer in answers]
    assert voting_answers(frame(*rows), equivalent) == [sine, cosine, sine, cosine, sine, tangent] * 4
    assert calls == [4 * 15]

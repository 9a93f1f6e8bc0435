"""Metrics against enumeration of every k-subset; the one-call summary on a table small enough to check by hand; who votes with whom."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from math import comb

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis.tables.evaluation import evaluation_table
from harness.configuration.error import ConfigError
from harness.evaluation.metrics import names as metrics
from harness.evaluation.metrics.names import count_votes, default_ks, majority_at_k, representatives
from harness.evaluation.result import code_samples, magnitudes, result_of, voting_answers


def subsets(values, k):
    return list(itertools.combinations(values, k))


def enumerated_majority(classes, right_classes, k):
    total = Fraction(0)
    for subset in subsets(classes, k):
        counts = Counter(c for c in subset if c >= 0)
        top = max(counts.values(), default=0)
        winners = [c for c, size in counts.items() if size == top]
        if winners:
            total += Fraction(sum(c in right_classes for c in winners), len(winners))
    return float(total / comb(len(classes), k))


def majority_of(classes, right_classes, k):
    classes = np.array(classes)
    votes = count_votes(
        np.zeros(len(classes), dtype=np.int64),
        classes,
        np.isin(classes, list(right_classes)) & (classes >= 0),
        problems=1,
        n=len(classes),
    )
    return majority_at_k(votes, [k])[k][0]


@pytest.mark.parametrize("n", [1, 2, 5, 8])
def test_count_metrics_equal_enumeration(n):
    for c in range(n + 1):
        rows = [1] * c + [0] * (n - c)
        for k in range(1, n + 1):
            drawn = [sum(s) for s in subsets(rows, k)]
            mean = lambda hits, drawn=drawn: sum(hits) / len(drawn)  # noqa: E731
            assert metrics.pass_at_k([c], n, k)[0] == pytest.approx(mean(d >= 1 for d in drawn), abs=1e-15)


def test_k_above_n_is_refused_not_one():
    with pytest.raises(ValueError, match="k=5 needs"):
        metrics.pass_at_k([2], 4, 5)
    with pytest.raises(ValueError, match="maj@5"):
        majority_of([0, 1, 1, 0], {0}, 5)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.integers(-1, 4), min_size=1, max_size=9), st.sets(st.integers(0, 4), max_size=2))
def test_majority_equals_enumeration(classes, right_classes):
    for k in range(1, len(classes) + 1):
        expected = enumerated_majority(classes, right_classes, k)
        assert majority_of(classes, right_classes, k) == pytest.approx(expected, abs=1e-12)


def exact_majority(own, others, n, k):
    """Rational reference: polynomials in (drawn, ties) with integer coefficients."""
    total = Fraction(0)
    spare = n - own - sum(others)
    for t in range(1, min(own, k) + 1):
        ways = {(t, 0): comb(own, t)}
        for size in others:
            step = Counter()
            for (drawn, ties), count in ways.items():
                for i in range(min(size, t) + 1):
                    step[drawn + i, ties + (i == t)] += count * comb(size, i)
            ways = step
        for (drawn, ties), count in ways.items():
            if drawn <= k:
                total += Fraction(count * comb(spare, k - drawn), ties + 1)
    return float(total / comb(n, k))


@pytest.mark.parametrize(
    ("own", "others", "n"),
    [(1, [1] * 31, 32), (20, [19, 30, 5, 5, 1], 100), (3, [2] * 12, 64), (40, [45, 15], 100), (7, [], 50)],
)
def test_majority_of_many_samples_equals_exact_rationals(own, others, n):
    classes = [0] * own + [i + 1 for i, size in enumerate(others) for _ in range(size)]
    classes += [-1] * (n - len(classes))
    for k in (1, 2, 3, 8, 16, 31, n // 2, n - 1, n):
        if k <= n:
            assert majority_of(classes, {0}, k) == pytest.approx(exact_majority(own, others, n, k), abs=1e-12)


def test_votes_are_counted_over_many_problems_and_one_right_verdict_makes_a_class_right():
    problem = np.array([0, 0, 0, 2, 2, 2])
    classes = np.array([5, 5, 7, 7, 7, -1])
    votes = count_votes(problem, classes, np.array([True, False, False, False, False, False]), problems=3, n=3)
    assert majority_at_k(votes, [3])[3].tolist() == [1.0, 0.0, 0.0]


def test_an_answer_joins_the_first_class_whose_first_member_equals_it():
    value = {"1/2": 0.5, "0.5": 0.5, "2": 2.0, "(0,1)": 3.0, "x<1": 3.0}
    answers = ["1/2", "0.5", "2", "(0,1)", "x<1", "1/2"]
    equal = lambda pairs: [value[a] == value[b] for a, b in pairs]  # noqa: E731
    classes = ["1/2", "1/2", "2", "(0,1)", "(0,1)", "1/2"]
    for keys in (lambda _: (), {"1/2": (5, 6), "0.5": (6, 7), "2": (20,)}.get):
        found = representatives([answers, ["2"], []], equal, lambda answer, keys=keys: keys(answer) or ())
        assert found == [classes, ["2"], []]


def test_distinct_answers_are_compared_with_their_neighbours_alone():
    """Of 2,000 distinct answers every pair was compared: 44 s a problem."""
    asked = []
    answers = [rf"\frac{{{7 * number + 1}}}{{7}}" for number in range(1000)] + [
        f"({number}, x)" for number in range(1000)
    ]
    answers += ["0.142857", r"\sin x"]

    def equal(pairs):
        asked.extend(pairs)
        return [set(pair) == {r"\frac{1}{7}", "0.142857"} for pair in pairs]

    (classes,) = representatives([answers], equal, magnitudes)
    assert classes == [*answers[:-2], r"\frac{1}{7}", r"\sin x"]
    assert len(asked) < 4 * len(answers)


@pytest.mark.parametrize("answers", [("1/2", "0.5"), ("0.333333", "1/3"), ("x = 3", "3"), (r"\sqrt{8}", r"2\sqrt{2}"),
    ("(x+1)^2", "x^2+2x+1"), ("1, 2", "2, 1"), (r"\{1,2\}", "2,1,1"), (r"\{3\}", "3"), ("1.414214", r"\sqrt{2}")])  # fmt: skip
def test_equal_answers_share_a_magnitude(answers):
    first, second = ({*magnitudes(answer)} for answer in answers)
    assert first & second


@pytest.mark.parametrize(
    "answer", [r"50\%", "12 cm", "no solution", "3:4", r"\sin x", r"(-\infty, 2)", "(C) 4", "101_2"]
)
def test_what_is_compared_by_more_than_a_value_has_no_magnitude(answer):
    assert magnitudes(answer) == ()


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

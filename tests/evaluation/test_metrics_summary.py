"""The one-call summary on a table small enough to check by hand."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from harness.configuration.error import ConfigError
from harness.evaluation.metrics.names import default_ks
from harness.evaluation.result import code_samples, result_of


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


def test_sample_order_changes_nothing():
    shuffled = table().sample(frac=1, random_state=0)
    assert summarise(shuffled) == summarise(table())


def test_missing_rows_are_refused_and_lost_rows_are_counted():
    with pytest.raises(ConfigError, match="1 of 2 problems do not have n=5"):
        summarise(table(problem_id=["a", "a", "a", "a", "b", "b", "b", "a"]))


def test_a_lost_sample_cannot_be_right():
    with pytest.raises(ValueError, match="lost sample is marked right"):
        summarise(table(correct=[False] * 7 + [True]))


def test_cap_length_sample_that_stopped_is_not_truncated():
    assert summarise(table(finish_reason=["stop"] * 8))["truncated_fraction"] == 0


def test_default_ks_are_powers_of_two_and_n():
    assert default_ks(12) == [1, 2, 4, 8, 12]
    assert default_ks(1) == [1]

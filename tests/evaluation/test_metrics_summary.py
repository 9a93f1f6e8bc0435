"""The one-call summary on a table small enough to check by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest

from harness.evaluation.metrics.exact import UnevenSamples
from harness.evaluation.metrics.summary import default_ks, samples_from_columns
from harness.evaluation.result import result_of


def table(**changes):
    columns = {
        "problem_id": ["a", "a", "a", "a", "b", "b", "b", "b"],
        "correct": [True, True, False, False, False, False, False, False],
        "answer": ["4", "4", "5", None, "1", "2", None, None],
        "response_tokens": [10, 20, 30, 64, 5, 7, 64, 0],
        "finish_reason": ["stop", "stop", "stop", "length", "stop", "stop", "length", "lost"],
        "verdict": ["right", "right", "wrong", "no_answer", "wrong", "timeout", "no_answer", "no_answer"],
    }
    return samples_from_columns(**(columns | changes))


def summarise(samples, ks=None):
    return result_of(samples, ks, "response_tokens")


def test_summary_of_a_hand_made_table():
    summary = summarise(table(), ks=[1, 2, 4])
    assert summary["samples_per_problem"] == 4
    assert summary["lost_samples"] == 1
    assert summary["scores"]["avg@4"] == 0.25
    assert summary["scores"]["pass@2"] == pytest.approx((1 - 1 / 6) / 2)
    assert summary["scores"]["pass^2"] == pytest.approx(1 / 6 / 2)
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
    order = np.random.default_rng(0).permutation(8)
    base = table()
    shuffled = samples_from_columns(
        **{
            name: [values[i] for i in order]
            for name, values in {
                "problem_id": list("aaaabbbb"),
                "correct": base.right_R.tolist(),
                "answer": ["4", "4", "5", None, "1", "2", None, None],
                "response_tokens": base.tokens_R.tolist(),
                "finish_reason": ["stop"] * 3 + ["length"] + ["stop"] * 2 + ["length", "lost"],
                "verdict": [base.verdict_names[i] for i in base.verdict_R],
            }.items()
        }
    )
    assert summarise(shuffled) == summarise(base)


def test_missing_rows_are_refused_and_lost_rows_are_counted():
    with pytest.raises(UnevenSamples, match="1 of 2 problems do not have n=5"):
        table(problem_id=["a", "a", "a", "a", "b", "b", "b", "a"])


def test_a_lost_sample_cannot_be_right():
    with pytest.raises(ValueError, match="lost sample is marked right"):
        table(correct=[False] * 7 + [True])


def test_cap_length_sample_that_stopped_is_not_truncated():
    assert not table(finish_reason=["stop"] * 8).truncated_R.any()


def test_default_ks_are_powers_of_two_and_n():
    assert default_ks(12) == [1, 2, 4, 8, 12]
    assert default_ks(1) == [1]

"""How a measure is read off step metrics and shown."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from harness.engagement.measure import Measure, percent

TOKENS = Measure("released", ("algorithm.surrogate.clip_high",), "of tokens", ("a",), 0.003, "arm")


@pytest.mark.parametrize(
    ("fraction", "text"),
    [
        (0.0, "0 %"),
        (3e-17, "0 %"),
        (4e-6, "< 0.001 %"),
        (2e-4, "0.02 %"),
        (0.00296, "0.3 %"),
        (0.0144, "1.4 %"),
        (0.0996, "10 %"),
        (0.144, "14 %"),
        (1.0, "100 %"),
    ],
)
def test_percents_have_two_digits(fraction: float, text: str) -> None:
    assert percent(fraction) == text


def test_a_measure_is_the_mean_over_steps_then_over_runs() -> None:
    long, short = pd.DataFrame({"a": [0.1, None, 0.3, 0.2]}), pd.DataFrame({"a": [0.6]})
    assert TOKENS.value([long, short]) == pytest.approx((0.2 + 0.6) / 2)
    both = Measure("clipped", (), "of tokens", ("a", "b"), 0.003, "arm")
    assert both.value([pd.DataFrame({"a": [0.1, 0.5], "b": [0.2, None]})]) == pytest.approx(0.3)


@pytest.mark.parametrize("runs", [[], [pd.DataFrame({"loss": [1.0]})], [pd.DataFrame({"a": [None, None]})]])
def test_runs_without_the_field_say_nothing(runs: list[pd.DataFrame]) -> None:
    value = TOKENS.value(runs)
    assert math.isnan(value)
    assert TOKENS.text(value) == ""
    assert not TOKENS.hardly(value)


def test_the_mark_is_under_the_threshold_only() -> None:
    assert TOKENS.text(0.0029) == "0.29 % of tokens, hardly engaged"
    assert TOKENS.text(0.002999) == "< 0.3 % of tokens, hardly engaged"
    assert TOKENS.text(0.003) == "0.3 % of tokens"
    assert TOKENS.text(0.0002, mark=False) == "0.02 % of tokens"
    assert Measure("always", ("optimizer.learning_rate",)).text(math.nan) == "always"
    assert not Measure("always", ()).hardly(0.0)

"""The orders of systems at two sizes: correlations and pairs worked by hand, and the command on a store."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ranks import INVERTED, NEITHER, ONE, SAME, Orders, main, order_of
from synthetic_store import build_store

NOISE = np.array([-0.1, 0.1, -0.1, 0.1])


def orders(large: list[float]) -> Orders:
    """Three systems at 1, 2 and 3 points in the small policy, at these in the large one; four seeds that hardly differ."""
    effects = [[level + place * NOISE for place, level in enumerate(own)] for own in ([1.0, 2.0, 3.0], large)]
    return Orders(("small", "large"), ("a", "b", "c"), np.array(effects))


def test_kendall_s_tau_by_hand() -> None:
    """One of three pairs turned round: (2 - 1) / 3."""
    assert orders([10.0, 20.0, 30.0]).tau() == pytest.approx(1.0)
    turned = orders([20.0, 10.0, 30.0])
    assert turned.tau() == pytest.approx(1 / 3)
    assert turned.interval(50) == pytest.approx((1 / 3, 1 / 3))  # no seed has another order
    assert (turned.halves(0, 0), turned.halves(0, 1)) == (pytest.approx(1.0), pytest.approx(1 / 3))


def test_a_pair_is_inverted_where_both_sizes_tell_it_apart_the_other_way_round() -> None:
    found = {pair: order_of(both) for pair, both in orders([20.0, 10.0, 30.0]).pairs().items()}
    assert found == {("a", "b"): INVERTED, ("a", "c"): SAME, ("b", "c"): SAME}
    close = orders([20.0, 20.0, 20.0]).pairs()
    assert {order_of(both) for both in close.values()} == {ONE}
    assert order_of((close["a", "b"][1], close["a", "b"][1])) == NEITHER
    assert close["a", "b"][0].family == 6


def test_the_command_reads_a_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    levels = {
        "small_grpo": 0.4,
        "small_a": 0.5,
        "small_b": 0.6,
        "large_grpo": 0.5,
        "large_a": 0.7,
        "large_b": 0.6,
    }
    rungs = [(name, name, level, 1.0) for name, level in levels.items()]
    patches = [[] for _ in rungs]
    more = {"design": "arms", "caps": (32,), "patches": patches}
    build_store(tmp_path, rungs=rungs, seeds=(0, 1, 2, 3), name="two_sizes", **more)
    assert main([str(tmp_path), "two_sizes", "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert (tmp_path / "out" / "ranks.md").read_text() == said
    assert "Of 1 pairs" in said
    build_store(tmp_path, rungs=rungs[:4], seeds=(0, 1, 2, 3), name="lacking", **{**more, "patches": patches[:4]})
    assert main([str(tmp_path), "lacking"]) == 2
    assert "at two sizes" in capsys.readouterr().err

"""`harness explain`: shares by autograd through the real objective, against hand-worked numbers."""

from __future__ import annotations

import functools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.cli import main
from harness.configuration.compose import config_dir, options
from harness.configuration.sections import AlgorithmConfig
from harness.explain.shares import ExplainedRollout, explain_one, make_group, systems

REWARDS, LENGTHS = [1.1, 0.1, 0.0, 1.1], [220, 950, 1100, 180]


@functools.cache
def algorithms() -> dict[str, AlgorithmConfig]:
    return systems(1100)


def percent(rollouts: list[ExplainedRollout]) -> list[float]:
    return [round(100 * rollout.share, 1) for rollout in rollouts]


def test_a_system_of_ones_own_is_what_a_run_composes(tmp_path: Path) -> None:
    (tmp_path / "algorithm").mkdir()
    text = "defaults: [grpo, _self_]\nsurrogate: {clip_low: 0.9, clip_high: '${algorithm.surrogate.clip_low}'}\n"
    (tmp_path / "algorithm" / "mine.yaml").write_text(text)
    with config_dir(str(tmp_path)):
        assert systems(8, ["mine"])["mine"].surrogate.clip_high == 0.9


def test_response_mean_shares_follow_the_advantages_alone() -> None:
    # |A| = 0.525, 0.475, 0.575, 0.525 (any sigma cancels), sum 2.1: 25.0, 22.6, 27.4, 25.0 %
    rollouts = explain_one(make_group(REWARDS, LENGTHS), algorithms()["grpo"])
    assert percent(rollouts) == [25.0, 22.6, 27.4, 25.0]
    assert [r.advantage for r in rollouts] == pytest.approx([0.864, -0.782, -0.946, 0.864], abs=1e-3)


@pytest.mark.parametrize("name", ["dapo", "dapo_group_token_mean", "dr_grpo", "dr_grpo_equation", "rloo", "cispo"])
def test_token_level_shares_follow_advantage_times_length(name: str) -> None:
    # |A| l = 115.5, 451.25, 632.5, 94.5, sum 1293.75: 8.9, 34.9, 48.9, 7.3 %
    assert percent(explain_one(make_group(REWARDS, LENGTHS), algorithms()[name])) == [8.9, 34.9, 48.9, 7.3]


def test_coefficients_by_hand() -> None:
    # Token mean over 2450 tokens: centred advantage 0.525 / 2450 a token (Olmo 3: no sigma)
    rollouts = explain_one(make_group(REWARDS, LENGTHS), algorithms()["olmo3"])
    assert rollouts[0].coefficient == pytest.approx(0.525 / 2450)
    # Response mean: A / (length * 4), with the z-score's sigma 0.60759
    rollouts = explain_one(make_group(REWARDS, LENGTHS), algorithms()["grpo"])
    assert rollouts[1].coefficient == pytest.approx(-0.475 / 0.60759 / (950 * 4), rel=1e-4)


def test_all_correct_collapses_every_group_baseline() -> None:
    for name in ("grpo", "dapo", "dr_grpo", "olmo3", "rloo", "gspo", "best_worst_dpo"):
        assert [r.share for r in explain_one(make_group([1.1] * 4, LENGTHS), algorithms()[name])] == [0.0] * 4


def test_a_clipped_rollout_loses_its_share() -> None:
    # Ratio 1.5 on a positive advantage is above 1.28: no gradient; the same on a negative one stays.
    group = make_group([1, 0], [10, 10], [-2.0, -2.0], [-2.0 + 0.405465, -2.0])
    assert percent(explain_one(group, algorithms()["dapo"])) == [0.0, 100.0]
    assert percent(explain_one(group, algorithms()["dapo_noclip"])) == [60.0, 40.0]


def test_log_probabilities_token_by_token() -> None:
    # One of two tokens clipped: half of the rollout's gradient is left.
    group = make_group([1, 0], [2, 2], [[-1, -1], [-1, -1]], [[-1, 0], [-1, -1]])
    first, second = explain_one(group, algorithms()["dr_grpo"])
    assert first.share == pytest.approx(1 / 3)
    assert second.share == pytest.approx(2 / 3)


@settings(max_examples=25, deadline=None)
@given(
    group=st.lists(st.tuples(st.floats(-2, 2, width=16), st.integers(1, 60)), min_size=2, max_size=6),
    name=st.sampled_from(options("algorithm")),
)
def test_shares_sum_to_one_or_are_all_zero(group: list[tuple[float, int]], name: str) -> None:
    rewards, lengths = [r for r, _ in group], [n for _, n in group]
    shares = [r.share for r in explain_one(make_group(rewards, lengths), algorithms()[name])]
    assert sum(shares) == pytest.approx(1.0) or shares == [0.0] * len(group)


def test_the_command_prints_every_system_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explain", f"rewards={REWARDS}", f"lengths={LENGTHS}", "systems=all", "--json"]) == 0
    printed: dict[str, list[dict[str, Any]]] = json.loads(capsys.readouterr().out)["systems"]
    assert sorted(printed) == options("algorithm")
    assert list(printed["grpo"][0]) == ["reward", "length", "advantage", "coefficient", "share"]
    assert [row["length"] for row in printed["dapo"]] == LENGTHS
    for rollouts in printed.values():
        assert sum(row["share"] for row in rollouts) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("columns", [80, 200])
def test_a_table_shows_the_best_known_systems_and_cuts_no_number(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    call = ["explain", f"rewards={REWARDS * 2}", f"lengths={LENGTHS * 2}"]
    assert main(call) == 0
    printed = capsys.readouterr().out
    assert "…" not in printed
    assert max(map(len, printed.splitlines()[:-1])) <= columns
    chosen = ["grpo", "dr_grpo", "dapo", "gspo", "cispo", "rloo"]
    group = make_group(REWARDS * 2, LENGTHS * 2)
    for system in systems(group.cap, chosen).values():
        assert all(f"{rollout.coefficient:+.2e}" in printed for rollout in explain_one(group, system))
    assert "adaptive_entropy" not in printed
    assert main([*call, "systems=all"]) == 0
    everything = capsys.readouterr().out
    assert all(name in everything for name in options("algorithm"))

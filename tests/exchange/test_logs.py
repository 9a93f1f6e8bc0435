"""Logs of TRL, verl and wandb: a file in, four curves out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tables import table
from verbs import Said

from harness.configuration.error import ConfigError
from harness.exchange.dialect import load_table
from harness.exchange.logs import QUANTITIES, read_curves, verl_row
from harness.store import METRICS

VERL = {
    "critic/score/mean": -0.5, "actor/entropy": 0.4, "actor/entropy_loss": 0.7, "response_length/mean": 750.0, "prompt_length/mean": 250.0,
    "perf/total_num_tokens": 60_000.0, "response_length/clip_ratio": 0.125, "training/global_step": 2,
}  # fmt: skip
SCORE = {"val-core/HuggingFaceH4/aime_2024/acc/mean@32": 0.25, "val-core/HuggingFaceH4/aime_2024/acc/best@32/mean": 0.7}


def lines(*rows: Any) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@table(__file__, "curves", "name, text, curves")
def test_a_log_becomes_curves(tmp_path: Path, name: str, text: str, curves: dict[str, Any]) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    found = read_curves(tmp_path / name)
    assert {
        run: {key: [[*point] for point in points] for key, points in of.items()} for run, of in found.items()
    } == curves


@table(__file__, "refused", "name, text, words")
def test_what_is_no_log_is_one_line(tmp_path: Path, name: str, text: str, words: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=words):
        read_curves(tmp_path / name)


def test_a_log_that_is_not_there_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot read"):
        read_curves(tmp_path / "absent.json")


@pytest.mark.parametrize("dialect", ["trl", "verl"])
def test_what_a_table_maps_to_is_ours_or_said_to_be_extra(dialect: str) -> None:
    names = set(load_table(dialect).log["metrics"].values())
    assert names <= {*METRICS, "clip_fraction", "zero_spread_groups_fraction"}
    assert names >= {*QUANTITIES} - {"accuracy"}


def test_a_line_of_verl_is_a_row_of_the_store() -> None:
    row = verl_row({"step": 2, "data": {**VERL, **SCORE}})
    assert (row["step"], row["reward_mean"], row["truncated_fraction"]) == (2, -0.5, 0.125)
    assert (row["entropy_nats"], row["actor/entropy_loss"]) == (0.4, 0.7)  # the newer of two names has the column
    assert row["trained_tokens"] == 45_000  # 60,000 x 750 / (750 + 250): prompts are not generated
    assert row["val-core/HuggingFaceH4/aime_2024/acc/mean@32"] == 0.25
    assert verl_row({"step": 2}) is None


def test_the_command_draws_and_stores_nothing(tmp_path: Path, said: Said) -> None:
    for arm in ("grpo", "dapo"):
        (tmp_path / arm).mkdir()
        (tmp_path / arm / "metrics.jsonl").write_text(
            lines({"step": 1, "data": VERL}, {"step": 2, "data": {**VERL, **SCORE}})
        )
    given = ["report", f"logs={tmp_path}/grpo/metrics.jsonl,{tmp_path}/dapo/metrics.jsonl"]
    told = said(*given, f"out={tmp_path / 'out'}", "formats=png")
    assert "grpo/metrics: " in told
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["logs.png"]
    assert "report logs= needs out=DIR" in said(*given, code=2)
    assert "two logs are called grpo/metrics" in said(
        *given[:1], f"{given[1]},{tmp_path}/grpo/metrics.jsonl", "out=x", code=2
    )

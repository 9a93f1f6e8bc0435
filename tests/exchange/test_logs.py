"""Logs of TRL, verl and wandb: a file in, four curves out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from verbs import Said

from harness.configuration.error import ConfigError
from harness.exchange.dialect import load_table
from harness.exchange.logs import QUANTITIES, read_curves, verl_row
from harness.store import METRICS

VERL = {
    "critic/score/mean": -0.5, "actor/entropy": 0.4, "actor/entropy_loss": 0.7, "response_length/mean": 750.0, "prompt_length/mean": 250.0,
    "perf/total_num_tokens": 60_000.0, "response_length/clip_ratio": 0.125, "training/global_step": 2,
}  # fmt: skip
TRL = {"step": 2, "reward": 0.5, "entropy": 0.4, "completions/mean_length": 200.0, "clip_ratio/high_mean": 0.003}
SCORE = {"val-core/HuggingFaceH4/aime_2024/acc/mean@32": 0.25, "val-core/HuggingFaceH4/aime_2024/acc/best@32/mean": 0.7}


def lines(*rows: Any) -> str:
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.mark.parametrize(
    ("name", "text", "curves"),
    [
        (
            "verl.jsonl",  # torn by the end of the job
            lines({"step": 0, "data": SCORE}, {"step": 2, "data": {**VERL, "x": "nan"}}) + '{"step": 5, "da',
            {"verl": {"reward_mean": [(2, -0.5)], "accuracy": [(0, 0.25)], "response_tokens_mean": [(2, 750)], "entropy_nats": [(2, 0.4)]}},
        ),
        (
            "trainer_state.json",
            json.dumps({"log_history": [{**TRL, "step": 4, "reward": 0.75}, TRL, {"step": 4, "eval_accuracy": 0.3},
                                        {"step": 4, "train_runtime": 9}]}),
            {"trainer_state": {"reward_mean": [(2, 0.5), (4, 0.75)], "entropy_nats": [(2, 0.4), (4, 0.4)],
                               "response_tokens_mean": [(2, 200), (4, 200)], "accuracy": [(4, 0.3)]}},
        ),
        (
            "history.json",  # wandb's history of TRL's trainer
            json.dumps([{"_step": 0, "train/global_step": 10, "train/reward": 0.4, "_runtime": 5},
                        {"_step": 1, "train/global_step": 10, "eval/accuracy": 0.3, "gradients": {"_type": "histogram"}}]),
            {"history": {"reward_mean": [(10, 0.4)], "accuracy": [(10, 0.3)]}},
        ),
        (
            "chart.csv",  # wandb's chart of two runs, with a byte order mark
            "\ufeffStep,a - critic/score/mean,a - critic/score/mean__MAX,b - critic/score/mean\n1,0.1,0.9,0.3\n2,0.2,0.9,\n",
            {"a": {"reward_mean": [(1, 0.1), (2, 0.2)]}, "b": {"reward_mean": [(1, 0.3)]}},
        ),
        ("own.csv", "step,reward_mean,note\n1,0.5,x\n", {"own": {"reward_mean": [(1, 0.5)]}}),
        (
            "text.jsonl", '{"step": 1, "reward": 0.5, "text": "a\u2028b"}\n{"step": 2, "reward": 0.25}\n',
            {"text": {"reward_mean": [(1, 0.5), (2, 0.25)]}},
        ),
    ],
)  # fmt: skip
def test_a_log_becomes_curves(tmp_path: Path, name: str, text: str, curves: dict[str, Any]) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    assert read_curves(tmp_path / name) == curves


@pytest.mark.parametrize(
    ("name", "text", "words"),
    [
        ("a.jsonl", "hello\n", "line 1 is not JSON"),
        ("a.json", '{"log_history": []}', "has none of the metrics that are drawn"),
        ("a.csv", "iteration,reward\n1,2\n", "has none of the metrics that are drawn"),
        ("absent.json", None, "cannot read"),
    ],
)
def test_what_is_no_log_is_one_line(tmp_path: Path, name: str, text: str | None, words: str) -> None:
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(ConfigError, match=words):
        read_curves(tmp_path / name)


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

"""An experiment of one's own from a model and a file of problems: what is written plans and runs as it is, and keeps problems apart."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tables import table
from verbs import jsonl


@pytest.fixture
def problems(tmp_path: Path) -> Path:
    rows = [{"id": f"{i}", "problem": f"{i}+1=", "answer": f"{i + 1}"} for i in range(1, 41)]
    return jsonl(tmp_path / "sums.jsonl", rows)


def read(file: Path) -> list[str]:
    return [json.loads(line)["problem"] for line in file.read_text().splitlines()]


def test_it_looks_at_the_model_and_writes_what_plan_accepts(
    base_policy: Path, problems: Path, tmp_path: Path, said
) -> None:
    mine, results = tmp_path / "mine", f"runtime.results={tmp_path / 'results'}"
    asked = ["new", "experiment=sums", f"model={base_policy}", f"task={problems}", f"folder={mine}", results]
    told = said(*asked)
    assert "% right" in told
    assert "% cut off at 128 tokens" in told  # half of the model's 256 positions
    assert "% cut off" in told.partition("taken: ")[2]  # of what was chosen, too
    train, heldout = (read(mine / "problems" / f"sums_{part}.jsonl") for part in ("train", "heldout"))
    assert (len(train), len(heldout)) == (32, 8)
    assert sorted(train + heldout) == sorted(read(problems))
    assert "after 16 problems" in (mine / "experiment" / "sums.yaml").read_text()
    looked_at = (tmp_path / "results").glob("evaluations/**/*.parquet")
    asked_ids = {f"{problem}+1=" for path in looked_at for problem in pq.read_table(path)["problem_id"].to_pylist()}
    assert len(asked_ids) == 16
    assert asked_ids <= set(train)
    planned = said("plan", "--config-dir", str(mine), "experiment=sums", results)
    assert "margin 3" in planned.partition("8 runs, 0 finished, 8 to run")[2]
    small = [
        "experiment.seeds=[0]", "training.steps=1", "sampling.max_response_tokens=8", "algorithm.prompts_per_step=2", "runtime.workers=1"
    ]  # fmt: skip
    ran = said("run", "--config-dir", str(mine), "experiment=sums", results, *small)
    assert "2 runs: 2 finished" in ran
    assert "exists already" in said(*asked, code=2)


@table(__file__, "refused", "change, words")
def test_what_cannot_be_used_is_named(
    change: dict[str, str], words: str, base_policy: Path, problems: Path, tmp_path: Path, said, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("few.jsonl").write_text('{"id": "1", "problem": "1+1=", "answer": "2"}\n')
    golds = [("" if number == 7 else number) for number in range(21)]
    rows = [{"id": str(number), "problem": f"{number}+0=", "answer": gold} for number, gold in enumerate(golds)]
    jsonl(Path("empty.jsonl"), rows)
    given = {"experiment": "sums", "model": str(base_policy), "task": str(problems)} | change
    told = said("new", *(f"{key}={value}" for key, value in given.items()), "folder=mine", code=2)
    assert words in told
    assert not Path("mine/experiment").exists()

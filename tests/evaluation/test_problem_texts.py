"""Problem texts behind stored samples: from the run's own configuration, nothing where the data are not here."""

from __future__ import annotations

import os
import sys
import types
from pathlib import Path

import pytest

from harness.configuration.error import ConfigError
from harness.evaluation.problem_texts import problem_texts
from harness.problems.benchmarks.arithmetic import Config, load
from harness.store import ResultStore, RunDir

ARITHMETIC = "evaluation: {benchmarks: {held: {kind: arithmetic, problems: 3}}}\n"


def a_run(tmp_path: Path, config: str) -> RunDir:
    run = ResultStore(tmp_path).run("0" * 16)
    manifest = {"identity_version": 1, "arm_id": "a", "seed": 0, "status": "finished", "attempts": []}
    run.create(config, {**manifest, "labels": {}, "provenance": {}, "error": None})
    return run


def test_prompt_and_gold_come_from_the_benchmark_of_the_run(tmp_path):
    texts = problem_texts(a_run(tmp_path, ARITHMETIC), "held")
    assert len(texts) == 3
    expected = load(Config(problems=3)).problems
    assert {i: (text.prompt, text.gold) for i, text in texts.items()} == {
        p.id: (p.prompt, p.gold) for p in expected
    }


def test_a_local_file_is_read_and_a_missing_one_is_no_error(tmp_path):
    path = tmp_path / "mine.jsonl"
    path.write_text('{"id": "a", "problem": "What is 6 times 7?", "answer": "42"}\n')
    config = f"evaluation: {{benchmarks: {{mine: {{kind: dataset, name: mine, path: {path}}}}}}}\n"
    run = a_run(tmp_path, config)
    assert problem_texts(run, "mine")["a"].gold == "42"
    assert "What is 6 times 7?" in problem_texts(run, "mine")["a"].prompt
    assert problem_texts(run, "other") == {}
    path.unlink()
    assert problem_texts(run, "mine") == {}


@pytest.mark.parametrize("said", [None, "0", "1"])
def test_the_network_is_closed_while_the_data_are_read_and_as_it_was_afterwards(tmp_path, monkeypatch, said):
    """The libraries read the variable when they are imported: one before, the other meanwhile."""
    run, seen, allowed = a_run(tmp_path, ARITHMETIC), [], said == "1"
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    if said is not None:
        monkeypatch.setenv("HF_HUB_OFFLINE", said)
    hub, data = types.SimpleNamespace(HF_HUB_OFFLINE=allowed), types.SimpleNamespace(HF_HUB_OFFLINE=True)
    monkeypatch.setitem(sys.modules, "huggingface_hub.constants", hub)
    monkeypatch.delitem(sys.modules, "datasets.config", raising=False)

    def load(config):
        monkeypatch.setitem(sys.modules, "datasets.config", data)
        seen.append((os.environ["HF_HUB_OFFLINE"], hub.HF_HUB_OFFLINE))
        raise ConfigError("not here")

    monkeypatch.setattr("harness.evaluation.problem_texts.load_benchmark", load)
    assert problem_texts(run, "held") == {}
    assert seen == [("1", True)]
    assert os.environ.get("HF_HUB_OFFLINE") == said
    assert [allowed] * 2 == [hub.HF_HUB_OFFLINE, data.HF_HUB_OFFLINE]

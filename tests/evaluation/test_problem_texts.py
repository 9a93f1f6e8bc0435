"""Problem texts behind stored samples: from the run's own configuration, nothing where the data are not here."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

from stored_runs import about

from harness.evaluation.protocol import problem_texts
from harness.problems.benchmarks.arithmetic import Config, load
from harness.store import ResultStore, RunDir

ARITHMETIC = "evaluation: {benchmarks: {held: {kind: arithmetic, problems: 3}}}\n"


def a_run(tmp_path: Path, config: str) -> RunDir:
    run = ResultStore(tmp_path).run("0" * 16)
    run.create(config, about())
    return run


def test_prompt_and_gold_come_from_the_benchmark_of_the_run(tmp_path):
    texts = problem_texts(a_run(tmp_path, ARITHMETIC), "held")
    assert len(texts) == 3
    expected = load(Config(problems=3)).problems
    assert {i: (text.prompt, text.gold) for i, text in texts.items()} == {p.id: (p.prompt, p.gold) for p in expected}


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


def test_a_dataset_of_the_hub_is_read_without_network_in_a_process_of_its_own(tmp_path, monkeypatch):
    """The Hub's libraries read their switch at import, so it cannot be turned in this process."""
    config = "evaluation: {benchmarks: {far: {kind: dataset, name: far, source: nobody/nothing}}}\n"
    calls = []

    def run(command, **options):
        calls.append(options["env"]["HF_HUB_OFFLINE"])
        rows = json.dumps([{"id": "far/0", "prompt": "What is 6 times 7?", "gold": "42"}])
        return subprocess.CompletedProcess(command, len(calls) - 1, rows if len(calls) == 1 else "", "")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.delenv("HF_HUB_OFFLINE", raising=False)
    found = problem_texts(a_run(tmp_path, config), "far")
    assert found["far/0"].gold == "42"
    assert problem_texts(a_run(tmp_path / "other", config), "far") == {}  # not in the cache
    assert calls == ["1", "1"]
    assert "HF_HUB_OFFLINE" not in os.environ

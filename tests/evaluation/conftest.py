"""A benchmark and the command that every test of an evaluation by a model asks."""

from __future__ import annotations

from pathlib import Path

import pytest
from verbs import jsonl

from harness.problems.benchmarks import arithmetic


@pytest.fixture(scope="session")
def chains(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A local benchmark that the testbed's tokenizer can read."""
    problems = arithmetic.load(arithmetic.Config(split="heldout", problems=4)).problems
    rows = [{"id": p.id, "problem": p.prompt, "answer": p.gold} for p in problems]
    return jsonl(tmp_path_factory.mktemp("data") / "chains.jsonl", rows)

"""A benchmark and the command that every test of an evaluation by a model asks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.problems.benchmarks import arithmetic


@pytest.fixture(scope="session")
def chains(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A local benchmark that the testbed's tokenizer can read."""
    path = tmp_path_factory.mktemp("data") / "chains.jsonl"
    problems = arithmetic.load(arithmetic.Config(split="heldout", problems=4)).problems
    lines = [json.dumps({"id": p.id, "problem": p.prompt, "answer": p.gold}) + "\n" for p in problems]
    path.write_text("".join(lines))
    return path

"""A foreign experiment in a store."""

from __future__ import annotations

import pytest
from import_support import write_verl

from harness.cli import main


@pytest.fixture
def foreign(tmp_path):
    """Two arms of verl with three seeds, through the command line."""
    root = tmp_path / "results"
    for arm, level in (("grpo", 0.40), ("dapo", 0.50)):
        for seed in range(3):
            path = write_verl(
                tmp_path / f"{arm}-{seed}.jsonl",
                final=level + 0.01 * seed,
                start=0.1 + seed / 1000 + level / 99,
            )
            arguments = [
                f"path={path}",
                "experiment=theirs",
                f"arm={arm}",
                f"seed={seed}",
                f"runtime.results={root}",
            ]
            assert main(["import_runs", "format=verl", "cap=20480", *arguments]) == 0
    return root

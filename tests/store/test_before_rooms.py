"""A results folder of an earlier version (`before_rooms/`, commit 49f8cbe): its runs have the same ids and their numbers."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest
import yaml

from harness.cli import main
from harness.configuration.identity import arm_id, run_id
from harness.configuration.schema import load
from harness.store import ResultStore

STORED = Path(__file__).parent / "before_rooms"


@pytest.fixture
def store(tmp_path: Path) -> ResultStore:
    shutil.copytree(STORED, tmp_path, dirs_exist_ok=True)
    return ResultStore(tmp_path)


def test_stored_runs_have_the_ids_that_they_had() -> None:
    stored = ResultStore(STORED)
    assert len(stored.run_ids()) == 5
    for name in stored.run_ids():
        run = stored.run(name)
        config, manifest = load(yaml.safe_load(run.config())), run.manifest()
        assert manifest is not None
        assert (run_id(config), arm_id(config)) == (name, manifest["arm_id"])


def test_a_stored_experiment_is_reported_with_its_numbers(store: ResultStore, tmp_path: Path) -> None:
    given = ["experiment=before_rooms", f"runtime.results={store.root}", "only=tables", "tables=all"]
    assert main(["report", *given, f"out={tmp_path / 'anew'}"]) == 0
    stored, anew = STORED / "experiments" / "before_rooms" / "tables", tmp_path / "anew" / "tables"
    for name, columns in {
        "before_rooms.csv": ["arm", "score", "delta", "seeds"],
        "before_rooms-answers.csv": ["arm", "pass@4", "maj@4"],
        "per-seed.csv": ["arm", "seed", "run_id", "avg@4", "pass@4", "maj@4", "train_generated_tokens_total"],
    }.items():
        old, new = pd.read_csv(stored / name), pd.read_csv(anew / name)
        pd.testing.assert_frame_equal(old[columns], new[columns], rtol=1e-12)

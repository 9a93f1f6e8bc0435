"""A results folder from before the modules moved into rooms (`before_rooms/`): the same ids, resumed, and reported.

`harness run` made it at commit 49f8cbe; hosts and folders are taken out. Its checkpoint holds pickled classes
under their old names: carried groups and the arrays of a curriculum, beside a critic.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
import yaml

from harness.backends import builtin
from harness.cli import main
from harness.configuration.identity import arm_id, run_id
from harness.configuration.schema import load
from harness.store import ResultStore

STORED = Path(__file__).parent / "before_rooms"
INTERRUPTED = "4619c4714d5aa8a1"
STEP = 4  # the interrupted run's newest checkpoint, of twelve steps


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


def test_the_stored_checkpoint_is_of_the_old_kind() -> None:
    path = STORED / "runs" / INTERRUPTED / "checkpoints" / f"step-{STEP:06d}" / "state.pt"
    found = torch.serialization.get_unsafe_globals_in_checkpoint(path)
    assert {"harness.sampling.groups.Groups", "harness.rollout.types.Completions", "numpy.ndarray"} <= set(
        found
    )


def test_an_interrupted_run_goes_on_as_if_it_had_not_been_interrupted(store: ResultStore) -> None:
    run = store.run(INTERRUPTED)
    config, before = load(yaml.safe_load(run.config())), run.steps()
    config.runtime.results = str(store.root)
    assert before["step"].max() == STEP
    assert builtin.train(config, run, lambda: False, attempt=1)
    after = run.steps()
    assert after["step"].tolist() == list(range(1, 13))
    assert after["attempt"].tolist() == [0] * STEP + [1] * (12 - STEP)
    assert run.sample_steps("arithmetic_heldout") == [0, 6, 12]
    expected = json.loads((STORED / "uninterrupted_losses.json").read_text())
    assert after["loss"][:STEP].tolist() == expected[:STEP]
    # Another processor may round, and so sample, otherwise; the first step after the resume has the stored weights.
    np.testing.assert_allclose(after["loss"][STEP], expected[STEP], rtol=1e-3)
    if repeats_bits(store.root / "again", expected):
        assert after["loss"].tolist() == expected


def repeats_bits(root: Path, expected: list[float]) -> bool:
    """Whether this processor gives the stored run's losses when it makes that run from its first step."""
    shutil.copytree(STORED / "cache", root / "cache")
    run = ResultStore(root).run(INTERRUPTED)
    config = load(yaml.safe_load((STORED / "runs" / INTERRUPTED / "config.yaml").read_text()))
    config.runtime.results = str(root)
    assert builtin.train(config, run, lambda: False, attempt=0)
    return bool(run.steps()["loss"].tolist() == expected)


def test_a_stored_experiment_is_reported_with_its_numbers(store: ResultStore, tmp_path: Path) -> None:
    assert (
        main(
            [
                "report",
                "experiment=before_rooms",
                f"runtime.results={store.root}",
                "only=tables",
                f"out={tmp_path / 'anew'}",
            ]
        )
        == 0
    )
    stored, anew = STORED / "experiments" / "before_rooms" / "tables", tmp_path / "anew" / "tables"
    for name, columns in {
        "before_rooms.csv": ["arm", "score", "delta", "seeds"],
        "before_rooms-answers.csv": ["arm", "pass@4", "maj@4"],
        "per-seed.csv": ["arm", "seed", "run_id", "avg@4", "pass@4", "maj@4", "train_generated_tokens_total"],
    }.items():
        old, new = pd.read_csv(stored / name), pd.read_csv(anew / name)
        pd.testing.assert_frame_equal(old[columns], new[columns], rtol=1e-12)

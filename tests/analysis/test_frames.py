"""The four frames: their columns are those of the page, and they say what the store holds."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import pandas as pd
import pytest
from synthetic_store import build_store, loaded

from analysis import frames
from analysis.effects import EFFECTS, all_effects, effects_frame
from harness.store import layout

PAGE = (Path(__file__).parents[2] / "docs" / "python.md").read_text()


def test_the_page_names_every_column():
    for name, columns in {"runs": frames.RUNS, "scores": frames.SCORES, "samples": frames.SAMPLES}.items():
        (row,) = re.findall(rf"^\| `{name}` \|.*$", PAGE, flags=re.MULTILINE)
        assert re.findall(r"`(\w+)`", row)[1:] == list(columns)
    effects = PAGE.partition("## Effects")[2]
    named = [
        name
        for line in effects.splitlines()
        if line.startswith("| `")
        for name in re.findall(r"`(\w+)`", line.split("|")[1])
    ]
    assert sorted(named) == sorted(EFFECTS)


def test_frames_of_a_store(ladder_root):
    experiment = loaded(ladder_root).experiment
    assert list(experiment.runs.columns) == list(frames.RUNS)
    assert experiment.runs["status"].value_counts().to_dict() == {"finished": 10, "failed": 1, "not started": 1}
    logged = experiment.steps.groupby("run_id")["generated_tokens_total"].max()
    spent = experiment.spent.set_index("run_id")["tokens"]
    assert spent.to_dict() == logged[spent.index].to_dict()
    samples = experiment.samples
    assert list(samples.columns) == list(frames.SAMPLES)
    by_hand = samples[(samples["cap"] == 32)].groupby(["run_id", "step"])["correct"].mean()
    scores = experiment.scores.query("metric == 'avg' and cap == 32").set_index(["run_id", "step"])["value"]
    pd.testing.assert_series_equal(scores[by_hand.index], by_hand, check_names=False)


def test_effects_have_the_numbers_of_the_tables(ladder_root):
    results = loaded(ladder_root)
    effects = effects_frame(all_effects(results)).query("kind == 'reference'").set_index("arm")
    arm, reference = results.experiment.plan.arms[1], results.experiment.plan.arms[0]
    alone = results.difference(arm, reference).rescale(100)
    row = effects.loc[arm.name]
    assert row["value"] == pytest.approx(alone.value)
    assert row["family"] == 3
    assert row["low"] < alone.low < alone.high < row["high"]


def test_a_run_without_its_last_evaluation_is_not_scored_at_an_earlier_one(tmp_path):
    """Four runs said +0.4; with the last samples of one lost +1.8, without a word."""
    store = build_store(tmp_path, seeds=(0, 1))
    run = store.run(store.plan("ladder")["arms"][0]["runs"]["0"])
    whole = loaded(tmp_path).per_seed.query("run_id != @run.run_id")
    *_, last = run.sample_steps("arithmetic_heldout")
    shutil.rmtree(layout.samples_dir(run.path, "arithmetic_heldout", last))
    results = loaded(tmp_path)
    pd.testing.assert_frame_equal(
        results.per_seed,
        whole.reset_index(drop=True),
        check_dtype=False,
    )
    (note,) = results.notes
    assert note.startswith("ladder_0_naive_grpo, seed 0: not scored, its last evaluation is of step ")
    assert note.endswith(f"the one of step {last} is missing")

"""Every published main table comes out of the scores of its seeds alone: the same numbers, intervals and words.

The scores are `frames/scores.parquet` beside the table, the question is the experiment's declaration; nothing else is read.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.frames import RUNS, SCORES, STEPS, Frames
from analysis.results import Results, results_of
from analysis.tables.experiment import main_table
from analysis.tables.table import to_frame
from harness.experiment.planning import plan_experiment

PUBLISHED = Path(__file__).parents[2] / "results" / "published"
# Folders whose command has more than `experiment=NAME` (results/README.md).
COMMANDS = {
    "language_cut_off_again": ["experiment=language_cut_off"],
}
# These have no table of seeds.
WITHOUT = {"public_tables", "language_pilot", "language_ladder", "language_transfer", "language_equal_tokens_cold"}
FOLDERS = sorted({folder.name for folder in PUBLISHED.iterdir()} - WITHOUT)


def scores_of(folder: Path) -> pd.DataFrame:
    """The scores after the last step, as `Frames.scores`."""
    scores = pd.read_parquet(folder / "frames" / "scores.parquet")
    last = scores.groupby("run_id")["step"].transform("max")  # a budget of tokens ends runs after unequal steps
    return scores[scores["step"] == last]


def published(folder: Path) -> Results:
    """The results of the seeds that were published, under the plan of today's declaration."""
    overrides = COMMANDS.get(folder.name, [])
    named = [] if any(item.startswith("experiment=") for item in overrides) else [f"experiment={folder.name}"]
    plan = plan_experiment([*named, *overrides])
    scores = scores_of(folder)
    ids = scores.drop_duplicates(["arm", "seed"])
    runs = {
        arm.name: dict(zip(part["seed"], part["run_id"], strict=True))
        for arm in plan.arms
        for part in [ids[ids["arm"] == arm.name]]
    }
    seeds = tuple(dict.fromkeys([*(s for s in plan.seeds if s in set(ids["seed"])), *sorted(ids["seed"])]))
    plan = replace(plan, arms=tuple(replace(arm, runs=runs[arm.name]) for arm in plan.arms), seeds=seeds)
    keys = [name for name in SCORES[:-2] if name in scores]
    cells = scores.set_index([*keys, "metric"])["value"].unstack("metric").reset_index()
    states = ids[["arm", "seed", "run_id"]].assign(status="finished").reindex(columns=list(RUNS))
    return results_of(Frames(plan, states, pd.DataFrame({name: [] for name in STEPS}), cells))


@pytest.mark.parametrize("name", FOLDERS)
def test_numbers_and_words_are_those_that_were_published(name: str):
    for view in published(PUBLISHED / name).each_metric:
        table = main_table(view)
        path = PUBLISHED / name / "tables" / f"{table.name}.csv"
        new, old = to_frame(table), pd.read_csv(path)
        old = old[old["arm"] != "before RL"].reset_index(drop=True)
        assert new["arm"].tolist() == [label.removesuffix(" †") for label in old["arm"]]
        for column in (f"{name}{end}" for name in ("score", "delta", "delta_base") for end in ("", "_low", "_high")):
            if column in old and column in new:
                ours, theirs = new[column].to_numpy(np.float64), old[column].to_numpy(np.float64)
                np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9, err_msg=f"{name}, {column}")
        if "delta_verdict" in old:
            # Scores do not tell what a mechanism affected.
            known = old["delta"].notna() & ~old["delta_verdict"].astype(str).str.startswith("not tested")
            assert new.loc[known, "delta_verdict"].tolist() == old.loc[known, "delta_verdict"].tolist()

"""Score against what a run had spent: points of one run, from its evaluations or its training steps."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.evidence.metric_values import seconds_at, tokens_at
from analysis.evidence.results import Results

Floats = NDArray[np.float64]
Against = Literal["steps", "tokens", "seconds"]
Source = Literal["training", "evaluation"]
AGAINST: tuple[Against, ...] = ("steps", "tokens", "seconds")
SOURCES: tuple[Source, ...] = ("training", "evaluation")


def own_rows(frame: pd.DataFrame, arm: str, run_id: str) -> pd.DataFrame:
    """Rows of one run in one arm by step; two arms of an experiment may be the same run."""
    own = frame[(frame["arm"] == arm) & (frame["run_id"] == run_id)]
    return own.sort_values("step")


def spent_at(steps: pd.DataFrame, wanted: list[int], against: Against) -> Floats:
    """Return what a run had spent after each wanted step: rollout steps, generated tokens, or wall seconds without evaluations."""
    if against == "steps":
        return np.array(wanted, dtype=np.float64)
    if against == "tokens":
        return tokens_at(steps, wanted)
    work = steps["seconds_total"] - steps["seconds_evaluate"].fillna(0.0)
    return seconds_at(steps.assign(seconds_total=work), wanted)


def run_curve(
    results: Results, arm: str, run_id: str, against: Against, source: Source
) -> tuple[Floats, Floats]:
    """Spent and score of one run, [points] each, in the order of steps; points without a number are left out.

    ``evaluation``: avg on the benchmark at every evaluation. ``training``: accuracy on the prompts of each step, which the policy
    drew before the step's updates, so that it belongs to what was spent up to the step before.
    """
    experiment = results.experiment
    steps = own_rows(experiment.steps, arm, run_id)
    if source == "training":
        wanted, score = (steps["step"] - 1).tolist(), steps["accuracy_mean"].to_numpy(dtype=np.float64)
    else:
        plan, cells = experiment.plan, own_rows(experiment.cells, arm, run_id)
        cells = cells[(cells["benchmark"] == plan.benchmark) & (cells["cap"] == plan.primary_cap)]
        wanted, score = cells["step"].tolist(), cells["avg"].to_numpy(dtype=np.float64)
    spent = spent_at(steps, wanted, against)
    there = np.isfinite(spent) & np.isfinite(score)
    return spent[there], score[there]


def entropy_points(results: Results, arm: str, run_id: str, source: Source) -> tuple[Floats, Floats]:
    """Entropy per token in nats and score of one run, [points] each, at the same policy and on the same responses."""
    experiment = results.experiment
    if source == "training":
        rows = own_rows(experiment.steps, arm, run_id)
        entropy, score = rows["entropy_nats"], rows["accuracy_mean"]
    else:
        plan, rows = experiment.plan, own_rows(experiment.cells, arm, run_id)
        rows = rows[(rows["benchmark"] == plan.benchmark) & (rows["cap"] == plan.primary_cap)]
        entropy, score = rows["entropy_nats"], rows["avg"]
    there = (entropy.notna() & score.notna()).to_numpy()
    return entropy.to_numpy(dtype=np.float64)[there], score.to_numpy(dtype=np.float64)[there]

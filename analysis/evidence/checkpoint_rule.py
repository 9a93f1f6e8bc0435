"""The checkpoint of a run that is its result: declared before the runs, the same for every arm.

``last``, ``mean_last_<k>`` (mean of the metrics of the last k evaluations; written with the letter, k is 3)
and ``best_on_dev`` (chosen on the development benchmark). Picking the best on the test set inflates a score
by 1.9 sd over 20 evaluations; it is offered only as an extra column that says so.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class CheckpointRule:
    """A parsed rule: ``last`` evaluations are averaged; ``on_dev`` picks by the development benchmark."""

    last: int = 1
    on_dev: bool = False


def parse_rule(text: str) -> CheckpointRule:
    """Parse ``last``, ``mean_last_3``, ``best_on_dev``. Raises ValueError naming the choices."""
    match = re.fullmatch(r"last|best_on_dev|mean_last_(k|[1-9]\d*)", text)
    if match is None:
        raise ValueError(f"unknown checkpoint rule {text!r}; known: last, mean_last_<k>, best_on_dev")
    last = {None: 1, "k": 3}.get(match[1]) or int(match[1])
    return CheckpointRule(last, on_dev=text == "best_on_dev")


def chosen_steps(
    run_cells: pd.DataFrame, rule: CheckpointRule, dev_cells: pd.DataFrame | None, first: int = 1
) -> list[int]:
    """Return the steps whose metrics make up a run's result, out of its evaluations (columns step and avg) at one cap.

    Evaluations from step ``first`` on count: not the one before training, unless the run was to train no step (0).
    Raises ValueError if ``best_on_dev`` has no evaluation of the development benchmark at an evaluated step.
    """
    steps = sorted(int(step) for step in run_cells["step"] if step >= first)
    if not rule.on_dev:
        return steps[-rule.last :]
    if dev_cells is None or not len(dev_cells):
        raise ValueError("checkpoint rule best_on_dev needs samples of plan.dev_benchmark at evaluated steps")
    shared = dev_cells[dev_cells["step"].isin(steps)].sort_values("step")
    if not len(shared):
        raise ValueError("no step was evaluated on both the development and the test benchmark")
    return [int(shared["step"].iloc[int(np.argmax(shared["avg"].to_numpy()))])]


def rule_scores(run_cells: pd.DataFrame, first: int = 1) -> dict[str, float]:
    """A run's score by the other rules, from step ``first`` on: ``last_score``, ``mean_last_3_score`` and ``best_on_test``.

    The largest score over the evaluated steps is an inflated number, for the labelled extra column only.
    """
    ordered = run_cells.sort_values("step", kind="stable")
    trained = ordered.loc[ordered["step"] >= first, "avg"]
    return {
        "last_score": float(trained.iloc[-1]) if len(trained) else math.nan,
        "mean_last_3_score": float(trained.tail(3).mean()),
        "best_on_test": float(trained.max()),
    }

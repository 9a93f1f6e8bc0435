"""The checkpoint of a run that is its result: the last one; of imported training curves the mean of the last evaluations."""

from __future__ import annotations

import math
import re

import pandas as pd


def last_evaluations(rule: str) -> int:
    """How many of the last evaluations are averaged: 1 for ``last``, k for ``mean_last_<k>`` (the letter stands for 3).

    Raises ValueError naming the choices.
    """
    match = re.fullmatch(r"last|mean_last_(k|[1-9]\d*)", rule)
    if match is None:
        raise ValueError(f"unknown checkpoint rule {rule!r}; known: last, mean_last_<k>")
    return {None: 1, "k": 3}.get(match[1]) or int(match[1])


def chosen_steps(run_cells: pd.DataFrame, averaged: int, first: int = 1) -> list[int]:
    """Return the steps whose metrics make up a run's result, out of its evaluations (columns step and avg) at one cap.

    Evaluations from step ``first`` on count: not the one before training, unless the run was to train no step (0).
    """
    return sorted(int(step) for step in run_cells["step"] if step >= first)[-averaged:]


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

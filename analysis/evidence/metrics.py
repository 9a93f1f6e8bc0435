"""One number a training seed for every metric that a question can be about, from the evaluations and step metrics of a run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from harness.evaluation.metrics.names import BY_SECOND, REACHED, TRAINING, Metric

Floats = NDArray[np.float64]

# Metrics that every evaluation or checkpoint row has anyway; Pass@k and Maj@k are columns of their own name.
COLUMNS: Mapping[str, str] = {
    "avg": "avg",
    "length": "tokens_all_mean",
    "length_right": "tokens_right_mean",
    "length_wrong": "tokens_wrong_mean",
    "length_truncated": "tokens_truncated_mean",
    "truncated": "truncated_fraction",
    "no_answer": "no_answer_fraction",
    "entropy": "entropy_nats",
    "generated_tokens": "train_generated_tokens_total",
}
# What a metric needs of the step metrics.
_NEEDS: Mapping[str, tuple[str, ...]] = {
    "dead_groups": ("all_right_groups", "all_wrong_groups", "groups"),
    "seconds": ("seconds_total",),
    "seconds_to": ("seconds_total",),
    "tokens_to": ("generated_tokens_total",),
}
AVG_BY_SECOND = f"avg{BY_SECOND}"
NEVER = float("inf")  # the value of a target that a run never reaches


def column_of(metric: Metric) -> str:
    """The column of ``Results.per_seed`` that holds a metric."""
    if metric.kind not in COLUMNS:
        return metric.name
    return COLUMNS[metric.kind] + (BY_SECOND if metric.by_second else "")


def evaluated(metric: Metric) -> bool:
    """Say whether every evaluation has a value of it, so that it has a curve over training."""
    return metric.kind in ("pass", "maj") or (metric.kind in COLUMNS and metric.kind != "generated_tokens")


def computed(metric: Metric) -> bool:
    """Say whether it is computed here, and not read off the row of the checkpoint."""
    return metric.kind in ("area", "seconds", "dead_groups", TRAINING, *REACHED)


def needed_columns(metric: Metric) -> tuple[str, ...]:
    """The columns of the step metrics that a computed metric is made of."""
    return (str(metric.parameter),) if metric.kind == TRAINING else _NEEDS.get(metric.kind, ())


def value_of(metric: Metric, cells: pd.DataFrame, steps: pd.DataFrame, checkpoint: int) -> float:
    """A `computed` metric of one run in the stored unit, from its evaluations at one cap and its step metrics up to the checkpoint.

    NaN where the run has not logged what it needs, infinity for a target never reached.
    """
    parameter: Any = metric.parameter
    if metric.by_second:
        if AVG_BY_SECOND not in cells or cells[AVG_BY_SECOND].isna().any():
            return float("nan")
        cells = cells.assign(avg=cells[AVG_BY_SECOND])
    if metric.kind == "area":
        return area(cells)
    if metric.kind == "steps_to":
        return first_reach(cells, lambda wanted: np.array(wanted, dtype=np.float64), parameter)
    if not len(steps) or any(column not in steps for column in needed_columns(metric)):
        return float("nan")
    if metric.kind == "tokens_to":
        return first_reach(cells, lambda wanted: tokens_at(steps, wanted), parameter)
    if metric.kind == "seconds_to":
        return first_reach(cells, lambda wanted: seconds_at(steps, wanted), parameter)
    if metric.kind == "seconds":
        return float(seconds_at(steps, [checkpoint])[0])
    counted = steps[steps["step"] <= checkpoint]
    if metric.kind == "dead_groups":
        dead = counted["all_right_groups"] + counted["all_wrong_groups"]
        return float((dead / counted["groups"]).mean())
    return float(counted[parameter].mean())


def _curve(cells: pd.DataFrame) -> tuple[Floats, Floats]:
    """Evaluated steps, ascending, and their accuracy; as arrays, since this is asked of every run."""
    steps = cells["step"].to_numpy(dtype=np.float64)
    order = np.argsort(steps, kind="stable")
    return steps[order], cells["avg"].to_numpy(dtype=np.float64)[order]


def area(cells: pd.DataFrame) -> float:
    """Mean height of the accuracy curve over rollout steps, linear between evaluations; NaN with fewer than two."""
    step, score = _curve(cells)
    if len(step) < 2:
        return float("nan")
    return float(np.trapezoid(score, step) / (step[-1] - step[0]))


def first_reach(cells: pd.DataFrame, spent: Callable[[list[int]], Floats], target: float) -> float:
    """Return what was spent when avg first reached ``target``, linear between evaluations; infinity if it never does.

    ``spent`` maps evaluated steps to what was spent up to each; NaN there is NaN here.
    """
    steps, scores = _curve(cells)
    reached = np.flatnonzero(scores >= target)
    if not len(reached):
        return NEVER
    index = int(reached[0])
    at = spent([int(step) for step in steps])
    if index == 0:
        return float(at[0])
    share = (target - scores[index - 1]) / (scores[index] - scores[index - 1])
    return float(at[index - 1] + share * (at[index] - at[index - 1]))


def total_at(steps: pd.DataFrame, column: str, wanted: Sequence[int]) -> Floats:
    """A cumulative column at each wanted step; zero at step 0, NaN where the step is not logged."""
    logged = dict(zip(steps["step"], steps[column], strict=True)) if len(steps) else {}
    return np.array([0.0 if step == 0 else float(logged.get(step, np.nan)) for step in wanted])


def tokens_at(steps: pd.DataFrame, wanted: Sequence[int]) -> Floats:
    """Cumulative generated tokens at each wanted step (see `total_at`)."""
    return total_at(steps, "generated_tokens_total", wanted)


def seconds_at(steps: pd.DataFrame, wanted: Sequence[int]) -> Floats:
    """Cumulative wall seconds at each wanted step; zero at step 0, NaN where the step or a time before it is not logged."""
    ordered = steps.sort_values("step")
    return total_at(ordered.assign(total=ordered["seconds_total"].cumsum(skipna=False)), "total", wanted)

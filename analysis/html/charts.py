"""Data of the interactive chart: every curve as JSON-ready lists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from analysis.evidence.metrics import evaluated, needed_columns
from analysis.evidence.results import Results
from analysis.figures.curves import FIGURES, GRADERS
from analysis.figures.drawing import arm_appearances, cap_label, score_label
from analysis.figures.series import (
    AXES,
    EMPTY,
    Panel,
    Series,
    accuracy_series,
    k_curves,
    logged,
    panel_series,
)
from analysis.html.pictures import on_both
from harness.evaluation.metrics.names import TRAINING

DASHES = {"-": "none", "--": "7 4", ":": "2 3", "-.": "7 3 2 3"}


def chart_data(results: Results) -> dict[str, Any]:
    """Return ``{"arms": [...], "charts": [...]}``, the declared metrics first: each chart has axes, each axis one line per arm.

    A line is ``{x, mean, low, high}`` with null where there is no value; numbers keep five digits. A metric that is one number of a
    whole run (seconds, steps to a target) has no curve: the score's comes first then.
    """
    experiment = results.experiment
    appearance = arm_appearances(experiment)
    names, looks = list(appearance), appearance.values()
    arms = [
        {"label": arm.label, "colour": on_both(look.colour), "dash": DASHES[str(look.line)]}
        for arm, look in zip(experiment.plan.arms, looks, strict=True)
    ]
    charts = [chart for view in results.each_metric() for chart in _declared(view, names)]
    score = _score_chart(results, names)
    charts += [chart for chart in score if chart not in charts]
    for kind in ("pass", "maj"):
        lines = [k_curves(results, name).get(kind, EMPTY) for name in names]
        if any(len(line) for line in lines):
            axes = [_axis("k", lines, log=True)]
            charts.append({"title": f"{kind.capitalize()}@k after RL, %", "axes": axes})
    panels = [*(panel for group in FIGURES.values() for panel in group), *GRADERS]
    charts += [chart for panel in panels for chart in _panel_chart(results, panel, names)]
    return {"arms": arms, "charts": charts}


def _declared(view: Results, names: Sequence[str]) -> list[dict[str, Any]]:
    """Make the chart of a declared metric, if it has a curve and somebody recorded it."""
    metric, experiment = view.metric, view.experiment
    if metric == experiment.plan.score:
        return _score_chart(view, names)
    if metric.kind == TRAINING:
        (column,) = needed_columns(metric)
        return _panel_chart(view, Panel(column, f"{metric.header} (training)", scale=metric.scale), names)
    if not evaluated(metric) or view.column not in experiment.cells:
        return []
    axes = [
        _axis(
            AXES[axis],
            [accuracy_series(experiment, name, axis, view.column, scale=metric.scale) for name in names],
        )
        for axis in ("step", "tokens")
    ]
    return [{"title": f"{metric.header}{cap_label(experiment.plan)}", "axes": axes}]


def _score_chart(results: Results, names: Sequence[str]) -> list[dict[str, Any]]:
    experiment = results.experiment
    if not len(experiment.cells):
        return []
    axes = [
        _axis(AXES[axis], [accuracy_series(experiment, name, axis) for name in names])
        for axis in ("step", "tokens")
    ]
    return [{"title": f"evaluation {score_label(experiment.plan)}", "axes": axes}]


def _panel_chart(results: Results, panel: Panel, names: Sequence[str]) -> list[dict[str, Any]]:
    if not logged(results.experiment, panel):
        return []
    axes = [
        _axis(label, [panel_series(results.experiment, name, panel, axis) for name in names])
        for axis, label in AXES.items()
        if not (panel.evaluated and axis == "seconds")
    ]
    return [{"title": panel.label, "axes": axes}]


def _axis(label: str, lines: Sequence[Series], *, log: bool = False) -> dict[str, Any]:
    return {"label": label, "lines": [_line(line) for line in lines], "log": log}


def _line(series: Series, most: int = 150) -> dict[str, Any]:
    """Thinned to at most about ``most`` points, the last one kept."""
    stride = max(1, len(series) // most)
    keep = np.unique(np.append(np.arange(0, len(series), stride), max(len(series) - 1, 0)))
    keep = keep[keep < len(series)]
    parts = {"x": series.x, "mean": series.mean, "low": series.low, "high": series.high}
    return {
        name: [float(f"{value:.5g}") if np.isfinite(value) else None for value in values[keep]]
        for name, values in parts.items()
    }

"""Data of the interactive chart: every curve as JSON-ready lists."""

from __future__ import annotations

from typing import Any

import numpy as np

from analysis.evidence.results import Results
from analysis.figures.evaluation import accuracy_series, k_curves, score_label
from analysis.figures.series import AXES, Series
from analysis.figures.style import looks
from analysis.figures.training import FIGURES, Panel, logged, panel_series

DASHES = {"-": "none", "--": "7 4", ":": "2 3", "-.": "7 3 2 3"}


def chart_data(results: Results) -> dict[str, Any]:
    """``{"arms": [...], "charts": [...]}``: each chart has axes, each axis one line per arm.

    A line is ``{x, mean, low, high}`` with null where there is no value; numbers keep five digits.
    """
    experiment = results.experiment
    looked = looks([arm.name for arm in experiment.plan.arms])
    arms = [
        {"label": a.label, "colour": looked[a.name].colour, "dash": DASHES[str(looked[a.name].line)]}
        for a in experiment.plan.arms
    ]
    charts = [_accuracy_chart(results), *_k_charts(results)]
    for group in FIGURES.values():
        charts += [_training_chart(results, panel) for panel in group if logged(experiment, panel)]
    return {"arms": arms, "charts": [chart for chart in charts if chart["axes"]]}


def _accuracy_chart(results: Results) -> dict[str, Any]:
    experiment, axes = results.experiment, []
    if len(experiment.cells):
        for axis in ("step", "tokens"):
            lines = [_line(accuracy_series(experiment, arm.name, axis)) for arm in experiment.plan.arms]
            axes.append({"label": AXES[axis], "lines": lines, "log": False})
    return {"title": f"evaluation {score_label(experiment.plan)}", "axes": axes}


def _k_charts(results: Results) -> list[dict[str, Any]]:
    charts = []
    for kind, title in (("pass", "Pass@k after RL, %"), ("maj", "Maj@k after RL, %")):
        lines = []
        for arm in results.experiment.plan.arms:
            ks, values = k_curves(results, arm.name).get(kind, ([], []))
            lines.append(
                {
                    "x": ks,
                    "mean": _numbers(np.array([v.value for v in values])),
                    "low": _numbers(np.array([v.low for v in values])),
                    "high": _numbers(np.array([v.high for v in values])),
                }
            )
        axes = [{"label": "k", "lines": lines, "log": True}] if any(line["x"] for line in lines) else []
        charts.append({"title": title, "axes": axes})
    return charts


def _training_chart(results: Results, panel: Panel) -> dict[str, Any]:
    experiment = results.experiment
    axes = [
        {
            "label": label,
            "lines": [_line(panel_series(experiment, arm.name, panel, axis)) for arm in experiment.plan.arms],
            "log": False,
        }
        for axis, label in AXES.items()
    ]
    return {"title": panel.label, "axes": axes}


def _line(series: Series, most: int = 150) -> dict[str, Any]:
    """Thinned to at most about ``most`` points, the last one kept."""
    stride = max(1, len(series) // most)
    keep = np.unique(np.append(np.arange(0, len(series), stride), max(len(series) - 1, 0)))
    keep = keep[keep < len(series)]
    parts = {"x": series.x, "mean": series.mean, "low": series.low, "high": series.high}
    return {name: _numbers(values[keep]) for name, values in parts.items()}


def _numbers(values: Any) -> list[float | None]:
    return [float(f"{v:.5g}") if np.isfinite(v) else None for v in np.asarray(values, dtype=np.float64)]

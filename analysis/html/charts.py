"""Data of the interactive chart: every curve as JSON-ready lists."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from html import escape
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from analysis.evidence.results import Results
from analysis.evidence.samples import evaluated, needed_columns
from analysis.figures.curves import FIGURES, GRADERS
from analysis.figures.drawing import (
    AXES,
    EMPTY,
    Panel,
    Series,
    accuracy_series,
    arm_appearances,
    cap_label,
    k_curves,
    logged,
    panel_series,
    score_label,
)
from analysis.figures.effects import differences_figure, grid_figure, interactions_figure, waterfall_figure
from analysis.figures.style import styled, svg_bytes
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
    score = _evaluations(results.about(experiment.plan.score), names)
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
    if metric.kind == TRAINING and metric != experiment.plan.score:
        (column,) = needed_columns(metric)
        return _panel_chart(view, Panel(column, f"{metric.header} (training)", scale=metric.scale), names)
    return _evaluations(view, names)


def _evaluations(view: Results, names: Sequence[str]) -> list[dict[str, Any]]:
    """Make the chart of a metric of evaluations."""
    metric, experiment = view.metric, view.experiment
    of_score = metric == experiment.plan.score
    column, scale = ("avg", experiment.plan.score.scale) if of_score else (view.column, metric.scale)
    if not len(experiment.cells) or not (of_score or (evaluated(metric) and column in experiment.cells)):
        return []
    axes = [
        _axis(AXES[axis], [accuracy_series(experiment, name, axis, column, scale=scale) for name in names])
        for axis in ("step", "tokens")
    ]
    title = f"evaluation {score_label(experiment.plan)}"
    return [{"title": title if of_score else f"{metric.header}{cap_label(experiment.plan)}", "axes": axes}]


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


_Draw = Callable[[Results], Figure | None]
# The first that an experiment has data for stand in the answer, what its design asks for before what every design has.
_PICTURES: tuple[tuple[_Draw, str, str], ...] = (
    (
        grid_figure,
        "Heat map of the scores over two settings; the numbers stand in the table of the grid.",
        "Means over seeds by the two settings that vary.",
    ),
    (
        interactions_figure,
        "Means at each pair of levels of two factors; the interactions stand in a table of their own.",
        "Means over all settings of the other factors, whiskers: 95 % Student's t intervals over seeds. Parallel lines: no interaction.",
    ),
    (
        partial(differences_figure, wide=False),
        "Differences with their intervals, the margin and their words; the numbers stand in the first table.",
        "Differences, paired by seed; whiskers: intervals that hold together at 95 %. A word belongs to its whole interval.",
    ),
    (
        waterfall_figure,
        "Scores of the arms with 95 % intervals; the numbers stand in the first table.",
        "Score of each arm: mean over training seeds, whisker: its 95 % Student's t interval over seeds. Bar: the difference to what the "
        "arm is compared with.",
    ),
)
_SHOWN = 2  # side by side
_TALL = 1.0  # height over width beyond which a picture scrolls in a box of its own


def pictures(results: Results) -> str:
    """Draw each figure of each metric with its caption, as HTML; all but the first of the first metric are folded."""
    drawn, of_first = list[str](), 0
    with styled("screen"):
        for index, view in enumerate(results.each_metric()):
            for draw, description, caption in _PICTURES:
                if (figure := draw(view)) is not None:
                    drawn.append(_figure(figure, description, caption))
            of_first = of_first if index else min(len(drawn), _SHOWN)
    shown, folded = (
        f'<div class="pictures">{"".join(part)}</div>' for part in (drawn[:of_first], drawn[of_first:])
    )
    if len(drawn) == of_first:
        return shown
    return f"{shown}<details><summary>More figures ({len(drawn) - of_first})</summary>{folded}</details>"


def _figure(figure: Figure, description: str, caption: str) -> str:
    light = svg_bytes(figure).decode()
    # As attributes: the page has the picture's room before it is drawn, and nothing below it moves.
    width, height = (round(72 * inches) for inches in figure.get_size_inches())
    about = escape(description)
    tall = height > _TALL * width
    box = f' class="tall" tabindex="0" role="region" aria-label="{about}"' if tall else ""
    caption += " It scrolls in its box." * tall
    return (
        f'<figure><div{box}><picture><source media="(prefers-color-scheme: dark)" srcset="{_data(dark(light))}">'
        f'<img class="figure" width="{width}" height="{height}" alt="{about}" src="{_data(light)}"></picture></div>'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def _data(svg: str) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"


# Every replacement has a contrast of at least 3 with the page's dark ground, #16181b.
DARK: Mapping[str, str] = {
    "#ffffff": "#16181b",
    "#000000": "#ececec",
    "#dddddd": "#3a3f45",
    "#888888": "#a9a9a9",
    "#777777": "#a9a9a9",
    "#0072b2": "#4fa8e0",
    "#7f3c8d": "#c58bd2",
    "#8c6d31": "#b8975a",
}


def on_both(colour: str) -> str:
    """Make the CSS colour that is ``colour`` on a light page and its counterpart on a dark one."""
    return f"light-dark({colour}, {DARK.get(colour.lower(), colour)})"


def dark(svg: str) -> str:
    """Recolour a drawing for a dark ground; glyphs have no colour of their own, so the root gives them one."""
    for light, replaced in DARK.items():
        svg = svg.replace(light, replaced)
    return svg.replace("<svg ", f'<svg fill="{DARK["#000000"]}" ', 1)

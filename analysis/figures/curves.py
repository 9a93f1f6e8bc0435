"""Curves over training and over k: accuracy, a metric, every logged quantity, Pass@k and Maj@k, the profile of problems."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from analysis.colours import VERDICTS
from analysis.figures import drawing
from analysis.figures.drawing import Panel
from analysis.frames import Frames
from analysis.results import Results
from analysis.samples import is_evaluated
from analysis.tables.words import REFERENCE
from harness.evaluation.metrics.names import metric


def _draw_arms(axes: Any, experiment: Frames, series_of: Callable[[str], drawing.Series]) -> list[drawing.Series]:
    """Draw the series of every arm; of many arms the means only. Return what is drawn."""
    look, few = drawing.appearances(experiment.plan.arms), len(experiment.plan.arms) <= drawing.FEW
    arm_series = [series_of(arm.name) for arm in experiment.plan.arms]
    for arm, series in zip(experiment.plan.arms, arm_series, strict=True):
        drawing.draw_series(axes, series, look[arm.name], label=arm.label, spread=few)
    return arm_series


def accuracy_figure(experiment: Frames) -> Figure | None:
    """Draw evaluation accuracy against generated tokens, where runs count them, and against rollout steps, side by side."""
    plan = experiment.plan
    panel = Panel("avg", drawing.score_label(plan), scale=plan.score.scale, evaluated=True)
    tokens = ["tokens"] * drawing.is_logged(experiment, Panel("generated_tokens_total", ""))
    return _draw_evaluated(experiment, panel, [*tokens, "step"]) if len(experiment.cells) else None


def metric_figure(results: Results) -> Figure | None:
    """Draw the metric against rollout steps; None for the score, which has a figure, and for what no evaluation has."""
    experiment, metric, column = results.experiment, results.metric, results.column
    if metric == experiment.plan.score or not is_evaluated(metric) or column not in experiment.cells:
        return None
    label = f"{metric.header}, cap {experiment.plan.primary_cap}"
    return _draw_evaluated(experiment, Panel(column, label, scale=metric.scale, evaluated=True), ["step"])


def _draw_evaluated(experiment: Frames, panel: Panel, x_axes: Sequence[str]) -> Figure:
    figure, axes = drawing.new_panels(len(x_axes), len(x_axes), 1.0, sharey=True)
    for axes_, axis in zip(axes[0], x_axes, strict=True):
        _draw_arms(axes_, experiment, partial(drawing.panel_series, experiment, panel=panel, axis=axis))
        axes_.set_xlabel({"tokens": "generated tokens", "step": "rollout steps"}[axis])
        axes_.xaxis.set_major_formatter(drawing.COUNTS)
    axes[0][0].set_ylabel(panel.label)
    drawing.name_lines(figure, experiment)
    return figure


_GUESSES: dict[str, Any] = {"color": "#999999", "linestyle": ":", "label": "blind answers"}


def k_figure(results: Results) -> Figure | None:
    """Draw Pass@k and Maj@k against k, before RL (dashed) and after."""
    before = drawing.k_curves(results, None)
    if not before:
        return None
    figure, axes = drawing.new_figure(wide=True, ncols=2, sharey=True)
    line_style: dict[str, Any] = {"color": "#666666", "linestyle": "--", "label": "before RL"}
    after = {arm.name: drawing.k_curves(results, arm.name) for arm in results.experiment.plan.arms}
    for axes_, (kind, baseline) in zip(axes, before.items(), strict=True):
        axes_.set_xscale("log", base=2)
        axes_.set_xticks(before["pass"].x, [f"{k:.0f}" for k in before["pass"].x])
        axes_.minorticks_off()
        axes_.set(xlabel="k")
        axes_.set_title(f"{kind.capitalize()}@k, %", loc="left")
        axes_.plot(baseline.x, baseline.mean, zorder=4, **line_style)
        levels = [metric(f"{kind}@{k:.0f}").by_guessing(results.experiment.plan.chances) for k in baseline.x]
        if None not in levels:
            axes_.plot(baseline.x, 100 * np.array(levels, dtype=np.float64), zorder=3, **_GUESSES)
        series = {name: curves.get(kind, drawing.EMPTY) for name, curves in after.items()}
        _draw_arms(axes_, results.experiment, series.__getitem__)
    known = [_GUESSES] * (results.experiment.plan.chances is not None)
    drawing.name_lines(figure, results.experiment, first=[Line2D([], [], **style) for style in (line_style, *known)])
    return figure


def difference_curves_figure(results: Results) -> Figure | None:
    """Draw each comparison over the steps in a panel of its own: the difference paired by seed, its pointwise band, zero and margin.

    None where no two arms share seeds that were evaluated twice, and of designs whose effects are of several arms.
    """
    experiment, margin = results.experiment, results.shown_margin or 0.0
    arms = [arm for arm, _ in experiment.plan.comparisons if is_evaluated(results.metric) and not results.attributions]
    series = [(arm.label, one) for arm in arms if len(one := drawing.difference_series(results, arm, "step")) > 1]
    if not series:
        return None
    figure, axes = drawing.new_panels(len(series), min(len(series), 3), 0.8, sharex=True, sharey=True)
    for axes_, (label, one) in zip(axes.flat, series, strict=False):
        axes_.axhspan(-margin, margin, color=VERDICTS["equivalent"].colour, alpha=0.12, linewidth=0)
        axes_.axhline(0.0, color="#000000", linewidth=0.7)
        drawing.draw_series(axes_, one, drawing.appearances([label])[label])
        axes_.set_title(label, loc="left")
    axes[-1][0].set_xlabel(drawing.AXES["step"])
    axes[0][0].set_ylabel(f"difference, {results.metric.unit}".rstrip(", "))
    pair = f"difference to the {REFERENCE[experiment.plan.design]}, paired"
    text = f"95 % t interval of the {pair}, over {experiment.plan.replicate_name}, pointwise; thin: one seed"
    drawing.legend_below(figure, [Patch(color="#000000", alpha=drawing.BAND_ALPHA, linewidth=0)], [text])
    return figure


_TEXT = Path(__file__).with_name("training.yaml").read_text(encoding="utf-8")
FIGURES = {name: tuple(Panel(**panel) for panel in panels) for name, panels in yaml.safe_load(_TEXT).items()}


def training_figure(experiment: Frames, name: str) -> Figure | None:
    """Draw over steps the panels of one of ``FIGURES`` that some run has logged, at most two in a row; None where no run has one."""
    panels = [panel for panel in FIGURES[name] if drawing.is_logged(experiment, panel)]
    if not panels:
        return None
    columns = min(len(panels), 2)
    figure, axes = drawing.new_panels(len(panels), columns, 1.0 if len(panels) <= columns else 0.75, sharex=True)
    for axes_, panel in zip(axes.flat, panels, strict=False):
        _draw_panel(axes_, experiment, panel)
    for axes_ in axes.flat[len(panels) - columns : len(panels)]:
        axes_.tick_params(labelbottom=True)
        axes_.set_xlabel(drawing.AXES["step"])
    drawing.name_lines(figure, experiment)
    return figure


def _draw_panel(axes: Any, experiment: Frames, panel: Panel) -> None:
    """Draw every arm; the seeds set the range, not the bands of few of them."""
    few = len(experiment.plan.arms) <= drawing.FEW
    arm_series = _draw_arms(axes, experiment, partial(drawing.panel_series, experiment, panel=panel, axis="step"))
    values = np.concatenate([(one.seed_y if few or one.collapsed else one.mean).ravel() for one in arm_series])
    axes.set_ylabel(panel.label)
    axes.margins(x=0.01)
    if np.isfinite(values).any():
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        pad = 0.08 * (high - low) or 0.05 * abs(high) or 1.0
        axes.set_ylim(low - pad, high + pad)
    low, high = axes.get_ylim()
    if panel.zero and low < 0.35 * high:
        axes.set_ylim(bottom=0)
    axes.xaxis.set_major_formatter(drawing.COUNTS)

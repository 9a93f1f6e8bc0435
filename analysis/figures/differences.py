"""Forest figure: every difference of the answer with its printed interval, the margin, and its word."""

from __future__ import annotations

import math
import textwrap
from typing import Any

from matplotlib.figure import Figure

from analysis.evidence.results import Results
from analysis.figures.drawing import draw_interval, label_rows
from analysis.figures.style import new_figure
from analysis.tables.differences import REFERENCE, difference_column, differences_to_reference, interval_name
from analysis.tables.of_metric import metric_name
from analysis.tables.table import cell_text
from harness.statistics.estimate import Verdict

# Colour and marker of a verdict; the word stands beside it, so that neither has to be known.
MARKS: dict[Verdict, dict[str, Any]] = {
    Verdict.HIGHER: {"color": "#0072B2", "marker": ">"},
    Verdict.HIGHER_INSIDE: {"color": "#0072B2", "marker": ">", "markerfacecolor": "white"},
    Verdict.LOWER: {"color": "#D55E00", "marker": "<"},
    Verdict.LOWER_INSIDE: {"color": "#D55E00", "marker": "<", "markerfacecolor": "white"},
    Verdict.EQUIVALENT: {"color": "#009E73", "marker": "s"},
    Verdict.NOT_RESOLVED: {"color": "#777777", "marker": "o", "markerfacecolor": "white"},
}


def differences_figure(results: Results, *, wide: bool = True) -> Figure | None:
    """Draw one row a comparison, as wide as a page or a column; None where no two arms can be compared."""
    plan, metric, margin = results.experiment.plan, results.metric, results.shown_margin
    known = differences_to_reference(results).items()
    deltas = {name: delta for name, delta in known if not math.isnan(delta.value)}
    if not deltas:
        return None
    references = {arm.parent for arm in plan.arms if arm.parent} if plan.design == "arms" else set()
    labels = []
    for arm in map(plan.arm, deltas):
        other = plan.reference_of(arm) if len(references) > 1 else None
        labels.append(
            textwrap.fill(
                arm.label if other is None else f"{arm.label} against {other.label}", 30 if wide else 22
            )
        )
    breaks = [label.count("\n") for label in labels]
    rows = len(labels) + 0.6 * (sum(breaks) if max(breaks) < 2 else len(labels) * max(breaks))
    figure, axes = new_figure(wide=wide, height=0.3 + 0.1 * rows)
    if (
        max(breaks) > 1
    ):  # letters are some hundredths wider where the file is drawn than where the layout measures them
        figure.set_layout_engine("constrained", w_pad=0.11, h_pad=0.04)
    if margin is not None:
        axes.axvspan(-margin, margin, color="#009E73", alpha=0.12, linewidth=0, zorder=0)
    axes.axvline(0.0, color="#000000", linewidth=0.7, zorder=1)
    for y, delta in enumerate(deltas.values()):
        draw_interval(axes, y, delta, metric.scale, zorder=3, **MARKS[delta.verdict])
    column = difference_column(metric, "", "", deltas.values())
    label_rows(axes, labels, [cell_text(delta, column) for delta in deltas.values()])
    band = f"; band: within {margin:g}" if margin is not None else ""
    of = "" if plan.about_score else f" in {metric_name(results)}"
    alone = len(references) == 1  # one arm of a list: it is named
    reference = plan.arm(references.pop()).label if alone else f"the {REFERENCE[plan.design]}"
    label = f"difference{of} to {reference}, {metric.unit} ({interval_name(deltas.values())}{band})"
    axes.set_xlabel(label)
    return figure

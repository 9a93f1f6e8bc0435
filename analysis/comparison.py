"""Evaluations side by side, as ``harness compare`` shows them: one table, one figure."""

from __future__ import annotations

from matplotlib.figure import Figure
from matplotlib.lines import Line2D

from analysis.figures.drawing import appearances, draw_interval, label_rows, legend_below, new_figure
from analysis.tables.table import Cell, Column, Table, bounds_text, number_text
from harness.evaluation.side_by_side import AVG, TOKENS, Comparison

_RETRAINING = (
    "One training run on a side: this says which of these checkpoints does better, and nothing about training again, which takes "
    "training seeds."
)


def title_of(metric: str) -> str:
    """``avg, %``, ``Pass@8, %``, ``tokens a response``."""
    return (
        "tokens a response" if metric == TOKENS else f"{metric if metric == AVG else metric.capitalize()}, %"
    )


def scale_of(metric: str) -> float:
    """Stored values times this are shown ones."""
    return 1.0 if metric == TOKENS else 100.0


def comparison_table(comparison: Comparison) -> Table:
    """One row a metric and compared side."""
    rows: list[dict[str, Cell]] = []
    for side, differences in comparison.differences.items():
        for metric, difference in differences.items():
            scale = scale_of(metric)
            first, other = (
                float(comparison.scores[name][metric].mean()) * scale for name in (comparison.reference, side)
            )
            row: dict[str, Cell] = {"metric": title_of(metric), "side": side, "first": first, "other": other}
            rows.append({**row, "difference": difference.scaled(scale)})
    columns = [
        Column("metric", "metric"),
        Column("first", comparison.reference),
        Column("side", "compared with it"),
        Column("other", "its value"),
        Column("difference", "difference", signed=True, words=True),
    ]
    return Table(
        "comparison",
        f"Against {comparison.reference}, {len(comparison.problems)} problems",
        columns,
        rows,
        notes_of(comparison),
    )


def notes_of(comparison: Comparison) -> list[str]:
    """Say what the intervals are, and what was left out."""
    runs = {name: len(scores[AVG]) for name, scores in comparison.scores.items()}
    several = min(runs.values()) > 1
    method = (
        "Student's t over training runs and problems together"
        if several
        else "Student's t over the differences of problems, each the mean of its samples (arXiv:2411.00640)"
    )
    together = (
        f"; those of the {len(comparison.differences)} compared sides hold together"
        if len(comparison.differences) > 1
        else ""
    )
    notes = [f"Intervals: 95 %, {method}; of each metric on its own{together}."]
    notes += [] if several else [_RETRAINING]
    if max(runs.values()) > 1:
        notes.append(f"Training runs: {', '.join(f'{name} {count}' for name, count in runs.items())}.")
    return [*notes, *(f"{line}." for line in comparison.notes)]


def comparison_figure(comparison: Comparison) -> Figure:
    """Draw the difference of every metric in points with its interval; rows are metrics, markers are sides, the margin is a band."""
    metrics = [name for name in next(iter(comparison.differences.values())) if name != TOKENS]
    drawn = appearances([*comparison.differences])
    figure, axes = new_figure(wide=True, height=0.4 + 0.1 * len(metrics) * len(comparison.differences))
    axes.axvline(0, color="#000000", linewidth=0.6)
    margin = next(iter(comparison.differences.values()))[AVG].margin
    if margin is not None:
        axes.axvspan(-100 * margin, 100 * margin, color="#000000", alpha=0.06, linewidth=0)
    numbers = []
    for row, metric in enumerate(metrics):
        texts = []
        for number, (side, differences) in enumerate(comparison.differences.items()):
            difference, look = differences[metric], drawn[side]
            offset = 0.18 * (number - (len(comparison.differences) - 1) / 2)
            draw_interval(axes, row + offset, difference, 100.0, color=look.colour, marker=look.marker)
            low, high = bounds_text(difference, 1, scale=100.0)
            texts.append(f"{number_text(100 * difference.value, 1, signed=True)} [{low}, {high}]")
        numbers.append("\n".join(texts))
    label_rows(axes, [title_of(name).removesuffix(", %") for name in metrics], numbers)
    axes.set_xlabel(f"difference to {comparison.reference}, points")
    if len(comparison.differences) > 1:
        legend_below(figure, [Line2D([], [], **look.pen()) for look in drawn.values()], list(drawn))
    return figure

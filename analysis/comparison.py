"""Evaluations side by side as tables, sentences and figures: what `harness compare` writes."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping

import numpy as np
from matplotlib.figure import Figure

from analysis.effects import REFERENCE, Effect
from analysis.figures.drawing import appearances, draw_band, k_axis, name_below, new_figure
from analysis.figures.effects import forest_figure
from analysis.tables.table import Cell, Column, Table
from harness.evaluation.counts import AVG, POINT, ByDifficulty, KBand, PointCost
from harness.evaluation.metrics.names import POINTS, Metric, default_ks
from harness.evaluation.side_by_side import TOKENS, Comparison
from harness.statistics.intervals import Estimate

_RETRAINING = (
    "One training run on a side: this says which of these checkpoints does better, and nothing about training again, which takes "
    "training seeds."
)


def title_of(metric: str) -> str:
    """``avg, %``, ``Pass@8, %``, ``tokens a response``."""
    return "tokens a response" if metric == TOKENS else f"{metric if metric == AVG else metric.capitalize()}, %"


def scale_of(metric: str) -> float:
    """Stored values times this are shown ones."""
    return 1.0 if metric == TOKENS else 100.0


def comparison_table(comparison: Comparison) -> Table:
    """One row a metric and compared side."""
    rows = []
    for side, differences in comparison.differences.items():
        for metric, difference in differences.items():
            first, other = (float(comparison.scores[name][metric].mean()) for name in (comparison.reference, side))
            rows.append(_row(side, metric, first, other, difference))
    title = f"Against {comparison.reference}, {len(comparison.problems)} problems"
    return Table("comparison", title, _columns(comparison.reference), rows, notes_of(comparison))


def _row(side: str, metric: str, first: float, other: float, difference: Estimate, **more: Cell) -> dict[str, Cell]:
    scale = scale_of(metric)
    shown: dict[str, Cell] = {"first": first * scale, "other": other * scale, "difference": difference.scaled(scale)}
    return {**more, "metric": title_of(metric), "side": side, **shown}


def _columns(reference: str) -> list[Column]:
    return [
        Column("metric", "metric"),
        Column("first", reference),
        Column("side", "compared with it"),
        Column("other", "its value"),
        Column("difference", "difference", signed=True, words=True),
    ]


def notes_of(comparison: Comparison) -> list[str]:
    """Say what the intervals are, and what was left out."""
    runs = {name: len(scores[AVG]) for name, scores in comparison.scores.items()}
    several, sides = min(runs.values()) > 1, len(comparison.differences)
    each = "the differences of problems, each the mean of its samples (arXiv:2411.00640)"
    over = "training runs and problems together" if several else each
    together = f"; those of the {sides} compared sides hold together" if sides > 1 else ""
    notes = [f"Intervals: 95 %, Student's t over {over}; of each metric on its own{together}."]
    notes += [] if several else [_RETRAINING]
    if max(runs.values()) > 1:
        notes.append(f"Training runs: {', '.join(f'{name} {count}' for name, count in runs.items())}.")
    return [*notes, *(f"{line}." for line in comparison.notes)]


def comparison_figure(comparison: Comparison) -> Figure:
    """Draw the difference of every metric in points with its interval and word, one row a compared side; tokens have another unit."""
    several, reference = len(comparison.differences) > 1, comparison.reference
    points = Metric("", "", POINTS, 100.0)
    effects = [
        Effect(REFERENCE, points, differences[name], side, reference, shown, group=side if several else "")
        for name in next(iter(comparison.differences.values()))
        if (shown := title_of(name).removesuffix(", %")) and name != TOKENS
        for side, differences in comparison.differences.items()
    ]
    label = f"{textwrap.fill(f'difference to {reference}, points', 90)}\neach metric on its own"
    return forest_figure(effects, label, effects[0].shown.margin)


_MANY = 100
_FEW_PROBLEMS = (
    f"Fewer than {_MANY} problems: where only a handful of them tell the sides apart, these bands cover less often, and so do intervals of "
    "a single k (docs/evaluation.md)."
)


def k_table(reference: str, bands: Mapping[str, KBand]) -> Table:
    """The difference in Pass@k with its band: k in powers of two, and the ends of the ranges at which a side parts from the first."""
    rows: list[dict[str, Cell]] = []
    for side, one in bands.items():
        band = one.band
        ends = {k for span in (*band.above, *band.below) for k in span}
        for k in sorted(ends | {*default_ks(len(band.value_K))}):
            value, low, high = (float(curve[k - 1]) for curve in (band.value_K, band.low_K, band.high_K))
            difference = Estimate(value, low, high, band.replicates, level=band.level, method="t field over k")
            rows.append({"k": k, "side": side, "difference": difference})
    columns = [
        Column("k", "k", 0),
        Column("side", "compared with it"),
        Column("difference", "difference in Pass@k, points", scale=100, signed=True, words=True),
    ]
    few = any(one.over == "problems" and one.band.replicates < _MANY for one in bands.values())
    title = f"Pass@k against {reference}, all k judged at once"
    return Table("k-bands", title, columns, rows, [_FEW_PROBLEMS] if few else [])


def k_sentence(side: str, one: KBand) -> str:
    """``b: Pass@k parts at k 1 to 4 (higher); ...``, or that it parts nowhere."""
    these = ", on these problems" if one.over == "training runs" else ""
    over = f"bands hold together over all k, replicates are {one.over}{these}"
    if not one.band.parts:
        return f"{side}: Pass@k: {one.band.text}; {over}."
    return f"{side}: Pass@k parts at {', '.join(f'{span} ({word})' for span, word in one.band.parts)}; {over}."


def cost_sentence(side: str, cost: PointCost | None) -> str:
    """How many problems, and how many samples a problem, a difference of one point in avg takes."""
    if cost is None:
        runs = "both sides have several training runs"
        return f"{side}: {runs}, so power is a matter of seeds: `harness plan` states it."
    point, here = f"a difference of {100 * POINT:g} point in avg takes", f"these {cost.problems_now} problems"
    if cost.problems is None:
        return f"{side}: problems show no spread, so nothing tells what {point}."
    samples = f"With {here} no number of samples would do."
    if cost.samples is not None:
        samples = f"With {here} it takes {cost.samples} samples a problem."
    elif not cost.samples_known:
        samples = f"One sample a problem does not tell what more of them would do with {here}."
    now = f"{cost.problems} problems at {cost.samples_now} samples a problem"
    return f"{side}: {point} {now} (80 % power, intervals of {100 * cost.level:.3g} %). {samples}"


def difficulty_table(comparison: Comparison, apart: ByDifficulty) -> Table:
    """One row a band of difficulty, compared side and metric."""
    rows = [
        _row(r.side, r.metric, r.first, r.other, r.difference, difficulty=r.difficulty, problems=r.problems)
        for r in apart.rows
    ]
    columns = [Column("difficulty", f"{apart.side} is"), Column("problems", "problems", 0)]
    columns += _columns(comparison.reference)
    notes = [
        f"Difficulty: the share of right samples of {apart.side}, which is not compared, on {apart.problems} of "
        f"{len(comparison.problems)} problems.",
        "Intervals: 95 %, of each metric on its own; those of all bands and sides hold together.",
        *([f"Bands without a problem: {', '.join(apart.empty)}."] if apart.empty else []),
    ]
    return Table("difficulty", f"Against {comparison.reference} by difficulty", columns, rows, notes)


def k_figure(reference: str, bands: Mapping[str, KBand]) -> Figure:
    """Draw the difference in Pass@k against k with its band, one colour a side."""
    drawn = appearances([*bands])
    figure, axes = new_figure()
    axes.axhline(0, color="#000000", linewidth=0.6)
    most = max(len(one.band.value_K) for one in bands.values())
    for side, one in bands.items():
        band, look = one.band, drawn[side]
        ks = np.arange(1, len(band.value_K) + 1)
        draw_band(axes, ks, 100 * band.low_K, 100 * band.high_K, look.colour)
        axes.plot(ks, 100 * band.value_K, **look.pen(), markevery=[k - 1 for k in default_ks(len(ks))])
    k_axis(axes, default_ks(most), "")
    axes.set_ylabel(f"Pass@k less that of {reference}, points")
    name_below(figure, drawn)
    return figure

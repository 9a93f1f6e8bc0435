"""Evaluations side by side as tables and a figure: what `harness compare` writes."""

from matplotlib.figure import Figure

from analysis.effects import REFERENCE, Effect
from analysis.figures.effects import forest_figure
from analysis.headline import capital
from analysis.tables.table import Cell, Column, Table
from harness.configuration.numbers import format_amount, format_count
from harness.evaluation.metrics.names import POINTS, metric
from harness.evaluation.paired import Comparison

_RETRAINING = "These are checkpoints: the intervals say nothing about training again, which takes training seeds."


def comparison_effects(comparison: Comparison) -> list[Effect]:
    """The difference of every compared side to the first in every metric."""
    return [
        Effect(REFERENCE, metric(name), estimate, side, comparison.reference, f"{side} against {comparison.reference}")
        for side, differences in comparison.differences.items()
        for name, estimate in differences.items()
    ]


def comparison_table(comparison: Comparison) -> Table:
    """One row a metric and compared side."""
    reference, rows = comparison.reference, []
    for effect in comparison_effects(comparison):
        name, scale = effect.metric.name, effect.metric.scale
        first, other = (scale * float(comparison.scores[side][name].mean()) for side in (reference, effect.arm))
        values: dict[str, Cell] = {"first": first, "other": other, "difference": effect.shown_estimate}
        rows.append({"metric": effect.metric.header, "side": effect.arm, **values})
    several = len(comparison.differences) > 1
    heads = {"metric": "metric", **({"side": "other side"} if several else {}), "first": "first", "other": "other"}
    columns = [*(Column(key, head) for key, head in heads.items())]
    columns.append(Column("difference", "difference", signed=True, words=True))
    others = "" if several else f"{rows[0]['side']} "
    title = capital(f"{others}against {reference}, {format_count(len(comparison.problems), 'problem')}")
    return Table("comparison", title, columns, rows, notes_of(comparison))


def notes_of(comparison: Comparison) -> list[str]:
    """Say what the intervals are, and what was left out."""
    sides, estimates = len(comparison.differences), next(iter(comparison.differences.values()))
    whole = [metric(name).title for name, one in estimates.items() if one.method.startswith("Tango")]
    family = f"; those of the {sides} compared sides are simultaneous" if sides > 1 else ""
    unit = "Student's t over the differences of problems, each the mean of its samples (arXiv:2411.00640)"
    unit += f", Tango's score interval where a problem is right or wrong as a whole ({', '.join(whole)})" * bool(whole)
    margin = next(iter(estimates.values())).margin
    given = [] if margin is None else [f"Verdicts: with the margin given, {format_amount(100 * margin, POINTS)}."]
    notes = [f"Intervals: 95 %, {unit}; of each metric on its own{family}.", *given, _RETRAINING]
    return [*notes, *(f"{line}." for line in comparison.notes)]


def comparison_figure(comparison: Comparison) -> Figure:
    """Draw the difference of every metric in points with its interval and word, one row a compared side."""
    effects = [
        Effect(REFERENCE, e.metric, e.estimate, e.arm, e.reference, e.metric.title, group=e.arm if several else "")
        for several in [len(comparison.differences) > 1]
        for e in comparison_effects(comparison)
        if e.metric.unit == POINTS
    ]
    label = f"difference to {comparison.reference}, points\neach metric on its own"
    return forest_figure(effects, label, effects[0].shown_estimate.margin)

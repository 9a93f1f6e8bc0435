"""Evaluations side by side as tables, sentences and figures: what `harness compare` writes."""

from __future__ import annotations

import textwrap
from collections.abc import Iterator
from dataclasses import replace

from matplotlib.figure import Figure

from analysis.effects import REFERENCE, Effect
from analysis.figures.effects import forest_figure
from analysis.tables.table import Cell, Column, Table
from harness.evaluation.counts import AVG, POINT, TOKENS, ByDifficulty, PointCost
from harness.evaluation.metrics.names import POINTS, Metric
from harness.evaluation.side_by_side import Comparison
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


def compared_values(comparison: Comparison) -> Iterator[tuple[str, str, float, float, Estimate]]:
    """Compared side, metric, the means of the first side and of this one, and their difference, in stored units."""
    for side, differences in comparison.differences.items():
        for metric, difference in differences.items():
            first, other = (float(comparison.scores[name][metric].mean()) for name in (comparison.reference, side))
            yield side, metric, first, other, difference


def comparison_table(comparison: Comparison) -> Table:
    """One row a metric and compared side."""
    rows = [_row(*values) for values in compared_values(comparison)]
    title = f"Against {comparison.reference}, {len(comparison.problems)} problems"
    return Table("comparison", title, _columns(comparison.reference), rows, notes_of(comparison))


def _row(side: str, metric: str, first: float, other: float, difference: Estimate, **labels: Cell) -> dict[str, Cell]:
    scale = scale_of(metric)
    cells: dict[str, Cell] = {"first": first * scale, "other": other * scale, "difference": difference.rescale(scale)}
    return {**labels, "metric": title_of(metric), "side": side, **cells}


def _columns(reference: str) -> list[Column]:
    heads = {"metric": "metric", "first": reference, "side": "compared with it", "other": "its value"}
    columns = [Column(key, head) for key, head in heads.items()]
    return [*columns, Column("difference", "difference", signed=True, words=True)]


def notes_of(comparison: Comparison) -> list[str]:
    """Say what the intervals are, and what was left out."""
    runs = {name: len(scores[AVG]) for name, scores in comparison.scores.items()}
    # Runs that share one base policy are judged on problems alone.
    several = all(_is_over_runs(differences[AVG]) for differences in comparison.differences.values())
    sides = len(comparison.differences)
    problem_unit = "the differences of problems, each the mean of its samples (arXiv:2411.00640)"
    unit = "training runs and problems together" if several else problem_unit
    family = f"; those of the {sides} compared sides hold together" if sides > 1 else ""
    notes = [f"Intervals: 95 %, Student's t over {unit}; of each metric on its own{family}."]
    notes += [_RETRAINING] * (min(runs.values()) == 1)
    if max(runs.values()) > 1:
        notes.append(f"Training runs: {', '.join(f'{name} {count}' for name, count in runs.items())}.")
    return [*notes, *(f"{line}." for line in comparison.notes)]


def _is_over_runs(difference: Estimate) -> bool:
    """True where training runs are replicates; of an interval over problems alone `seeds` is 1 (`harness.evaluation.counts`)."""
    return difference.seeds > 1


def comparison_figure(comparison: Comparison) -> Figure:
    """Draw the difference of every metric in points with its interval and word, one row a compared side; tokens have another unit."""
    several, reference = len(comparison.differences) > 1, comparison.reference
    points = Metric("", "", POINTS, 100.0)

    def drawn(difference: Estimate) -> Estimate:
        """With the replicates that say how far an interval is to be trusted."""
        return difference if _is_over_runs(difference) else replace(difference, seeds=len(comparison.problems))

    effects = [
        Effect(REFERENCE, points, drawn(differences[name]), side, reference, title, group=side if several else "")
        for name in next(iter(comparison.differences.values()))
        if (title := title_of(name).removesuffix(", %")) and name != TOKENS
        for side, differences in comparison.differences.items()
    ]
    label = f"{textwrap.fill(f'difference to {reference}, points', 90)}\neach metric on its own"
    return forest_figure(effects, label, effects[0].shown_estimate.margin)


def cost_sentence(side: str, cost: PointCost | None) -> str:
    """How many problems, and how many samples a problem, a difference of one point in avg takes."""
    if cost is None:
        runs = "both sides have several training runs"
        return f"{side}: {runs}, so power is a matter of seeds: `harness plan` states it."
    point, these_problems = f"a difference of {100 * POINT:g} point in avg takes", f"these {cost.problems_now} problems"
    if cost.problems is None:
        return f"{side}: problems show no spread, so nothing tells what {point}."
    samples = f"With {these_problems} no number of samples would do."
    if cost.samples is not None:
        samples = f"With {these_problems} it takes {cost.samples} samples a problem."
    elif not cost.samples_known:
        samples = f"One sample a problem does not tell what more of them would do with {these_problems}."
    sizes = f"{cost.problems} problems at {cost.samples_now} samples a problem"
    return f"{side}: {point} {sizes} (80 % power, intervals of {100 * cost.level:.3g} %). {samples}"


def difficulty_table(comparison: Comparison, by_difficulty: ByDifficulty) -> Table:
    """One row a band of difficulty, compared side and metric."""
    rows = [
        _row(r.side, r.metric, r.first, r.other, r.difference, difficulty=r.difficulty, problems=r.problems)
        for r in by_difficulty.rows
    ]
    columns = [Column("difficulty", f"{by_difficulty.side} is"), Column("problems", "problems", 0)]
    columns += _columns(comparison.reference)
    notes = [
        f"Difficulty: the share of right samples of {by_difficulty.side}, which is not compared, on {by_difficulty.problems} of "
        f"{len(comparison.problems)} problems.",
        "Intervals: 95 %, of each metric on its own; those of all bands and sides hold together.",
        *([f"Bands without a problem: {', '.join(by_difficulty.empty)}."] if by_difficulty.empty else []),
    ]
    return Table("difficulty", f"Against {comparison.reference} by difficulty", columns, rows, notes)

"""Tables that only some designs have: attribution of patches, grids, and the null of an A/A experiment."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping

import numpy as np

from analysis.evidence.effects import INTERACTIONS, MAIN, ORDER, SHAPLEY, effects_of, kinds_of
from analysis.evidence.grid import grid_of, near_best
from analysis.evidence.keys import key_label
from analysis.evidence.results import Results
from analysis.tables.differences import difference_column, short_notes, word_notes
from analysis.tables.of_metric import experiment_table, metric_column, metric_header, of_metric
from analysis.tables.table import Cell, Column, Table
from harness.experiment.plan import Plan
from harness.statistics.estimate import Verdict
from harness.statistics.intervals import welch_difference

_NAMES = {
    MAIN: "main effect",
    INTERACTIONS: "interaction",
    ORDER: "last minus first",
    SHAPLEY: "Shapley value",
}
_MEANING = {
    INTERACTIONS: "The whole change of one patch's effect when the other is switched on, over all settings of the rest (textbooks "
    "print half of it).",
    ORDER: "What a patch is worth on top of all the others minus what it is worth alone: what the order of a ladder can do to it.",
}


def attribution_tables(results: Results, metric: str) -> list[Table]:
    """Make the tables of main effects, interactions and order of a factorial, Shapley values; a note where arms are missing."""
    plan, tables = results.experiment.plan, []
    for key in kinds_of(plan):
        effects = effects_of(results, key)
        found, header = effects.found, _NAMES[key]
        if effects.missing:
            notes, short = [f"Not computed: {effects.missing}."], []
        else:
            notes, meaning = ["Per seed first, then over seeds."], [_MEANING[key]] if key in _MEANING else []
            counts = sorted({effect.seeds for effect in found.effects})
            if counts and counts != [len(plan.seeds)]:
                text = " to ".join(dict.fromkeys([str(counts[0]), str(counts[-1])]))
                notes.append(
                    f"An effect rests on the seeds that all of its arms have: {text} of {len(plan.seeds)}."
                )
            notes += word_notes(results, [found.effects], "Student's t")
            notes += meaning
            factors = _factor_notes(plan)
            short = [*meaning, *short_notes(results, found.effects), *factors]
            notes += [f"Averaged over {found.orders} orders of the patches."] if found.orders else []
            notes += factors
        name = f"{header} on {metric}, {results.metric.unit}"
        columns = [
            Column("patch", "patch"),
            difference_column(results.metric, "effect", name, found.effects),
        ]
        rows: list[Mapping[str, Cell]] = [
            {"patch": n, "effect": e} for n, e in zip(found.names, found.effects, strict=True)
        ]
        title = header if key == ORDER else f"{header}s"
        tables.append(of_metric(experiment_table(results, key, title, columns, rows, notes, short), results))
    return tables


def _factor_notes(plan: Plan) -> list[str]:
    """Say what levels are compared with."""
    if SHAPLEY in kinds_of(plan):
        return []
    firsts = ", ".join(f"{name}: {levels[0]}" for name, levels in plan.crossing.factors.items())
    return [f"Each level against the first of its factor ({firsts})."]


def grid_table(results: Results, metric: str) -> Table | None:
    """Make the table of the score by the two settings that vary over the arms, or None where the arms are no grid."""
    plan = results.experiment.plan
    grid = grid_of(plan)
    if grid is None:
        return None
    columns = [Column("setting", f"{key_label(grid.row_key)} \\ {key_label(grid.column_key)}")]
    columns += [metric_column(results.metric, f"c{i}", str(value)) for i, value in enumerate(grid.columns)]
    cells = {values: results.mean(arm) for values, arm in grid.arms.items()}
    rows = [
        {"setting": str(row), **{f"c{i}": cells.get((row, value)) for i, value in enumerate(grid.columns)}}
        for row in grid.rows
    ]
    notes = [f"{metric_header(results)}, mean over seeds with its 95 % interval."]
    found = near_best(results)
    if found is not None:
        best, near = found
        rest = "; ".join(arm.label for arm in plan.arms if arm.name in near) or "none"
        notes.append(
            f"Best: {plan.arm(best).label}. Not distinguishable from it (simultaneous intervals of all pairs of cells): {rest}."
        )
    return of_metric(experiment_table(results, "grid", "grid", columns, rows, notes), results)


def null_table(results: Results, splits: int = 2000) -> Table | None:
    """Count how often two groups of seeds of *one* configuration are called different, or None where no two arms are the same.

    The seeds of arms with the same ``arm_id`` are pooled and split at random into two disjoint groups of S seeds, each
    split tested by Welch's t as independent arms are. All splits share the pool, so the rate has the pool's own noise.
    """
    plan = results.experiment.plan
    runs: dict[str, dict[str, float]] = {}  # arms that share a seed share the run: it is in the pool once
    for arm in plan.arms:
        scores = {} if results.unreached(arm) else results.values(arm)
        runs.setdefault(arm.arm_id, {}).update((arm.runs[seed], score) for seed, score in scores.items())
    by_content = {content: list(scores.values()) for content, scores in runs.items()}
    arms = [arm.arm_id for arm in plan.arms]
    same = [content for content in by_content if content and arms.count(content) > 1]
    if not same:
        return None
    rows: list[Mapping[str, Cell]] = []
    rng = np.random.default_rng(0)
    for content, seeds in itertools.product(same, (3, 5, 10)):
        pool = np.array(by_content[content])
        if len(pool) < 2 * seeds:
            continue
        found = []
        for _ in range(splits):
            order = rng.permutation(len(pool))
            found.append(welch_difference(pool[order[:seeds]], pool[order[seeds : 2 * seeds]]))
        widths = [(e.high - e.low) / 2 for e in found if not math.isnan(e.low)]
        rows.append(
            {
                "seeds": f"{seeds} against {seeds}",
                "pool": str(len(pool)),
                "rate": float(np.mean([e.resolved for e in found])),
                "covered": float(np.mean([e.low <= 0.0 <= e.high for e in found])),
                "half": float(np.mean(widths)) if widths else None,
            }
        )
    columns = (
        Column("seeds", "seeds"),
        Column("pool", "runs in the pool"),
        Column("rate", "null called resolved %", scale=100),
        Column("covered", "95 % interval covers zero %", scale=100),
        metric_column(results.metric, "half", f"mean half width, {results.metric.unit}"),
    )
    notes = [
        f"The arms are one configuration: every difference is chance. {splits} random splits of the pooled seeds into two "
        f"disjoint groups, Welch's t; nominal 5 %. {Verdict.NOT_RESOLVED.capitalize()} is the right word for each.",
    ]
    title = "A/A: splits of one configuration"
    return of_metric(experiment_table(results, "null", title, columns, rows, notes), results)

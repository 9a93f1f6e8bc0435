"""Tables that only some designs have: effects, grids, and the looks of a sequential design."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from analysis.evidence.designs import (
    INTERACTIONS,
    MAIN,
    ORDER,
    SHAPLEY,
    effects_of,
    grid_of,
    key_label,
    kinds_of,
    near_best,
)
from analysis.evidence.results import FollowedComparison, Results, followed
from analysis.tables.differences import (
    difference_column,
    experiment_table,
    metric_column,
    metric_header,
    metric_name,
    of_metric,
    short_notes,
    word_notes,
)
from analysis.tables.table import Cell, Column, Table
from harness.experiment.plan import Plan

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


def design_tables(results: Results) -> list[Table]:
    """Make the tables that only the design of the experiment has: effects, looks, a grid."""
    views = results.each_metric()
    tables = [table for view in views for table in attribution_tables(view, metric_name(view))]
    others = [*map(looks_table, views), *(grid_table(view, metric_name(view)) for view in views)]
    return [*tables, *(table for table in others if table)]


def attribution_tables(results: Results, metric: str) -> list[Table]:
    """Make the tables of main effects, interactions and order of a factorial, Shapley values; a note where arms are missing."""
    plan, tables = results.experiment.plan, []
    for key in kinds_of(plan):
        effects, header = effects_of(results, key), _NAMES[key]
        if effects.missing:
            notes, short = [f"Not computed: {effects.missing}."], []
        else:
            notes, meaning = ["Per seed first, then over seeds."], [_MEANING[key]] if key in _MEANING else []
            counts = sorted({effect.seeds for effect in effects.effects})
            if counts and counts != [len(plan.seeds)]:
                text = " to ".join(dict.fromkeys([str(counts[0]), str(counts[-1])]))
                notes.append(
                    f"An effect rests on the seeds that all of its arms have: {text} of {len(plan.seeds)}."
                )
            notes += word_notes(results, [effects.effects], "Student's t")
            notes += meaning
            factors = _factor_notes(plan)
            short = [*meaning, *short_notes(results, effects.effects), *factors]
            notes += [f"Averaged over {effects.orders} orders of the patches."] if effects.orders else []
            notes += factors
        about = f"{header} on {metric}, {results.metric.unit}"
        columns = [
            Column("patch", "patch"),
            difference_column(results.metric, "effect", about, effects.effects),
        ]
        rows: list[Mapping[str, Cell]] = [{"patch": name, "effect": effect} for name, effect in effects.pairs]
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
    if nearest := near_best(results):
        best, near = nearest
        rest = "; ".join(arm.label for arm in plan.arms if arm.name in near) or "none"
        notes.append(
            f"Best: {plan.arm(best).label}. Not distinguishable from it (simultaneous intervals of all pairs of cells): {rest}."
        )
    return of_metric(experiment_table(results, "grid", "grid", columns, rows, notes), results)


def looks_table(results: Results) -> Table | None:
    """Make one row a comparison, one column a look; None where all seeds are looked at once."""
    plan = results.experiment.plan
    if not plan.looks:
        return None
    comparisons = followed(results)
    rows: list[Mapping[str, Cell]] = [
        {
            "arm": comparison.arm.label,
            "reference": comparison.reference.label,
            **{f"look_{estimate.seeds}": estimate for estimate in comparison.looks},
            "state": state_text(comparison),
        }
        for comparison in comparisons
    ]
    reached = max([plan.looks[0], *(comparison.newest.seeds for comparison in comparisons)])
    looks = [seeds for seeds in plan.looks if seeds <= reached]
    columns = [
        Column("arm", "arm"),
        Column("reference", "against"),
        *(
            replace(
                difference_column(results.metric, f"look_{n}", "", []),
                header=f"Δ at {n} seeds (95 % simultaneous)",
            )
            for n in looks
        ),
        Column("state", "decided"),
    ]
    notes = [
        "Each interval uses the first seeds of both arms up to its look, and holds together with those of all looks and all "
        "comparisons; the first that gives a word closes the comparison.",
    ]
    return of_metric(experiment_table(results, "looks", "looks", columns, rows, notes), results)


def look_states(results: Results) -> dict[str, str]:
    """Map each arm to what has become of its comparison; nothing where all seeds are looked at once."""
    if not results.experiment.plan.looks:
        return {}
    return {comparison.arm.name: state_text(comparison) for comparison in followed(results)}


def state_text(comparison: FollowedComparison) -> str:
    """Say where a comparison stands: ``at 8 seeds``, ``open, next look at 11 seeds`` or ``open at the budget, 20 seeds``."""
    if comparison.newest.absent:
        return comparison.newest.absent
    if comparison.next_look is not None:
        return f"open, next look at {comparison.next_look} seeds"
    decided = comparison.state == "decided"
    return (
        f"at {comparison.newest.seeds} seeds"
        if decided
        else f"{comparison.state}, {comparison.newest.seeds} seeds"
    )

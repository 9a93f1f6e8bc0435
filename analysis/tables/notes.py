"""What tables of differences say: their comparisons and level, the names of metrics, and the sentences below.

Also the tables that only some designs have: effects, grids, and the looks of a sequential design.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from analysis.designs import grid_of, key_label, near_best
from analysis.effects import (
    INTERACTIONS,
    MAIN,
    ORDER,
    SHAPLEY,
    FollowedComparison,
    effects_of,
    followed,
    kinds_of,
)
from analysis.frames import Frames, records
from analysis.results import Results
from analysis.samples import needed_columns
from analysis.tables.table import Cell, Column, Table
from harness.evaluation.metrics.names import Metric
from harness.experiment.plan import Plan, PlannedArm
from harness.statistics.intervals import (
    Estimate,
    minimum_detectable_difference,
    replicate_count,
    seeds_needed,
)


def metric_name(results: Results) -> str:
    """Name the metric: ``avg@32``, ``length of wrong answers``, or the score of foreign runs under the name their trainer gave it."""
    metric = results.metric
    return score_name(results) if metric == results.experiment.plan.score else metric.title


def score_name(results: Results) -> str:
    """Name the score: ``avg@32``, or that of foreign runs under the name their trainer gave it."""
    score = results.experiment.plan.score
    if score.name != "avg":
        return score.title
    n = samples(results)
    return f"avg@{n}" if n else "avg@n"


def samples(results: Results) -> int:
    """Count the samples a problem at the checkpoint, 0 where nobody recorded them."""
    frame = results.per_seed
    known = frame["samples"].dropna() if "samples" in frame else frame["avg"].iloc[:0]
    return int(known.max()) if len(known) else 0


def metric_header(results: Results) -> str:
    """Return name and unit of a value: ``avg@32 %``, ``length of wrong answers, tokens``."""
    metric = results.metric
    if metric == results.experiment.plan.score:
        return f"{metric_name(results)}{metric.percent}"
    return metric.header


def of_metric(table: Table, results: Results) -> Table:
    """Put the metric into the title, and into the name unless it is the experiment's first; unchanged for the score alone."""
    plan = results.experiment.plan
    if plan.about_score:
        return table
    title = f"{table.title}: {metric_name(results)}"
    return replace(table, name=f"{table.name}{metric_suffix(results)}", title=title)


def metric_column(metric: Metric, key: str, header: str) -> Column:
    """Make a column of values of the metric, shown with its scale and digits."""
    return Column(key, header, digits=metric.digits, scale=metric.scale)


def experiment_table(
    results: Results,
    key: str,
    title: str,
    columns: Sequence[Column],
    rows: Sequence[Mapping[str, Cell]],
    notes: Sequence[str],
    short: Sequence[str] = (),
) -> Table:
    """Make a table beside the main one: its key and title stand behind those of the experiment."""
    plan = results.experiment.plan
    return Table(f"{plan.name}-{key}", f"{plan.title} ({title})", columns, rows, notes, short)


def metric_suffix(results: Results) -> str:
    """Return what tells the files of a further metric from those of the first: ``-length_wrong``."""
    return "" if results.metric == results.experiment.plan.metrics[0] else f"-{results.metric.file_name}"


def absent_notes(results: Results) -> list[str]:
    """Say which finished seeds have no value of the metric; targets that were never reached are told in their cells."""
    plan = results.experiment.plan
    if results.metric == plan.score:
        return []
    finished = [len(results.scores(arm, "avg")) for arm in plan.arms]
    known = [len(results.values(arm)) for arm in plan.arms]
    if any(finished) and not any(known):
        return [f"No finished run has a value of {results.metric.name}{why_absent(results)}."]
    short = [
        f"{arm.label}: no {metric_name(results)} in {runs - values} of {runs} seeds, which are left out."
        for arm, runs, values in zip(plan.arms, finished, known, strict=True)
        if values < runs
    ]
    never = [f"{arm.label}, {reason}" for arm in plan.arms if (reason := results.unreached(arm))]
    flattered = "A seed that never reaches the target has no number, and without it the others would flatter their arm"
    return [*short, *([f"{flattered}: {'; '.join(never)}."] if never else [])]


def why_absent(results: Results) -> str:
    """Say what the runs would have had to log, or sample."""
    metric, n = results.metric, samples(results)
    steps = results.experiment.steps
    needed = [name for name in needed_columns(metric) if name not in steps or not steps[name].notna().any()]
    if needed:
        return f": they have not logged {', '.join(needed)}"
    if metric.by_second:
        return f": they have no second verdicts, or load the experiment with metrics=[{metric.name!r}]"
    if metric.kind not in ("pass", "maj") or not n:
        return ""
    if isinstance(metric.parameter, float | int) and metric.parameter <= n:
        return f": load the experiment with metrics=[{metric.name!r}]"
    return f": they have {n} samples a problem"


ENOUGH = 8  # replicates below which a table says that it surveys (docs/statistics.md, seeds that collapse)
REFERENCE = {
    "cumulative": "rung below",
    "leave_one_out": "full recipe",
    "one_factor": "base",
    "factorial": "base",
    "shapley": "base",
    "arms": "reference",
}


def difference_column(metric: Metric, key: str, name: str, estimates: Iterable[Estimate]) -> Column:
    """Make a column of differences with its verdicts; the header says whether its intervals are simultaneous."""
    header = f"{name} ({interval_name(estimates)})"
    return Column(key, header, digits=metric.digits, scale=metric.scale, signed=True, words=True)


def interval_name(estimates: Iterable[Estimate]) -> str:
    """Name the interval: ``95 % simultaneous`` for intervals that hold together, ``95 % interval`` for one that stands alone."""
    return "95 % simultaneous" if family_size(estimates) > 1 else "95 % interval"


def family_size(estimates: Iterable[Estimate]) -> int:
    """Count the comparisons of a column that were tested."""
    return max((estimate.family for estimate in estimates), default=1)


def word_notes(results: Results, columns: Iterable[Iterable[Estimate]], test: str) -> list[str]:
    """Say which method made the intervals of these columns of differences, and what each word means.

    ``test`` names the interval of one comparison: ``paired t``.
    """
    plan, metrics = results.experiment.plan, results.columns
    estimates = [[*column] for column in columns]
    bases = [*base_notes(plan), *survey_notes(plan, estimates)]
    sizes = sorted({size for size in map(family_size, estimates) if size > 1})
    if plan.looks:
        return [*look_notes(plan), *bases, *word_meanings(results)]
    levels = level_text(sizes)
    of_all = f" and of all {metrics} metrics" if metrics > 1 else ""
    notes = [
        f"Simultaneous intervals: all of a column{of_all} hold together at 95 % (Šidák: {levels}; {test})."
    ] * bool(sizes)
    return [*notes, *bases, *word_meanings(results)]


def short_notes(results: Results, estimates: Iterable[Estimate]) -> list[str]:
    """Say in one or two sentences what brackets and words of a LaTeX table are; the methods paragraph says the rest."""
    plan, margin, size = results.experiment.plan, results.shown_margin, family_size(estimates)
    together = f", simultaneous for {size} (Šidák)" if size > 1 else ""
    if plan.looks:
        together = ", simultaneous over all looks and differences"
    over = "base policies" if plan.shares_bases else "training seeds"
    notes = [
        f"Brackets: 95 % intervals over {over}; of differences {'paired' if plan.paired else 'unpaired'}{together}."
    ]
    return [
        *notes,
        *([f"Equivalent: within ±{margin:g} {results.metric.unit}."] if margin is not None else []),
    ]


def level_text(sizes: Iterable[int]) -> str:
    """Write the level as ``98.98 % for each of 5``: that of single intervals in families of these sizes."""
    return " or ".join(f"{100 * 0.95 ** (1 / size):.2f} % for each of {size}" for size in sizes)


def base_notes(plan: Plan) -> list[str]:
    """Say where intervals are over base policies, not over seeds."""
    return [
        f"Seeds share {plan.base_policies} base policies: intervals are over the means of the seeds of each, since two runs from one base "
        "policy tell no more of others than one."
    ] * plan.shares_bases


def survey_notes(plan: Plan, columns: Iterable[Iterable[Estimate]]) -> list[str]:
    """Say that differences over fewer than eight replicates survey and decide nothing where seeds collapse."""
    units = [_units(estimate, plan) for column in columns for estimate in column if estimate.seeds > 1]
    few, what = min(units, default=ENOUGH), "base policies" if plan.shares_bases else "seeds"
    return [
        f"{few} {what}: a survey. Where single seeds collapse, intervals of fewer than {ENOUGH} are no evidence (docs/statistics.md). The "
        "same command with more seeds keeps the runs that are there."
    ] * (few < ENOUGH)


def look_notes(plan: Plan) -> list[str]:
    """Say what the intervals of a sequential design are."""
    looks = ", ".join(str(seeds) for seeds in plan.looks)
    test = "paired t" if plan.paired else "Welch t"
    of_all = f" in all {len(plan.metrics)} metrics" if len(plan.metrics) > 1 else ""
    return [
        f"Seeds until it is decided: looks at {looks} seeds, declared in advance. The intervals of all looks and all "
        f"differences{of_all} hold together at 95 % (repeated {test} intervals, error spent in proportion to the seeds). A closed "
        "difference keeps the interval and the word of its last look, even where an arm got more seeds for another. The intervals of "
        "scores do not allow for looks."
    ]


def word_meanings(results: Results) -> list[str]:
    """Say what each word below a difference means, with the declared margin."""
    margin, unit = results.shown_margin, results.metric.unit
    higher = "Higher, lower: the printed interval lies above or below zero"
    if margin is None:
        return [f"{higher}. Not resolved: it contains zero, which is no sign that nothing is there."]
    size = f"{margin:g}"
    return [
        f"{higher} (by less than {size}: and all of it within ±{size} {unit}, the declared margin). Equivalent within {size}: it "
        f"contains zero and all of it is within ±{size} {unit}. Not resolved: it contains zero and reaches beyond the margin, "
        "which is no sign that nothing is there.",
    ]


def power_notes(differences: Iterable[Estimate], results: Results) -> list[str]:
    """Say which difference the seeds of this column find at its level, and how many seeds half of it needs."""
    plan, metric = results.experiment.plan, results.metric
    if plan.stopped_by_results:  # the seeds of a difference are part of its outcome
        return []
    paired = plan.paired
    known = [e for e in differences if e.seeds > 1 and not math.isnan(e.standard_error + e.degrees)]
    if not known:
        return []
    # Seeds of one base policy are one replicate: the standard error has their means' degrees, not the seeds'.
    units, alpha = min(_units(e, plan) for e in known), 1 - known[0].level
    per_unit = [e.standard_error * math.sqrt(_units(e, plan) / (1 if paired else 2)) for e in known]
    sd = float(np.sqrt(np.mean(np.square(per_unit))))
    if sd == 0:
        return ["The seeds do not differ at all here, so nothing can be said of power."]
    smallest = minimum_detectable_difference(sd, units, paired=paired, alpha=alpha)
    if metric.unit == "points" and metric.scale * smallest > 100:
        return [
            f"With {units} {'base policies' if plan.shares_bases else 'seeds'} no difference that is possible is found with 80 % power."
        ]
    enough = seeds_needed(smallest / 2, sd, paired=paired, alpha=alpha) if smallest > 0 else None
    unit = "" if metric.unit == "reward" else f" {metric.unit}"
    size = f"{metric.scale * smallest:.{metric.digits}f}{unit}"
    family = family_size(known)
    among = f", one among {family}," if family > 1 else ""
    what = "base policies" if plan.shares_bases else "seeds"
    note = f"With {units} {what} a difference of {size}{among} is found with 80 % power"
    return [f"{note}; half of it needs {enough} {what}." if enough else f"{note}."]


def _units(estimate: Estimate, plan: Plan) -> int:
    """Count the replicates behind a difference: its seeds, or the base policies that they share."""
    if plan.paired:
        return round(estimate.degrees) + 1
    return min(estimate.seeds, replicate_count(plan.seeds, plan.base_policies))


MARK = " †"


def odd_arms(experiment: Frames) -> Mapping[str, list[int]]:
    """Map arm names to the seeds of finished runs that were not made by what made most runs of the experiment.

    Runs whose manifest does not say (foreign ones, for example) are left out of the comparison.
    """
    finished = records(experiment.runs[experiment.runs["status"] == "finished"])
    makers = [(row["arm"], row["seed"], tuple(row[key] for key in ("code", "packages", "device"))) for row in finished]
    runs = [(arm, seed, maker) for arm, seed, maker in makers if any(isinstance(part, str) and part for part in maker)]
    # Ties go to the maker of the first run, so that the same store marks the same rows.
    usual = Counter(maker for _, _, maker in runs).most_common(1)
    odd: dict[str, list[int]] = {}
    for arm, seed, maker in runs:
        if maker != usual[0][0]:
            odd.setdefault(arm, []).append(seed)
    return odd


def marked(arm: PlannedArm, odd: Mapping[str, list[int]]) -> str:
    """Return the arm's label, with a dagger where some of its runs are odd."""
    return arm.label + (MARK if arm.name in odd else "")


def maker_notes(experiment: Frames, *, short: bool = False) -> list[str]:
    """Write one sentence that explains the daggers, or nothing; ``short``: without the list of runs."""
    odd = odd_arms(experiment)
    if not odd:
        return []
    meaning = f"{MARK.strip()} made by other code, packages or another device than the other runs of this table"
    if short:
        return [f"{meaning}."]
    text = {name: f"seed{'s' * (len(seeds) > 1)} {', '.join(map(str, seeds))}" for name, seeds in odd.items()}
    listed = "; ".join(f"{name}, {phrase}" for name, phrase in text.items())
    return [f"{meaning}: {listed}. `harness show RUN RUN` says what differs."]


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
                notes.append(f"An effect rests on the seeds that all of its arms have: {text} of {len(plan.seeds)}.")
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
    return f"at {comparison.newest.seeds} seeds" if decided else f"{comparison.state}, {comparison.newest.seeds} seeds"

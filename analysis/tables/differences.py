"""Columns of differences: which arms are compared, at which level, and what the words below the table say."""

from __future__ import annotations

import math
from collections.abc import Iterable

import numpy as np

from analysis.evidence.looks import followed
from analysis.evidence.results import Results
from analysis.tables.table import Column
from harness.evaluation.metrics.names import Metric
from harness.experiment.plan import Plan
from harness.statistics.estimate import Estimate
from harness.statistics.power import minimum_detectable_difference, seeds_needed
from harness.statistics.spread import replicate_count

ENOUGH = 8  # replicates below which a table says that it surveys (docs/statistics.md, seeds that collapse)
REFERENCE = {
    "cumulative": "rung below",
    "leave_one_out": "full recipe",
    "one_factor": "base",
    "factorial": "base",
    "shapley": "base",
    "arms": "reference",
}


def differences_to_reference(results: Results, columns: int | None = None) -> dict[str, Estimate]:
    """Map each arm to its difference to the parent (or the base); the intervals of all of them hold together, in ``columns`` of them.

    In a sequential design each is that of the newest look at it, and holds together with those of all looks.
    """
    plan = results.experiment.plan
    if plan.looks:
        return {one.arm.name: one.newest for one in followed(results)}
    pairs = [(arm, plan.reference_of(arm)) for arm in plan.arms]
    return results.differences({arm.name: (arm, reference) for arm, reference in pairs if reference}, columns)


def differences_to_base(results: Results) -> dict[str, Estimate]:
    """Map each arm to its difference to the base, a family of its own.

    None in a sequential design: seeds stop where the declared comparisons tell them to, which would bias these.
    """
    plan = results.experiment.plan
    if plan.stopped_by_results or plan.design not in ("cumulative", "leave_one_out") or len(plan.arms) < 3:
        return {}
    return results.differences(
        {arm.name: (arm, plan.base) for arm in plan.arms if arm.name != plan.base.name}
    )


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
    units = [_units(one, plan) for column in columns for one in column if one.seeds > 1]
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
    found = minimum_detectable_difference(sd, units, paired=paired, alpha=alpha)
    if metric.unit == "points" and metric.scale * found > 100:
        return [
            f"With {units} {'base policies' if plan.shares_bases else 'seeds'} no difference that is possible is found with 80 % power."
        ]
    enough = seeds_needed(found / 2, sd, paired=paired, alpha=alpha) if found > 0 else None
    unit = "" if metric.unit == "reward" else f" {metric.unit}"
    size = f"{metric.scale * found:.{metric.digits}f}{unit}"
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

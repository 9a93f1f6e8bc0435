"""The table of collapsed seeds and exact readings, and the warning where collapsed seeds decide."""

from __future__ import annotations

from collections.abc import Mapping

from analysis.evidence.collapse import Robust, robust_readings
from analysis.evidence.results import Results
from analysis.tables.differences import difference_column
from analysis.tables.of_metric import experiment_table, of_metric
from analysis.tables.table import Cell, Column, Table, number_text

_COUNTED = "Collapsed: at the last evaluation {}. Share: exact 95 % interval; of none, the one-sided bound."
_EXACT = (
    "Differences stand alone here. Sign flips: p of the mean difference over all patterns of signs (65,536 random ones beyond 16 seeds), "
    "which assumes symmetry and no normal distribution. With skewed differences Student's t errs: docs/statistics.md."
)


def collapse_table(results: Results) -> Table | None:
    """Make one row an arm; None where no seed collapsed and no comparison has six pairs."""
    found = robust_readings(results)
    if not any(one.collapsed or one.sign_flip is not None for one in found):
        return None
    rows: list[Mapping[str, Cell]] = [
        {
            "arm": one.arm.label,
            "collapsed": _counted(one),
            "all": one.all,
            "p": one.sign_flip,
            "without": one.without,
        }
        for one in found
    ]
    columns = [
        Column("arm", "arm"),
        Column("collapsed", "collapsed seeds"),
        difference_column(results.metric, "all", "Δ, all seeds", []),
        Column("p", "p by sign flips", digits=3),
    ]
    if any(one.without is not None for one in found):
        columns.append(difference_column(results.metric, "without", "Δ without collapsed seeds", []))
    notes = [_COUNTED.format(results.experiment.plan.collapse.text), _EXACT]
    return of_metric(
        experiment_table(results, "exact", "collapsed seeds, exact tests", columns, rows, notes), results
    )


def collapse_warnings(results: Results) -> list[str]:
    """Say of each arm with collapsed seeds how many they are, and where they decide the word on its difference."""
    said = []
    for one in robust_readings(results):
        name = one.arm.label.removeprefix("+ ")
        if one.collapsed:
            said.append(
                f"- Warning, {name}: collapsed seeds: {_counted(one)} (seeds {', '.join(map(str, one.collapsed))})."
            )
        if one.decided_by_collapse and one.all is not None and one.without is not None:
            scale, unit = results.metric.scale, results.metric.unit
            said.append(
                f"- Warning, {name}: collapsed seeds decide: {one.all.words(scale, unit)} with them, without them "
                f"{number_text(scale * one.without.value, results.metric.digits, signed=True)} {unit}, {one.without.words(scale, unit)}."
            )
    return said


def _counted(one: Robust) -> str:
    low, high = (100 * end for end in one.bounds)
    share = f"{low:.0f} to {high:.0f} %" if one.collapsed else f"at most {high:.0f} %"
    return f"{len(one.collapsed)} of {len(one.seeds)}: {share}"

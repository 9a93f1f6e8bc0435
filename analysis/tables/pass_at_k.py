"""Pass@k of an experiment's comparisons over all k at once."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from analysis.effects import pairs_of
from analysis.results import Results
from analysis.samples import Floats
from analysis.tables.table import Cell, Column, Table
from analysis.tables.words import experiment_table
from harness.evaluation.metrics.names import default_ks, pass_at_every_k
from harness.experiment.plan import PlannedArm
from harness.statistics.bands import Band, simultaneous_band
from harness.statistics.intervals import Estimate, comparison_level, replicate_means


def k_bands(results: Results) -> dict[str, Band]:
    """Every declared comparison in Pass@k with its band over k from 2 on (arXiv:2609.22547); bands of all comparisons hold together.

    Pass@1 is avg, whose difference has its interval and word in the main table. Replicates are seeds, or base policies that seeds share.
    Nothing in a sequential design, or without samples.
    """
    plan, pairs = results.experiment.plan, pairs_of(results)
    curves = {arm.name: _curves(results, arm) for pair in pairs.values() for arm in pair}
    complete_pairs = {name: pair for name, pair in pairs.items() if all(curves[arm.name] for arm in pair)}
    level, bands = comparison_level(max(1, len(pairs))), {}
    for name, (arm, reference) in complete_pairs.items():
        a, b = curves[arm.name], curves[reference.name]
        most_k = min(len(curve) for side in (a, b) for curve in side.values())
        a, b = ({seed: curve[:most_k] for seed, curve in side.items()} for side in (a, b))
        sides = [{seed: a[seed] - b[seed] for seed in a if seed in b}] if plan.paired else [a, b]
        groups = [[*replicate_means(side, plan.base_policies).values()] for side in sides]
        if all(groups) and most_k > 1:
            band = simultaneous_band(*(np.array(group)[:, 1:] for group in groups), level=level, first=2)
            bands[name] = replace(band, over="base policies" if plan.shares_bases else "training seeds")
    return bands


def _curves(results: Results, arm: PlannedArm) -> dict[int, Floats]:
    """Seed to Pass@k for k = 1 to the samples a problem; every seed has as many k."""
    samples, curves = results.scores(arm, "samples"), {}
    for seed, rate_P in results.problem_scores(arm).items():
        n = int(samples[seed])
        curves[seed] = pass_at_every_k(np.rint(rate_P * n).astype(np.int64), n).mean(axis=0)
    least_k = min(map(len, curves.values()), default=0)
    return {seed: curve[:least_k] for seed, curve in curves.items()}


_MANY = 100
_FEW_PROBLEMS = (
    f"Fewer than {_MANY} problems: where only a handful of them tell the sides apart, these bands cover less often, and so do intervals of "
    "a single k (docs/evaluation.md)."
)


def k_table(reference: str, bands: Mapping[str, Band]) -> Table:
    """The difference in Pass@k with its band: k in powers of two, and the ends of the ranges at which a side parts from the first."""
    rows: list[dict[str, Cell]] = []
    for side, band in bands.items():
        ends = {k for span in (*band.above, *band.below) for k in span}
        for k in sorted(ends | {k for k in default_ks(band.last) if k >= band.first}):
            value, low, high = (float(curve[k - band.first]) for curve in (band.value_K, band.low_K, band.high_K))
            difference = Estimate(value, low, high, band.replicates, level=band.level, method="t field over k")
            rows.append({"k": k, "side": side, "difference": difference})
    columns = [
        Column("k", "k", 0),
        Column("side", "compared with it"),
        Column("difference", "difference in Pass@k, points", scale=100, signed=True, words=True),
    ]
    few = any(band.over == "problems" and band.replicates < _MANY for band in bands.values())
    title = f"Pass@k against {reference}, all k judged at once"
    return Table("k-bands", title, columns, rows, [_FEW_PROBLEMS] if few else [])


def k_sentence(side: str, band: Band) -> str:
    """``b: Pass@k parts at k 1 to 4 (higher); ...``, or that it parts nowhere."""
    basis = f"bands hold together over all k, replicates are {band.over}"
    if not band.parts:
        return f"{side}: Pass@k: {band.text}; {basis}."
    return f"{side}: Pass@k parts at {', '.join(f'{span} ({word})' for span, word in band.parts)}; {basis}."


def k_bands_table(results: Results) -> Table | None:
    """The bands at powers of two and where two arms part; None where there are none."""
    bands = k_bands(results)
    if not bands:
        return None
    table = k_table("the reference", bands)
    notes = ["Bands over k were not declared.", *(k_sentence(name, band) for name, band in bands.items()), *table.notes]
    if (chance := results.experiment.plan.chance) is not None:
        last = max(band.last for band in bands.values())
        levels = ", ".join(f"{100 * (1 - (1 - chance) ** k):.1f} % at k = {k}" for k in default_ks(last) if k > 1)
        notes.append(f"Blind answers earn {levels}; where both sides lie below, a difference says nothing.")
    return experiment_table(results, "k-bands", "Pass@k over all k", table.columns, table.rows, notes)

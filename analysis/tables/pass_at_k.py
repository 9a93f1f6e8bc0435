"""Pass@k of two evaluations over all k at once."""

from collections.abc import Mapping

from analysis.tables.table import Cell, Column, Table
from harness.evaluation.metrics.names import default_ks
from harness.statistics.bands import Band
from harness.statistics.intervals import Estimate

_MANY = 100
_FEW_PROBLEMS = (
    f"Fewer than {_MANY} problems: where only a handful of them tell the sides apart, these bands cover less often, and so do intervals of "
    "a single k (docs/evaluation.md)."
)


def k_table(reference: str, bands: Mapping[str, Band]) -> Table:
    """The difference in Pass@k with its band: k in powers of two, and the ends of the ranges at which a side parts from the first."""
    rows: list[dict[str, Cell]] = []
    for side, band in bands.items():
        ends = {k for low, high, _ in band.parts for k in (low, high)}
        for k in sorted(ends | {k for k in default_ks(band.last) if k >= band.first}):
            value, low, high = (float(curve[k - band.first]) for curve in (band.value_K, band.low_K, band.high_K))
            difference = Estimate(value, low, high, band.replicates, level=band.level, method="t field over k")
            rows.append({"k": k, "side": side, "difference": difference})
    columns = [
        Column("k", "k", 0),
        Column("side", "compared with it"),
        Column("difference", "difference in Pass@k, points", scale=100, signed=True, words=True),
    ]
    few = any(band.replicates < _MANY for band in bands.values())
    title = f"Pass@k against {reference}, all k judged at once"
    return Table("k-bands", title, columns, rows, [_FEW_PROBLEMS] if few else [])


def k_sentence(side: str, band: Band) -> str:
    """``b: Pass@k: k 1 to 4: higher; ...``, or that it parts nowhere."""
    return f"{side}: Pass@k: {band.text}; bands hold together over all k, replicates are problems."

"""The tables of judged scores: scores with their differences, and both on each benchmark."""

from collections.abc import Iterable, Mapping, Sequence

from analysis.judged_scores import JudgedScores
from analysis.score_table import ABOVE
from analysis.tables.table import Cell, Column, Table
from analysis.tables.words import difference_column
from harness.configuration.numbers import format_amount

_MOST_COLUMNS = 6  # benchmarks that the main table has beside their mean
_Cells = Mapping[tuple[str, str], Mapping[str, Cell]]


def judged_tables(judged: JudgedScores, small: str) -> list[Table]:
    """Scores with differences; with several benchmarks also scores and differences on each. ``small``: what the intervals are."""
    return [_main_table(judged, small), *(_benchmark_tables(judged) if judged.by_benchmark else ())]


def _table(judged: JudgedScores, key: str, title: str, columns: Sequence[Column], cells: _Cells, *notes: str) -> Table:
    """A table with a row for each arm that has cells, its group first where there are several."""
    labels = [Column("group", "group"), Column("arm", "arm")][len(judged.arms) < 2 :]
    rows = [{"group": place[0], "arm": place[1], **cells[place]} for place in judged.scores if place in cells]
    return Table(f"{judged.name}{key}", f"{judged.name}: {title}", [*labels, *columns], rows, notes, notes[:1])


def _main_table(judged: JudgedScores, small: str) -> Table:
    metric, effects = judged.metric, {(effect.group, effect.arm): effect for effect in judged.primary}
    names = judged.table.benchmarks if 1 < len(judged.table.benchmarks) <= _MOST_COLUMNS else []
    cells: dict[tuple[str, str], Mapping[str, Cell]] = {}
    for key, means in judged.means.items():
        scores = judged.scores[key]
        row: dict[str, Cell] = {f"on:{name}": float(scores[name].mean()) for name in names if name in scores}
        row |= {"score": judged.level(means), "seeds": int(means.notna().sum())}
        cells[key] = row | ({"delta": effects[key].estimate} if key in effects else {})
    reference = "arm above" if ABOVE in judged.table.baselines.values() else "baseline"
    columns = [
        *(Column(f"on:{name}", f"{name}{metric.percent}", metric.digits, metric.scale) for name in names),
        Column("score", f"{judged.title}{metric.percent} (95 % interval)", metric.digits, metric.scale),
        difference_column(metric, "delta", f"Δ to {reference}", [effect.estimate for effect in judged.primary]),
        Column("seeds", "seeds", digits=0),
    ]
    amount = format_amount(judged.margin or 0, metric.unit)
    suffix = f" Equivalent: it lies within the margin given, ±{amount}." if judged.margin else ""
    words = f"Higher, lower: the interval lies above or below zero. Not resolved: it contains zero.{suffix}"
    return _table(judged, "", judged.title, columns, cells, small, words, *judged.notes)


def _benchmark_tables(judged: JudgedScores) -> Iterable[Table]:
    names, metric = judged.table.benchmarks, judged.metric
    means = {key: {str(name): judged.level(wide[name]) for name in wide} for key, wide in judged.scores.items()}
    columns = [Column(name, f"{name}{metric.percent}", metric.digits, metric.scale) for name in names]
    title, note = "scores by benchmark", "Means over seeds, 95 % intervals, each alone."
    yield _table(judged, "-benchmarks", title, columns, means, note)
    deltas: dict[tuple[str, str], dict[str, Cell]] = {}
    for effect in judged.by_benchmark:
        deltas.setdefault((effect.group, effect.arm), {})[effect.benchmark] = effect.estimate
    note = (
        f"All {len(judged.by_benchmark)} differences of this table are simultaneous at 95 % (Šidák); those in {judged.subject} are a "
        "family of their own."
    )
    estimates = [effect.estimate for effect in judged.by_benchmark]
    columns = [difference_column(metric, name, f"Δ {name}", estimates) for name in names]
    yield _table(judged, "-benchmark-differences", "differences by benchmark", columns, deltas, note)

"""The scores of one evaluation or of several: a row a model, benchmark and cap."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from analysis.tables.table import Cell, Column, Table
from harness.configuration.numbers import format_count
from harness.evaluation.metrics.names import default_ks
from harness.statistics.intervals import Estimate

_SHOWN_KS = 4
_LABELS = {"model": "model", "benchmark": "benchmark", "cap": "cap"}


def evaluation_table(cells: Sequence[Mapping[str, Any]]) -> Table:
    """The table of summaries (`harness.evaluation.result.result_of`), with a few k from 2 to the samples of a problem.

    Where samples were lost, avg stands twice: with these as wrong answers, and of the samples that are there.
    """
    ks = sorted({int(k) for cell in cells for k in cell["pass_at"]} - {1}) or default_ks(1)
    shown_ks = sorted({ks[round(i * (len(ks) - 1) / (_SHOWN_KS - 1))] for i in range(_SHOWN_KS)} - {1})
    lost = sum(cell["lost_samples"] for cell in cells)
    averages = [Column("avg", "avg %, lost as wrong", 2, 100), Column("present", "avg % of those there", 2, 100)]
    columns = [
        *(Column(key, head, 0) for key, head in _LABELS.items() if key in cells[0]),
        Column("problems", "problems", 0),
        Column("samples", "samples each", 0),
        *(averages if lost else [Column("avg", "avg@n %", 2, 100)]),
        *(Column(f"pass@{k}", f"Pass@{k}", 1, 100) for k in shown_ks),
        *(Column(f"maj@{k}", f"Maj@{k}", 1, 100) for k in shown_ks),
        Column("truncated", "truncated %", 1, 100),
        Column("no_answer", "no answer %", 1, 100),
        *([Column("tokens", "tokens", 0)] if "response_tokens" in cells[0] else []),
    ]
    notes = [f"Intervals: {cells[0]['intervals']['method']}."]
    notes += [f"{lost} samples were lost; Pass@k and Maj@k count them as wrong."] if lost else []
    sizes = {cell["n_problems"] for cell in cells}
    title = format_count(sizes.pop(), "problem") if len(sizes) == 1 else "Evaluation"
    return Table("evaluation", title, columns, [_row(cell) for cell in cells], notes)


def _row(cell: Mapping[str, Any]) -> dict[str, Cell]:
    low, high = cell["intervals"]["avg"] or (math.nan, math.nan)
    tokens = cell.get("response_tokens", {"all": {"mean": None}})["all"]["mean"]
    return {
        **{key: cell[key] for key in _LABELS if key in cell},
        "problems": cell["n_problems"],
        "samples": cell["samples_per_problem"],
        "avg": Estimate(cell["avg"], low, high, cell["n_problems"], method="t over problems"),
        "present": cell["avg_present"],
        **{f"pass@{k}": value for k, value in cell["pass_at"].items()},
        **{f"maj@{k}": value for k, value in cell["maj_at"].items()},
        "truncated": cell["truncated_fraction"],
        "no_answer": cell["no_answer_fraction"],
        "tokens": tokens,
    }

"""The cells of an evaluation as a table: CSV for machines, Markdown and terminal for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from rich.table import Table

from harness.evaluation.metrics.summary import PARTS

_SHOWN_KS = 4


def cell_frame(cells: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
    """Return one row per model, benchmark and cap; shares in 0 to 1."""
    return pd.DataFrame([_row(cell) for cell in cells])


def _row(cell: Mapping[str, Any]) -> dict[str, Any]:
    low, high = cell["intervals"]["avg"] or (None, None)
    difference = cell.get("difference", {})
    d_low, d_high = difference.get("interval") or (None, None)
    return {
        **{
            key: cell[key]
            for key in ("model", "benchmark", "cap", "n_problems", "samples_per_problem", "avg")
        },
        "avg_low": low,
        "avg_high": high,
        "difference": difference.get("avg"),
        "difference_low": d_low,
        "difference_high": d_high,
        **{f"pass@{k}": value for k, value in cell["pass_at"].items()},
        **{f"maj@{k}": value for k, value in cell["maj_at"].items()},
        "truncated": cell["truncated_fraction"],
        "no_answer": cell["no_answer_fraction"],
        "tokens_mean": cell["response_tokens"]["all"]["mean"],
        "lost_samples": cell["lost_samples"],
        **{f"graders_{part}": (cell.get("graders") or {}).get(part) for part in PARTS},
        "verifier_trouble": cell["verifier"]["trouble"],
    }


def shown(cells: Sequence[Mapping[str, Any]]) -> tuple[list[str], list[list[str]]]:
    """Return head and rows in percent, with a few k from 1 to n."""
    ks = sorted({int(k) for cell in cells for k in cell["pass_at"]})
    picked = (
        ks
        if len(ks) <= _SHOWN_KS
        else sorted({ks[round(i * (len(ks) - 1) / (_SHOWN_KS - 1))] for i in range(_SHOWN_KS)})
    )
    picked = [k for k in picked if k > 1]
    head = ["model", "benchmark", "cap", "avg@n, %", "Δ to first", *(f"Pass@{k}" for k in picked)]
    head += [*(f"Maj@{k}" for k in picked), "truncated", "no answer", "tokens"]
    rows = []
    for cell in cells:
        row = [cell["model"], cell["benchmark"], str(cell["cap"]), _average(cell), _difference(cell)]
        row += [_percent(cell[kind].get(str(k))) for kind in ("pass_at", "maj_at") for k in picked]
        row += [_percent(cell["truncated_fraction"]), _percent(cell["no_answer_fraction"])]
        mean = cell["response_tokens"]["all"]["mean"]
        rows.append([*row, "" if mean is None else f"{mean:.0f}"])
    return head, rows


def markdown(cells: Sequence[Mapping[str, Any]]) -> str:
    """Return a Markdown table with a line on what the intervals are."""
    head, rows = shown(cells)
    lines = [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]
    return "\n".join([*lines, "", f"Intervals: {cells[0]['intervals']['method']}."]) + "\n"


def terminal(cells: Sequence[Mapping[str, Any]]) -> Table:
    """Return the table for the terminal."""
    head, rows = shown(cells)
    table = Table(*head, caption="intervals: 95 %, over problems, Student's t; one checkpoint each")
    for row in rows:
        table.add_row(*row)
    return table


def _average(cell: Mapping[str, Any]) -> str:
    interval = cell["intervals"]["avg"]
    around = f" [{100 * interval[0]:.1f}, {100 * interval[1]:.1f}]" if interval else ""
    return f"{100 * cell['avg']:.2f}{around} (n={cell['samples_per_problem']})"


def _difference(cell: Mapping[str, Any]) -> str:
    found = cell.get("difference")
    if not found:
        return ""
    interval = found["interval"]
    around = f" [{100 * interval[0]:+.1f}, {100 * interval[1]:+.1f}]" if interval else ""
    return f"{100 * found['avg']:+.2f}{around}"


def _percent(value: float | None) -> str:
    return "" if value is None else f"{100 * value:.1f}"

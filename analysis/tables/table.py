"""A table as data (cells are values, not text); rendered for terminal, Markdown, CSV, data frame."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.table import Table as RichTable

from harness.statistics.intervals import Estimate

Cell = Estimate | float | int | str | None
ABSENT = "–"
_OF_ESTIMATES = ("low", "high", "seeds")
_OF_DIFFERENCES = (*_OF_ESTIMATES, "p_value", "adjusted_p", "level", "margin", "method", "verdict")


@dataclass(frozen=True)
class Column:
    """The look of one column.

    ``scale`` 100 shows fractions as points; ``signed`` adds a plus; ``words`` appends the verdict
    (*higher*, *not resolved*) to estimates and marks the column as differences.
    """

    key: str
    header: str
    digits: int = 1
    scale: float = 1.0
    signed: bool = False
    words: bool = False


@dataclass(frozen=True)
class Table:
    """Named rows of cells; ``notes`` are sentences printed below (rules, corrections, what is missing).

    ``short`` are those of a LaTeX table, where ``notes`` are too long for a paper.
    """

    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Mapping[str, Cell]]
    notes: Sequence[str] = ()
    short: Sequence[str] = ()

    def text(self) -> list[list[str]]:
        """Return every cell as text, row by row."""
        return [[cell_text(row.get(column.key), column) for column in self.columns] for row in self.rows]


def cell_text(cell: Cell, column: Column) -> str:
    """Write one cell as text: ``70.1 [67.0, 73.2]`` for an estimate, ``–`` where there is nothing."""
    if cell is None:
        return ABSENT
    if isinstance(cell, str):
        return cell
    if not isinstance(cell, Estimate):
        return ABSENT if math.isnan(cell) else _number(cell, column)
    if math.isnan(cell.value):
        return cell.absent or ABSENT
    text = _number(cell.value, column)
    if not math.isnan(cell.low):
        low, high = _number(cell.low, column), _number(cell.high, column)
        if column.words:
            low, high = bounds_text(cell, column.digits, scale=column.scale, signed=column.signed)
        text += f" [{low}, {high}]"
    return f"{text} {cell.words(column.scale)}" if column.words else text


def _number(value: float, column: Column) -> str:
    return number_text(value * column.scale, column.digits, signed=column.signed)


def number_text(value: float, digits: int, *, signed: bool = False, landmarks: Sequence[float] = ()) -> str:
    """Write a shown number, thousands apart by thin spaces, with a real minus sign and never ``-0.0``.

    ``landmarks`` are numbers that the reader compares it with: it gets more digits where rounding would put it
    onto or across one of them, so that what is printed and the word beside it agree.
    """
    sign = "+" if signed else ""
    text = f"{value:{sign},.{digits}f}"
    for more in range(1, 5):
        if all(_side(float(text.replace(",", "")), mark) == _side(value, mark) for mark in landmarks):
            break
        text = f"{value:{sign},.{digits + more}f}" if more < 4 else f"{value:{sign}.1e}"
    if float(text.replace(",", "")) == 0:
        text = text.replace("-", sign)
    return text.replace("-", "−").replace(",", "\u2009")


def bounds_text(estimate: Estimate, digits: int, *, scale: float, signed: bool = True) -> tuple[str, str]:
    """Write both ends of an interval, exact enough to be told from zero and from the margin."""
    marks = [0.0] if estimate.margin is None else [-scale * estimate.margin, 0.0, scale * estimate.margin]
    ends = (scale * estimate.low, scale * estimate.high)
    low, high = (number_text(end, digits, signed=signed, landmarks=marks) for end in ends)
    return low, high


def _side(value: float, landmark: float) -> float:
    return 0.0 if value == landmark else math.copysign(1.0, value - landmark)


def to_markdown(table: Table) -> str:
    """Write GitHub Markdown with the title above and the notes as a list below."""
    header = [_markdown(column.header) for column in table.columns]
    lines = [f"**{_markdown(table.title)}**", "", _pipe(header), _pipe(["---"] * len(header))]
    lines += [_pipe([_markdown(cell) for cell in row]) for row in table.text()]
    lines += ["", *(f"- {_markdown(note)}" for note in table.notes)] if table.notes else []
    return "\n".join(lines) + "\n"


def to_frame(table: Table) -> pd.DataFrame:
    """Return raw numbers: an estimate becomes value, low, high, seeds, p, adjusted p and word columns."""
    columns: dict[str, list[float | int | str | None]] = {}
    for column in table.columns:
        cells = [row.get(column.key) for row in table.rows]
        columns[column.key] = [cell.value if isinstance(cell, Estimate) else cell for cell in cells]
        if any(isinstance(cell, Estimate) for cell in cells):
            for name in _OF_DIFFERENCES if column.words else _OF_ESTIMATES:
                columns[f"{column.key}_{name}"] = [
                    getattr(cell, name) if isinstance(cell, Estimate) else None for cell in cells
                ]
    return pd.DataFrame(columns)


def to_csv(table: Table) -> str:
    """Write the frame as CSV, shortest exact decimals, Unix line ends."""
    return to_frame(table).to_csv(index=False, lineterminator="\n")


def to_terminal(table: Table, width: int = 160) -> str:
    """Return the table and its notes as drawn by rich, without colour codes."""
    drawn = RichTable(title=escape(table.title), title_justify="left")
    for index, column in enumerate(table.columns):
        drawn.add_column(escape(column.header), justify="left" if index == 0 else "right")
    for row in table.text():
        drawn.add_row(*(escape(cell) for cell in row))
    console = Console(file=io.StringIO(), width=width, color_system=None)
    with console.capture() as capture:
        console.print(drawn)
        for note in table.notes:
            console.print(f"  {escape(note)}", highlight=False)
    return capture.get()


def _markdown(text: str) -> str:
    return re.sub(r"[\\`*_|<>]", r"\\\g<0>", text).replace("\n", " ")


def _pipe(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"

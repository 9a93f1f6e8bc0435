"""A table as data (cells are values, not text); rendered for terminal, Markdown, LaTeX, CSV, data frame."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from rich.console import Console
from rich.table import Table as RichTable

from analysis.tables.numbers import bounds_text, number_text
from harness.statistics.estimate import Estimate

Cell = Estimate | float | int | str | None
ABSENT = "–"


@dataclass(frozen=True)
class Column:
    """How one column is shown.

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
    """Named rows of cells; ``notes`` are sentences printed below (rules, corrections, what is missing)."""

    name: str
    title: str
    columns: tuple[Column, ...]
    rows: tuple[Mapping[str, Cell], ...]
    notes: tuple[str, ...] = ()

    def text(self) -> list[list[str]]:
        """Every cell as text, row by row."""
        return [[cell_text(row.get(column.key), column) for column in self.columns] for row in self.rows]


def cell_text(cell: Cell, column: Column) -> str:
    """One cell as text: ``70.1 [67.0, 73.2]`` for an estimate, ``–`` where there is nothing."""
    if cell is None:
        return ABSENT
    if isinstance(cell, str):
        return cell
    if isinstance(cell, Estimate):
        if math.isnan(cell.value):
            return cell.absent or ABSENT
        text = _number(cell.value, column)
        if not math.isnan(cell.low) and column.words:
            low, high = bounds_text(cell, column.digits, scale=column.scale, signed=column.signed)
            text += f" [{low}, {high}]"
        elif not math.isnan(cell.low):
            text += f" [{_number(cell.low, column)}, {_number(cell.high, column)}]"
        return f"{text} {cell.words(column.scale)}" if column.words else text
    if isinstance(cell, float) and math.isnan(cell):
        return ABSENT
    return _number(cell, column)


def _number(value: float, column: Column) -> str:
    return number_text(value * column.scale, column.digits, signed=column.signed)


def to_markdown(table: Table) -> str:
    """GitHub Markdown with the title above and the notes as a list below."""
    header = [_markdown(column.header) for column in table.columns]
    lines = [f"**{_markdown(table.title)}**", "", _pipe(header), _pipe(["---"] * len(header))]
    lines += [_pipe([_markdown(cell) for cell in row]) for row in table.text()]
    lines += ["", *(f"- {_markdown(note)}" for note in table.notes)] if table.notes else []
    return "\n".join(lines) + "\n"


def to_latex(table: Table) -> str:
    """A booktabs ``table`` float (needs booktabs, graphicx), shrunk to the line if too wide. Escaped."""
    columns = "l" + "r" * (len(table.columns) - 1)
    lines = [
        "% needs \\usepackage{booktabs,graphicx}",
        "\\begin{table}",
        "\\centering\\footnotesize\\setlength{\\tabcolsep}{3pt}",
        f"\\caption{{{latex_escape(table.title)}}}",
        f"\\label{{tab:{_label(table.name)}}}",
        "\\resizebox{\\ifdim\\width>\\linewidth\\linewidth\\else\\width\\fi}{!}{%",
        f"\\begin{{tabular}}{{{columns}}}",
        "\\toprule",
        _latex_row([_stacked(latex_escape(column.header)) for column in table.columns]),
        "\\midrule",
        *(_latex_row([latex_escape(cell) for cell in row]) for row in table.text()),
        "\\bottomrule",
        "\\end{tabular}}",
    ]
    if table.notes:
        notes = " ".join(latex_escape(note) for note in table.notes)
        lines.append(f"\\par\\smallskip\\parbox{{\\linewidth}}{{\\scriptsize {notes}}}")
    return "\n".join([*lines, "\\end{table}"]) + "\n"


def to_frame(table: Table) -> pd.DataFrame:
    """Raw numbers: an estimate becomes value, low, high, seeds, p, adjusted p and word columns."""
    columns: dict[str, list[float | int | str | None]] = {}
    for column in table.columns:
        cells = [row.get(column.key) for row in table.rows]
        estimates = [cell if isinstance(cell, Estimate) else None for cell in cells]
        columns[column.key] = [cell.value if isinstance(cell, Estimate) else cell for cell in cells]
        if any(e is not None for e in estimates):
            for suffix in _ESTIMATE_FIELDS[: None if column.words else 3]:
                columns[f"{column.key}_{suffix}"] = [_raw(e, suffix) for e in estimates]
    return pd.DataFrame(columns)


def to_csv(table: Table) -> str:
    """The frame as CSV, shortest exact decimals, Unix line ends."""
    return to_frame(table).to_csv(index=False, lineterminator="\n")


def renderings(table: Table) -> dict[str, str]:
    """The table as its files hold it: the suffix of a file to its text."""
    return {"md": to_markdown(table), "csv": to_csv(table), "tex": to_latex(table)}


def to_terminal(table: Table, width: int = 160) -> str:
    """The table and its notes as drawn by rich, without colour codes."""
    drawn = RichTable(title=_plain(table.title), title_justify="left")
    for index, column in enumerate(table.columns):
        drawn.add_column(_plain(column.header), justify="left" if index == 0 else "right")
    for row in table.text():
        drawn.add_row(*(_plain(cell) for cell in row))
    console = Console(file=io.StringIO(), width=width, color_system=None)
    with console.capture() as capture:
        console.print(drawn)
        for note in table.notes:
            console.print(f"  {_plain(note)}", highlight=False)
    return capture.get()


LATEX = {
    "\\": r"\textbackslash{}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "−": "$-$",
    "–": "--",
    "±": r"$\pm$",
    "Δ": r"$\Delta$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "→": r"$\rightarrow$",
    "×": r"$\times$",
    "≈": r"$\approx$",
    "ε": r"$\varepsilon$",
    "τ": r"$\tau$",
    "λ": r"$\lambda$",
    "β": r"$\beta$",
    "σ": r"$\sigma$",
    "·": r"$\cdot$",
    "“": "``",
    "”": "''",
    "’": "'",
    "…": r"\ldots{}",
    "\u2009": r"\,",
}


def latex_escape(text: str) -> str:
    """Text that compiles under pdflatex; a character without a form becomes its code point in brackets."""
    pieces = []
    for character in text:
        if character in LATEX:
            pieces.append(LATEX[character])
        elif character.isascii():
            pieces.append(character if character.isprintable() else " ")
        else:
            pieces.append(character if character in "äöüÄÖÜßéèáàíóúñçÉ" else f"[U+{ord(character):04X}]")
    return "".join(pieces)


def _stacked(header: str) -> str:
    for mark, kept in ((" (", "("), (", ", ""), (" ", "")):
        first, found, rest = header.partition(mark)
        if found:
            return f"\\shortstack[r]{{{first}\\\\{kept}{rest}}}"
    return header


def _latex_row(cells: Sequence[str]) -> str:
    # a cell that starts with "[" after "\\" would be read as its optional argument
    return " & ".join(f"{{}}{cell}" if cell.startswith("[") else cell for cell in cells) + " \\\\"


def _label(name: str) -> str:
    return "".join(c if c.isascii() and (c.isalnum() or c in "-:") else "-" for c in name)


def _markdown(text: str) -> str:
    for character in "\\`*_|<>":
        text = text.replace(character, f"\\{character}")
    return " ".join(text.split("\n"))


def _pipe(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _plain(text: str) -> str:
    return text.replace("[", r"\[")


_ESTIMATE_FIELDS = ("low", "high", "seeds", "p_value", "adjusted_p", "level", "margin", "method", "verdict")


def _raw(estimate: Estimate | None, name: str) -> float | int | str | None:
    if estimate is None:
        return None
    return estimate.verdict.value if name == "verdict" else getattr(estimate, name)

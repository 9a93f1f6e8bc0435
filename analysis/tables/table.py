"""A table as data (cells are values, not text); rendered for terminal, Markdown, CSV, data frame and LaTeX, there each number too."""

import io
import math
import re
import shutil
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console, JustifyMethod
from rich.markup import escape
from rich.table import Table as RichTable

from analysis.engagement import Untested
from harness.statistics.intervals import Estimate
from harness.store.atomic import write_file
from harness.store.foreign_text import csv_text, visible

Cell = Estimate | float | int | str | None
ABSENT = "–"
_OF_ESTIMATES = ("low", "high", "seeds")
_OF_DIFFERENCES = (*_OF_ESTIMATES, "p_value", "adjusted_p", "level", "margin", "method", "verdict")


@dataclass(frozen=True)
class Column:
    """The look of one column: ``scale`` 100 shows fractions as points, ``words`` is of differences, whose verdicts it appends."""

    key: str
    header: str
    digits: int = 1
    scale: float = 1.0
    signed: bool = False
    words: bool = False


@dataclass(frozen=True)
class Table:
    """Named rows of cells; ``notes`` are the sentences below, ``short`` those of LaTeX where they are too long for a paper.

    ``paper``: keys of the columns that LaTeX has unless others are asked for; none: all.
    """

    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Mapping[str, Cell]]
    notes: Sequence[str] = ()
    short: Sequence[str] = ()
    paper: Collection[str] = ()

    def text(self) -> list[list[str]]:
        """Return every cell as text, row by row."""
        return [[cell_text(row.get(column.key), column) for column in self.columns] for row in self.rows]


def cell_text(cell: Cell, column: Column) -> str:
    """Write one cell as text: ``70.1 [67.0, 73.2]`` for an estimate, ``–`` where there is nothing."""
    if isinstance(cell, str):
        return cell
    if not isinstance(cell, Estimate):
        return ABSENT if cell is None or math.isnan(cell) else _number(cell, column)
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
    """Write a number with thin spaces, a real minus and no ``-0.0``, exact enough to lie beside the ``landmarks`` as its word says."""
    sign = "+" if signed else ""
    for extra_digits in range(5):
        text = f"{value:{sign},.{digits + extra_digits}f}" if extra_digits < 4 else f"{value:{sign}.1e}"
        if all(_side(float(text.replace(",", "")), mark) == _side(value, mark) for mark in landmarks):
            break
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
    header = [column.header for column in table.columns]
    rows = (header, ["---"] * len(header), *table.text())
    lines = [f"**{_markdown(table.title)}**", "", *(f"| {' | '.join(map(_markdown, cells))} |" for cells in rows)]
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
                    cell.words() if name == "verdict" and isinstance(cell, Untested) else getattr(cell, name, None)
                    for cell in cells
                ]
    return pd.DataFrame(columns)


def to_csv(table: Table) -> str:
    """Write the frame as CSV, shortest exact decimals, Unix line ends."""
    return csv_text(to_frame(table))


def to_terminal(table: Table, width: int | None = None) -> str:
    """Return the table and its notes as drawn by rich at the terminal's width; on its side where words would break."""
    width = width or shutil.get_terminal_size((160, 24)).columns
    lines = [[column.header for column in table.columns], *table.text()]
    longest = [
        max((len(word) for cell in cells for word in cell.split()), default=0) for cells in zip(*lines, strict=True)
    ]
    if sum(longest) + 2 * len(longest) > width and len(lines) < len(longest):
        lines = [list(cells) for cells in zip(*lines, strict=True)]
    rich_table = RichTable(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, collapse_padding=True)
    for index, header in enumerate(lines[0]):
        justify: JustifyMethod = "right" if index else "left"
        rich_table.add_column(escape(header), justify=justify, overflow="fold")
    for row in lines[1:]:
        rich_table.add_row(*map(escape, row))
    notes = [f"  {escape(note)}" for note in table.notes]
    return drawn_text(escape(table.title), rich_table, *[""] * bool(notes), *notes, width=width)


def drawn_text(*parts: RichTable | str, width: int) -> str:
    """What rich draws at this width, without colour codes."""
    console = Console(file=io.StringIO(), width=width, color_system=None)
    with console.capture() as capture:
        for part in parts:
            console.print(part, highlight=False)
    return "".join(f"{line.rstrip()}\n" for line in capture.get().splitlines())


def _markdown(text: str) -> str:
    return re.sub(r"[\\`*_|<>]|(?<=\])\(", r"\\\g<0>", visible(text)).replace("\n", " ")


# A cell that is a number, with its interval and the words behind them.
_NUMBER = r"[+−]?\d[\d.\u2009]*(?:e[+−]?\d+)?"
_CELL = re.compile(rf"({_NUMBER})(?: (\[[^\]]*\]))?(?: (.*))?")


class UnknownColumn(ValueError):
    """A column that was asked for is in no table; the message names those that there are."""


_LATEX = str.maketrans({
    "\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"\textless{}", ">": r"\textgreater{}",
    "|": r"\textbar{}", '"': "''", "Š": r"\v{S}", "†": r"\textdagger{}", "…": r"\ldots{}", "–": "--", "“": "``",
    "”": "''", "’": "'", "\u2009": r"\,", "−": "$-$", "±": r"$\pm$", "Δ": r"$\Delta$", "≥": r"$\geq$", "≤": r"$\leq$",
    "→": r"$\rightarrow$", "←": r"$\leftarrow$", "×": r"$\times$", "≈": r"$\approx$", "·": r"$\cdot$", "α": r"$\alpha$",
    "β": r"$\beta$", "γ": r"$\gamma$", "ε": r"$\varepsilon$", "λ": r"$\lambda$", "σ": r"$\sigma$", "τ": r"$\tau$",
    **{mark: f"\\{mark}" for mark in "&%$#_{}"},
})  # fmt: skip


def latex_escape(text: str) -> str:
    """Escape text for pdflatex; a character without a form becomes its code point in brackets."""
    text = re.sub(r"[\x00-\x1f\x7f]", " ", text).translate(_LATEX).replace(" \\textdagger", "~\\textdagger")
    text = re.sub("`([^`]*)`", r"\\texttt{\1}", text)
    return re.sub(r"[^ -~äöüÄÖÜßéèáàíóúñçÉ]", lambda match: f"[U+{ord(match[0]):04X}]", text)


def _latex_cell(text: str) -> str:
    """Escape the text of a cell; behind the end of a row or a rule a bracket or a star would be an argument of it."""
    text = latex_escape(text)
    return f"{{}}{text}" if text.startswith(("[", "*")) else text


def to_latex(table: Table, *, columns: Collection[str] = ()) -> str:
    """Write a booktabs float no wider than the page; ``columns``: keys of those beside the first one, ``all``, none: the table's own."""
    keys = columns or table.paper or ("all",)
    subset = [column for column in table.columns if "all" in keys or column.key in {table.columns[0].key, *keys}]
    cells = [[_latex_cell(cell_text(row.get(column.key), column)) for column in subset] for row in table.rows]
    wide = sum(max(map(len, column)) for column in zip(*cells, strict=True)) > _ONE_COLUMN
    style = pd.DataFrame(cells, columns=range(len(subset))).style.hide(axis="index")
    text = style.relabel_index([_latex_cell(column.header) for column in subset], axis="columns").to_latex(
        hrules=True,
        environment="table*" if wide else "table",
        position_float="centering",
        column_format="l" * len(subset),
        caption=latex_escape(table.title),
        label=f"tab:{re.sub('[^A-Za-z0-9:-]', '-', table.name)}",
    )
    notes = " ".join(map(latex_escape, table.short or table.notes))
    fitted = text.replace("\\begin{tabular}", f"{_FIT}{{%\n\\begin{{tabular}}").replace(
        "\\end{tabular}\n", f"\\end{{tabular}}}}\n\n\\footnotesize\\raggedright {notes}\n"
    )
    return f"% needs \\usepackage{{booktabs,graphicx}}\n{fitted}"


_ONE_COLUMN = 60  # characters of a row that a column of a two-column paper has room for
_FIT = r"\resizebox{\ifdim\width>\linewidth\linewidth\else\width\fi}{!}"


def numbers_text(tables: Sequence[Table], extra_numbers: Mapping[str, str]) -> str:
    r"""Write a ``\newcommand`` for each number, interval and verdict, named by table, row and column key, and of ``extra_numbers``."""
    numbers = {command_name(name): text for name, text in extra_numbers.items()}
    for table in tables:
        leading = 2 if [column.key for column in table.columns[1:2]] == ["arm"] else 1  # a group before the arm
        rows = [command_name(" ".join(texts[:leading])) for texts in table.text()]
        for index, texts in enumerate(table.text()):
            place = command_name(str(rows[: index + 1].count(rows[index]))) * (rows.count(rows[index]) > 1)
            for column, text in zip(table.columns[leading:], texts[leading:], strict=True):
                name = command_name(table.name) + rows[index] + place + command_name(column.key)
                match = _CELL.fullmatch(text) if column.words or "[" in text else None
                number, interval, word = match.groups("") if match else (text, "", "")
                ends = {"": number if text != ABSENT else "", "Interval": interval, "Word": word}
                numbers |= {f"{name}{end}": value for end, value in ends.items() if value}
    lines = [f"\\newcommand{{\\{name}}}{{{latex_escape(text)}}}" for name, text in numbers.items()]
    return "\n".join(["% numbers of the tables beside this file, each by a name", *lines]) + "\n"


def command_name(text: str) -> str:
    """Write a name in letters alone: ``pass@32`` is ``PassThreeTwo``."""
    digits = ("Zero", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine")
    words = re.findall(r"[A-Za-z]+|\d", re.sub(r"(?<=[\w+])\+(?=\+*$)", " plus", text))  # an arm may be called grpo+
    return "".join(digits[int(word)] if word.isdigit() else word[0].upper() + word[1:] for word in words)


def renderings(tables: Sequence[Table], columns: Collection[str] = (), others: Sequence[Table] = ()) -> dict[str, str]:
    """Map the name of each file of the tables (Markdown, CSV, LaTeX) to its text; ``columns``: those of LaTeX.

    Raises `UnknownColumn` where neither these tables nor ``others`` have one of ``columns``.
    """
    valid_keys = {column.key for table in (*tables, *others) for column in table.columns}
    if unknown := sorted({*columns} - valid_keys - {"all"}):
        problem = f"no table has such a column; known: {', '.join(sorted(valid_keys))}"
        raise UnknownColumn(f"columns={','.join(unknown)}: {problem}")
    texts: dict[str, str] = {}
    for table in tables:
        texts |= {f"{table.name}.md": to_markdown(table), f"{table.name}.csv": to_csv(table)}
        texts[f"{table.name}.tex"] = to_latex(table, columns=columns)
    return texts


def write_texts(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    """Write files by their names into the folder, which is made where it is missing; returns their paths."""
    for name, text in texts.items():
        write_file(folder / name, text.encode(), durable=False)
    return [folder / name for name in texts]

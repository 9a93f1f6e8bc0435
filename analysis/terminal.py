"""The answer on a terminal: first the sentences, then a table that fits, its verdicts whole and in their colours."""

import math
import re
import shutil
import textwrap
from collections.abc import Sequence
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.cells import cell_len, set_cell_size
from rich.console import JustifyMethod
from rich.markup import escape
from rich.table import Table as RichTable
from rich.text import Text

from analysis.answer import Answer, answers, warnings_of
from analysis.colours import VERDICTS, is_hollow, look_of
from analysis.headline import shorten
from analysis.line import Line, axis_ticks, interval_limits
from analysis.results import Results
from analysis.tables.table import drawn_text, to_terminal
from harness.configuration.numbers import format_count

_WITH_INTERVAL, _WITH_AFFECTED = 76, 110  # columns of a terminal that have room for one more column
_LEAST = 40
_MISSING = 3  # lines of what is missing
_FOREST, _NAME, _ROWS = 56, 22, 30  # cells of its axis and of a name; rows beyond which it is the page's


def terminal_text(results: Results, *, so_far: bool = False, width: int | None = None) -> str:
    """The answer as a terminal of this width shows it, without colour."""
    width = width or shutil.get_terminal_size((80, 24)).columns
    parts = [_wrap(results.experiment.plan.title, width)]
    parts += [answer_text(answer, width) for answer in answers(results, so_far=so_far)]
    missing = [*results.experiment.notes, *results.notes]
    excess = len(missing) - _MISSING
    more = [f"{format_count(excess, 'more line')} of what is missing: see the page"] * (excess > 0)
    warnings = [*warnings_of(results), *(f"Missing: {line}" for line in missing[:_MISSING]), *more]
    parts += ["\n".join(_wrap(line, width, "! ") for line in warnings)] if warnings else []
    return "\n\n".join(part.rstrip() for part in parts) + "\n"


def answer_text(answer: Answer, width: int) -> str:
    """One answer: headline, small type, caveats, table, foot and what a run takes."""
    width = max(_LEAST, width)
    parts = [
        _wrap(" ".join(answer.headline), width),
        _wrap(" ".join(answer.small), width),
        *(f"\n{_wrap(caveat, width, '! ')}" for caveat in answer.caveats),
        _forest(answer.lines, width),
        f"\n{_draw_table(answer, width)}" if answer.lines else "",
        _wrap(answer.foot, width),
        f"\n{to_terminal(answer.spent, width)}" if answer.spent else "",
    ]
    return "\n".join(filter(None, parts))


def _draw_table(answer: Answer, width: int) -> str:
    """The table, one line a comparison where it fits; the verdict stands last, and only names are broken."""
    full_table, all_known = answer.table, all(line.known for line in answer.lines)
    heads = {column.key: column.header for column in full_table.columns}
    heads["verdict"] = heads.pop("verdict")
    for key, least_width in (("interval", _WITH_INTERVAL), ("affected", _WITH_AFFECTED)):
        heads = {name: head for name, head in heads.items() if name != key or width >= least_width}
    table = RichTable(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for key, head in heads.items():
        justify: JustifyMethod = "right" if key == "points" else "left"
        table.add_column(
            head, justify=justify, no_wrap=all_known and key in ("points", "interval", "verdict"), overflow="fold"
        )
    for row in full_table.rows:
        table.add_row(*(escape(str(row[key])) for key in heads))
    return drawn_text(table, width=width)


def _forest(lines: Sequence[Line], width: int) -> str:
    """The intervals as glyphs, one line a comparison with finite ends on one axis with zero and margin; empty for too many."""
    lines = [each for each in lines if each.known and -math.inf not in (each.estimate.low, -each.estimate.high)]
    if not 0 < len(lines) <= _ROWS:
        return ""
    estimates = [line.estimate.rescale(line.metric.scale) for line in lines]
    (low, high), margin = interval_limits(estimates), estimates[0].margin or 0.0
    texts = [shorten(text, _NAME) for text in (*(line.name for line in lines), lines[0].metric.unit)]
    *names, unit = (set_cell_size(text, min(cell_len(text), _NAME)) for text in texts)
    indent = max(map(cell_len, [*names, unit])) + 2
    cells = min(width - indent, _FOREST)

    def place(value: float) -> int:
        return round((min(max(value, low), high) - low) / (high - low) * (cells - 1))

    rows, axis = [], [" "] * cells
    for name, estimate in zip(names, estimates, strict=True):
        row = [" "] * cells
        row[place(-margin)] = row[place(margin)] = "┊"
        row[place(0)] = "│"
        if not math.isnan(estimate.low):
            first, last = place(estimate.low), place(estimate.high)
            row[first : last + 1] = ["┼" if cell == "│" else "─" for cell in row[first : last + 1]]
            row[first], row[last] = "←" if estimate.low < low else "├", "→" if estimate.high > high else "┤"
        row[place(estimate.value)] = look_of(estimate.verdict).glyphs[is_hollow(estimate.verdict)]
        rows.append(f"{set_cell_size(name, indent)}{''.join(row)}".rstrip())
    for value, text in axis_ticks((low, high), margin):
        start = min(max(0, place(value) - len(text) // 2), cells - len(text))
        if not "".join(axis[max(0, start - 1) : start + len(text) + 1]).strip():
            axis[start : start + len(text)] = text
    return "\n".join(["", *rows, f"{set_cell_size(unit, indent)}{''.join(axis)}".rstrip()])


def _wrap(text: str, width: int, mark: str = "") -> str:
    layout: dict[str, Any] = {"initial_indent": mark, "subsequent_indent": " " * len(mark), "break_long_words": False}
    return textwrap.fill(text.replace(" %", "\u00a0%"), width, **layout).replace("\u00a0", " ")  # no "%" begins a line


_VERDICT = re.compile(rf"  ({'|'.join(VERDICTS)})\S*( \S+){{0,5}}$", re.MULTILINE)


def colour_answer(text: str) -> Text:
    """The text with the answer in bold and each verdict at the end of a line in its colour, for a terminal that has any."""
    answer = Text(text)
    title, _, rest = text.partition("\n\n")
    end = len(title) + 2 + len(rest.partition("\n95 % ")[0].partition("\n\n")[0])
    answer.stylize("bold", len(title), end)
    for match in _VERDICT.finditer(text):
        answer.stylize(f"bold {VERDICTS[match[1]].terminal}", match.start() + 2, match.end())
    for look in VERDICTS.values():
        answer.highlight_regex(rf"\S*[{look.glyphs}]\S*", look.terminal)
    answer.highlight_regex(r"(?m)^! .*$", "yellow")
    return answer

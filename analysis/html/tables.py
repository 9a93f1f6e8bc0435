"""Tables as HTML: each scrolls in its own box, with its notes below."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape

from analysis.tables.table import Cell, Column, Table, cell_text
from harness.statistics.intervals import Estimate, Verdict

_HEADER = 40  # characters beyond which a header gets more room
_TALL = 16  # rows beyond which a table that stands open scrolls down in its box
_WRAPS = 20  # characters beyond which text that is no number is broken into lines
_SENTENCE = 45  # characters beyond which a cell is a sentence: a protocol, a source


def table_html(table: Table, attributes: str = "", *, fold_notes: bool = False) -> str:
    """Write a table; with ``fold_notes`` its notes unfold, and many rows scroll under their header."""
    first, *rest = table.columns
    texts = {column.key: [cell_text(row.get(column.key), column) for row in table.rows] for column in rest}
    long = {key for key, cells in texts.items() if any(len(text) > _SENTENCE for text in cells)}
    rows = [
        f'<th scope="row">{escape(cell_text(row.get(first.key), first))}</th>'
        + "".join(_cell(row.get(column.key), column, column.key in long) for column in rest)
        for row in table.rows
    ]
    head = "".join(
        f'<th{_looks(column, column.key in long)} scope="col">{escape(column.header)}</th>'
        for column in table.columns
    )
    body, title = "".join(f"<tr>{cells}</tr>" for cells in rows), escape(table.title)
    notes = "".join(f"<li>{escape(note)}</li>" for note in table.notes)
    notes = f'<ul class="notes">{notes}</ul>' if notes else ""
    if notes and fold_notes:
        notes = f'<details class="notes"><summary>How to read this table ({len(table.notes)})</summary>{notes}</details>'
    tall = " tall" if fold_notes and len(rows) > _TALL else ""
    caption = f"{title} <small>({len(rows)} rows, scroll for all)</small>" if tall else title
    return (
        f'<div class="scroll{tall}" tabindex="0" role="region" aria-label="{title}"><table{attributes}>'
        f"<caption>{caption}</caption><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>{notes}"
    )


def plain_table(title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Write rows of text as a table whose rows become cards on a phone."""
    cells = [dict(zip(header, row, strict=True)) for row in rows]
    return table_html(Table(title, title, [Column(name, name) for name in header], cells), ' class="left"')


def listed(items: Sequence[str], most: int, name: str, kind: str = "") -> str:
    """Write sentences as a list, folded under ``NAME (COUNT)`` where there are more than ``most``; nothing for none."""
    if not items:
        return ""
    lines = "".join(f"<li>{escape(item.removeprefix('- '))}</li>" for item in items)
    text = f'<ul class="{kind}">{lines}</ul>'
    folded = f'<details class="{kind}"><summary>{escape(name)} ({len(items)})</summary>{text}</details>'
    return text if len(items) <= most else folded


def _looks(column: Column, long: bool) -> str:
    size = "wider" if len(column.header) > _HEADER else "wide" if len(column.header) > _WRAPS else ""
    names = " ".join(name for name in (size, "long" * long) if name)
    return f' class="{names}"' if names else ""


def _cell(cell: Cell, column: Column, long: bool) -> str:
    """Write a table cell, of a column with a ``long`` one like that; a verdict is bold where resolved, faint where nothing is known."""
    text = cell_text(cell, column)
    shown = escape(text)
    if isinstance(cell, Estimate) and column.words and text.endswith(cell.words(column.scale)):
        word = escape(cell.words(column.scale))
        known = cell.verdict is not Verdict.NOT_RESOLVED
        tag, kind = ("strong", re.split("[ ,]", cell.verdict)[0]) if known else ("span", "unresolved")
        shown = f'{shown.removesuffix(word)}<{tag} class="{kind}">{word}</{tag}>'
    looks = "long" if long else "text" if isinstance(cell, str) and len(text) > _WRAPS else ""
    return f'<td{f" class={looks!r}" if looks else ""} data-label="{escape(column.header)}"><span>{shown}</span></td>'

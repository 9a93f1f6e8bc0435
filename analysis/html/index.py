"""The list of a store's experiments: each with its answer in a sentence and the state of its runs, in an order of one's choice."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any
from urllib.parse import quote

from analysis.html.page import Section, document

_COLUMNS = ("Experiment", "Answer", "State")
_EMPTY = "No experiment has been started in this results root yet; `harness run` starts one."


@dataclass(frozen=True)
class Entry:
    """One experiment: its name, the first sentence of its answer (empty: none yet), and what `progress_of` says."""

    name: str
    answer: str
    progress: Mapping[str, Any]


def index_page(entries: Iterable[Entry]) -> str:
    """Return the list as a page whose script sorts it and asks its server for a newer one."""
    rows = "".join(map(_row, entries))
    head = "".join(
        f'<th scope="col" aria-sort="none"><button type="button">{name}</button></th>' for name in _COLUMNS
    )
    table = f'<table class="left index"><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>'
    body = table if rows else f"<p>{_EMPTY}</p>"
    return document(
        "Experiments", "", [Section("experiments", "Answers and state", body)], {}, ("index.js",), served=True
    )


def counts_text(progress: Mapping[str, Any]) -> str:
    """Say ``3 finished, 1 running``, or why that is not known."""
    counts = ", ".join(f"{count} {status}" for status, count in progress["counts"].items())
    return str(progress["error"] or counts or "no runs")


def _row(entry: Entry) -> str:
    found = entry.progress
    link = f'<a href="/{quote(entry.name)}">{escape(entry.name)}</a>'
    bar = f'<progress max="1" value="{found["fraction"]:.4f}" aria-label="Share of all steps"></progress>'
    none = (
        "not written yet; its page computes it" if found["counts"].get("finished") else "no finished run yet"
    )
    answer = escape(entry.answer) or f'<em class="unresolved">{none}</em>'
    return (
        f'<tr><th scope="row">{link}<br><small>{escape(found["title"])}</small></th>'
        f'<td class="long" data-label="Answer"><span>{answer}</span></td>'
        f'<td data-label="State" data-sort="{found["fraction"]:.4f}"><span>{bar}<br>{escape(counts_text(found))}</span></td></tr>'
    )

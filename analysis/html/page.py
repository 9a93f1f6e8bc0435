"""The page of an experiment and the list of experiments, each one file with nothing from outside."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

from analysis.answer import answer_parts
from analysis.evidence.results import Results
from analysis.html.charts import chart_data, pictures
from analysis.html.samples import HEADER, browser_data, parting_samples
from analysis.tables.experiment import all_tables
from analysis.tables.table import Cell, Column, Table, cell_text
from harness.statistics.intervals import Estimate, Verdict
from harness.store import ResultStore, StoreError

PAGE_LIMIT_BYTES = 10_000_000
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"


# Sentences and warnings that stand open; more of them unfold. They and two figures leave the answer a screen or two.
_SENTENCES, _WARNINGS = 6, 3


@dataclass(frozen=True)
class Section:
    """One part of a page, by its anchor; a folded one shows its name until somebody opens it."""

    key: str
    name: str
    html: str
    folded: bool = False


@dataclass(frozen=True)
class Live:
    """The part of a page that follows a growing store: it shows ``progress`` and asks its server for a newer ``version``.

    ``progress`` is what ``/EXPERIMENT.json`` answers (see `analysis.view.watch`).
    """

    version: str
    progress: Mapping[str, Any]


def write_page(results: Results, store_root: Path | str, path: Path) -> Path:
    """Write the page and return its path.

    Raises:
        ValueError: if it would exceed ``PAGE_LIMIT_BYTES`` (an experiment with thousands of arms).
    """
    text = render_page(results, store_root)
    size = len(text.encode())
    if size > PAGE_LIMIT_BYTES:
        raise ValueError(f"the page would be {size / 1e6:.1f} MB; split the experiment into smaller ones")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8", newline="\n")
    return path


def render_page(results: Results, store_root: Path | str, live: Live | None = None) -> str:
    """Return the whole page as one string; with ``live`` one that follows runs: unfinished runs show their samples so far."""
    plan, warning = results.experiment.plan, ""
    *rest, cost = all_tables(results)
    if live is not None and results.experiment.unfinished:
        mark = results.experiment.provisional
        rest = [replace(table, title=f"{table.title} ({mark})") for table in rest]
        state = escape(mark[:1].upper() + mark[1:])
        warning = f'<p class="warning" id="provisional">{state}: what stands here may change.</p>'
    store, rows = ResultStore(store_root), parting_samples(results, store_root)
    parting = plain_table("Samples that part the two graders", HEADER, rows) if rows else ""
    main, *rest = rest
    sections = [
        Section("answer", "Answer", warning + _answer(results, table_html(main, fold_notes=True))),
        Section("chart", "Curves", _asset("chart.html")),
        Section("tables", "Further tables", "".join(map(table_html, rest)), folded=True),
        Section("samples", "Samples", _asset("samples.html") + parting, folded=True),
        Section("configuration", "What each arm changes", _configuration(results), folded=True),
        Section("checks", "Checks", _checks(results, store), folded=True),
        Section("cost", "Cost", table_html(cost), folded=True),
        Section("provenance", "Provenance", _provenance(results, store), folded=True),
    ]
    samples = browser_data(results, store_root, so_far=live is not None)
    data = {"chart-data": chart_data(results), "sample-data": samples}
    return document(plan.title, plan.question, sections, data, ("page.js",), live)


def document(
    title: str,
    question: str,
    sections: Sequence[Section],
    data: Mapping[str, Any],
    scripts: Sequence[str],
    live: Live | None = None,
    *,
    served: bool = False,
) -> str:
    """Return a page of sections, with data for its scripts as JSON elements and nothing from outside.

    A page that is ``served`` may ask the server that it came from; ``live`` is one, and has the progress of the runs on top.
    """
    style, root = _asset("page.css"), ""
    if live is not None:
        sections = [Section("progress", "Progress", _asset("progress.html")), *sections]
        data, scripts = {"progress-data": live.progress, **data}, (*scripts, "live.js")
        style, root = style + _asset("live.css"), f' data-version="{escape(live.version)}"'
    served = served or live is not None
    policy = f"{POLICY}; connect-src 'self'" if served else POLICY
    link = '<link rel="icon" href="data:,">' if served else ""
    first = sections[0]
    navigation = "".join(
        f'<a href="#{section.key}">{_SHORT.get(section.key, section.name)}</a>' for section in sections
    )
    elements = "".join(
        f'<script type="application/json" id="{key}">{_json(value)}</script>\n' for key, value in data.items()
    )
    body = "".join(map(_section, sections))
    return f"""<!doctype html>
<html lang="en"{root}>
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<meta http-equiv="Content-Security-Policy" content="{policy}">{link}
<title>{escape(title)}</title>
<style>{style}</style>
</head>
<body>
<a class="skip" href="#{first.key}">Skip to the {first.name.lower()}</a>
<header><h1>{escape(title)}</h1><p class="question">{escape(question)}</p>
{f'<nav aria-label="Sections">{navigation}</nav>' if len(sections) > 1 else ""}</header>
<main>{body}</main>
{elements}{"".join(f"<script>{_asset(name)}</script>" for name in scripts)}
</body>
</html>
"""


def _section(section: Section) -> str:
    heading = f'<h2 id="{section.key}-h">{section.name}</h2>'
    html = (
        f'<details class="part"><summary>{heading}</summary>{section.html}</details>'
        if section.folded
        else f"{heading}{section.html}"
    )
    return f'<section id="{section.key}" aria-labelledby="{section.key}-h">{html}</section>'


_SHORT = {"configuration": "Arms", "tables": "Tables"}


def _asset(name: str) -> str:
    text = resources.files("analysis.html").joinpath(name).read_text(encoding="utf-8")
    return text.removesuffix("\n") if name.endswith(".html") else text


def _json(value: Any) -> str:
    """JSON that cannot end its script element, whatever a model wrote."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _answer(results: Results, main: str) -> str:
    """Write the declared metric's headline, sentences, figures and table; of further metrics the headlines, which unfold."""
    (first, *others), warnings = answer_parts(results)
    notes = (*results.experiment.notes, *results.notes)
    also = "".join(
        f"<details><summary>{escape(headline)}</summary>{listed(rest, len(rest), '')}</details>"
        for headline, *rest in others
    )
    parts = [
        listed(first[1:], _SENTENCES, "Every comparison in words"),
        also,
        listed(notes, _WARNINGS, "Missing runs", "warning"),
        listed(warnings, _WARNINGS, "Warnings", "warning"),
        pictures(results),
        main,
    ]
    return f'<p class="headline">{escape(first[0])}</p>{"".join(parts)}'


def _configuration(results: Results) -> str:
    rows = []
    for arm in results.experiment.plan.arms:
        for key, change in arm.changes.items():
            old, new = (change[0], change[-1]) if isinstance(change, list) else ("", change)
            rows.append((arm.label, key, json.dumps(old), json.dumps(new)))
        if not arm.changes:
            rows.append((arm.label, "nothing", "", ""))
    return plain_table("Settings by arm", ("arm", "setting", "from", "to"), rows)


def _checks(results: Results, store: ResultStore) -> str:
    plan, frame = results.experiment.plan, results.per_seed
    declared = store.plan(plan.name).get("checks") or []
    lines = [check if isinstance(check, str) else json.dumps(check) for check in declared]
    verdicts = [str(column) for column in frame.columns if str(column).startswith("verdict_")]
    rows = []
    for arm in plan.arms:
        rows_of_arm = frame[(frame["arm"] == arm.name) & (frame["cap"] == plan.primary_cap)]
        counts = [f"{rows_of_arm[name].fillna(0).sum():.0f}" for name in verdicts]
        lost = f"{rows_of_arm['lost_samples'].sum():.0f}" if "lost_samples" in rows_of_arm else "0"
        rows.append((arm.label, *counts, lost))
    header = ("arm", *(name.removeprefix("verdict_") for name in verdicts), "lost samples")
    items = "".join(f"<li>{escape(line)}</li>" for line in lines)
    return f"<ul>{items}</ul>" + plain_table("Verdicts at the checkpoint, all seeds", header, rows)


def _provenance(results: Results, store: ResultStore) -> str:
    plan = results.experiment.plan
    recorded_by: Counter[tuple[str, str]] = Counter()
    for state in results.experiment.states.to_dict("records"):
        if state["status"] == "not started":
            continue
        try:
            manifest = store.run(state["run_id"]).manifest() or {}
        except StoreError:
            continue
        recorded_by.update(_flatten(manifest.get("provenance") or {}))
    # Sorted by key alone: the values of a key stay in the order of the runs.
    rows = [(*what, str(runs)) for what, runs in sorted(recorded_by.items(), key=lambda item: item[0][0])]
    runs = [(arm.label, str(seed), run_id) for arm in plan.arms for seed, run_id in arm.runs.items()]
    recorded = plain_table("Recorded by the runs", ("what", "value", "runs"), rows)
    details = plain_table("Run ids", ("arm", "seed", "run"), runs)
    return (
        f"<p>Command: <code>{escape(plan.command)}</code></p>{recorded}"
        f"<details><summary>Run ids</summary>{details}</details>"
    )


def _flatten(tree: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, str]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value if isinstance(value, str) else json.dumps(value)


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
    progress = entry.progress
    link = f'<a href="/{quote(entry.name)}">{escape(entry.name)}</a>'
    bar = f'<progress max="1" value="{progress["fraction"]:.4f}" aria-label="Share of all steps"></progress>'
    none = (
        "not written yet; its page computes it"
        if progress["counts"].get("finished")
        else "no finished run yet"
    )
    answer = escape(entry.answer) or f'<em class="unresolved">{none}</em>'
    return (
        f'<tr><th scope="row">{link}<br><small>{escape(progress["title"])}</small></th>'
        f'<td class="long" data-label="Answer"><span>{answer}</span></td>'
        f'<td data-label="State" data-sort="{progress["fraction"]:.4f}"><span>{bar}<br>{escape(counts_text(progress))}</span></td></tr>'
    )


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

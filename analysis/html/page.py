"""The page of an experiment and the list of experiments, each one file with nothing from outside.

The page has the tables, interactive curves, and samples of the same problems for every arm.
"""

from __future__ import annotations

import base64
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from analysis.answer import answer_parts
from analysis.caveats import grader_gaps
from analysis.figures.curves import FIGURES
from analysis.figures.drawing import (
    AXES,
    EMPTY,
    Panel,
    Series,
    accuracy_series,
    arm_appearances,
    cap_label,
    k_curves,
    logged,
    panel_series,
    score_label,
    styled,
    svg_bytes,
)
from analysis.figures.effects import differences_figure, grid_figure, interactions_figure, waterfall_figure
from analysis.results import Results
from analysis.samples import evaluated, needed_columns
from analysis.tables.experiment import all_tables
from analysis.tables.table import Cell, Column, Table, cell_text
from harness.evaluation.metrics.names import TRAINING
from harness.evaluation.protocol import ProblemText, problem_texts
from harness.experiment.plan import Plan, PlannedArm
from harness.statistics.intervals import Estimate, Verdict
from harness.store import ResultStore, StoreError
from harness.store.run import RunDir

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

    ``progress`` is what ``/EXPERIMENT.json`` answers (see `analysis.view.server`).
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


def render_page(results: Results, store_root: Path | str, feed: Live | None = None) -> str:
    """Return the whole page as one string; with ``feed`` one that follows runs: unfinished runs show their samples so far."""
    plan, warning = results.experiment.plan, ""
    *rest, cost = all_tables(results)
    if feed is not None and results.experiment.unfinished:
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
    samples = browser_data(results, store_root, so_far=feed is not None)
    data = {"chart-data": chart_data(results), "sample-data": samples}
    return document(plan.title, plan.question, sections, data, ("page.js",), feed)


def document(
    title: str,
    question: str,
    sections: Sequence[Section],
    data: Mapping[str, Any],
    scripts: Sequence[str],
    feed: Live | None = None,
    *,
    served: bool = False,
) -> str:
    """Return a page of sections, with data for its scripts as JSON elements and nothing from outside.

    A page that is ``served`` may ask the server that it came from; ``feed`` is one, and has the progress of the runs on top.
    """
    style, root = _asset("page.css"), ""
    if feed is not None:
        sections = [Section("progress", "Progress", _asset("progress.html")), *sections]
        data, scripts = {"progress-data": feed.progress, **data}, (*scripts, "live.js")
        style, root = style + _asset("live.css"), f' data-version="{escape(feed.version)}"'
    served = served or feed is not None
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
    for state in results.experiment.runs.to_dict("records"):
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
    head = "".join(f'<th scope="col" aria-sort="none"><button type="button">{name}</button></th>' for name in _COLUMNS)
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
    none = "not written yet; its page computes it" if progress["counts"].get("finished") else "no finished run yet"
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
        f'<th{_looks(column, column.key in long)} scope="col">{escape(column.header)}</th>' for column in table.columns
    )
    body, title = "".join(f"<tr>{cells}</tr>" for cells in rows), escape(table.title)
    notes = "".join(f"<li>{escape(note)}</li>" for note in table.notes)
    notes = f'<ul class="notes">{notes}</ul>' if notes else ""
    if notes and fold_notes:
        notes = (
            f'<details class="notes"><summary>How to read this table ({len(table.notes)})</summary>{notes}</details>'
        )
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


DASHES = {"-": "none", "--": "7 4", ":": "2 3", "-.": "7 3 2 3"}


def chart_data(results: Results) -> dict[str, Any]:
    """Return ``{"arms": [...], "charts": [...]}``, the declared metrics first: each chart has axes, each axis one line per arm.

    A line is ``{x, mean, low, high}`` with null where there is no value; numbers keep five digits. A metric that is one number of a
    whole run (seconds, steps to a target) has no curve: the score's comes first then.
    """
    experiment = results.experiment
    appearance = arm_appearances(experiment)
    names, looks = list(appearance), appearance.values()
    arms = [
        {"label": arm.label, "colour": on_both(look.colour), "dash": DASHES[str(look.line)]}
        for arm, look in zip(experiment.plan.arms, looks, strict=True)
    ]
    charts = [chart for view in results.each_metric() for chart in _declared(view, names)]
    score = _evaluations(results.about(experiment.plan.score), names)
    charts += [chart for chart in score if chart not in charts]
    for kind in ("pass", "maj"):
        lines = [k_curves(results, name).get(kind, EMPTY) for name in names]
        if any(len(line) for line in lines):
            axes = [_axis("k", lines, log=True)]
            charts.append({"title": f"{kind.capitalize()}@k after RL, %", "axes": axes})
    panels = [panel for group in FIGURES.values() for panel in group]
    charts += [chart for panel in panels for chart in _panel_chart(results, panel, names)]
    return {"arms": arms, "charts": charts}


def _declared(view: Results, names: Sequence[str]) -> list[dict[str, Any]]:
    """Make the chart of a declared metric, if it has a curve and somebody recorded it."""
    metric, experiment = view.metric, view.experiment
    if metric.kind == TRAINING and metric != experiment.plan.score:
        (column,) = needed_columns(metric)
        return _panel_chart(view, Panel(column, f"{metric.header} (training)", scale=metric.scale), names)
    return _evaluations(view, names)


def _evaluations(view: Results, names: Sequence[str]) -> list[dict[str, Any]]:
    """Make the chart of a metric of evaluations."""
    metric, experiment = view.metric, view.experiment
    of_score = metric == experiment.plan.score
    column, scale = ("avg", experiment.plan.score.scale) if of_score else (view.column, metric.scale)
    if not len(experiment.cells) or not (of_score or (evaluated(metric) and column in experiment.cells)):
        return []
    axes = [
        _axis(AXES[axis], [accuracy_series(experiment, name, axis, column, scale=scale) for name in names])
        for axis in ("step", "tokens")
    ]
    title = f"evaluation {score_label(experiment.plan)}"
    return [{"title": title if of_score else f"{metric.header}{cap_label(experiment.plan)}", "axes": axes}]


def _panel_chart(results: Results, panel: Panel, names: Sequence[str]) -> list[dict[str, Any]]:
    if not logged(results.experiment, panel):
        return []
    axes = [
        _axis(label, [panel_series(results.experiment, name, panel, axis) for name in names])
        for axis, label in AXES.items()
    ]
    return [{"title": panel.label, "axes": axes}]


def _axis(label: str, lines: Sequence[Series], *, log: bool = False) -> dict[str, Any]:
    return {"label": label, "lines": [_line(line) for line in lines], "log": log}


def _line(series: Series, most: int = 150) -> dict[str, Any]:
    """Thinned to at most about ``most`` points, the last one kept."""
    stride = max(1, len(series) // most)
    keep = np.unique(np.append(np.arange(0, len(series), stride), max(len(series) - 1, 0)))
    keep = keep[keep < len(series)]
    parts = {"x": series.x, "mean": series.mean, "low": series.low, "high": series.high}
    return {
        name: [float(f"{value:.5g}") if np.isfinite(value) else None for value in values[keep]]
        for name, values in parts.items()
    }


_Draw = Callable[[Results], Figure | None]
# The first that an experiment has data for stand in the answer, what its design asks for before what every design has.
_PICTURES: tuple[tuple[_Draw, str, str], ...] = (
    (
        grid_figure,
        "Heat map of the scores over two settings; the numbers stand in the table of the grid.",
        "Means over seeds by the two settings that vary.",
    ),
    (
        interactions_figure,
        "Means at each pair of levels of two factors; the interactions stand in a table of their own.",
        "Means over all settings of the other factors, whiskers: 95 % Student's t intervals over seeds. Parallel lines: no interaction.",
    ),
    (
        partial(differences_figure, wide=False),
        "Differences with their intervals, the margin and their words; the numbers stand in the first table.",
        "Differences, paired by seed; whiskers: intervals that hold together at 95 %. A word belongs to its whole interval.",
    ),
    (
        waterfall_figure,
        "Scores of the arms with 95 % intervals; the numbers stand in the first table.",
        "Score of each arm: mean over training seeds, whisker: its 95 % Student's t interval over seeds. Bar: the difference to what the "
        "arm is compared with.",
    ),
)
_SHOWN = 2  # side by side
_TALL_PICTURE = 1.0  # height over width beyond which a picture scrolls in a box of its own


def pictures(results: Results) -> str:
    """Draw each figure of each metric with its caption, as HTML; all but the first of the first metric are folded."""
    drawn, of_first = list[str](), 0
    with styled("screen"):
        for index, view in enumerate(results.each_metric()):
            for draw, description, caption in _PICTURES:
                if (figure := draw(view)) is not None:
                    drawn.append(picture(figure, description, caption))
            of_first = of_first if index else min(len(drawn), _SHOWN)
    shown, folded = (f'<div class="pictures">{"".join(part)}</div>' for part in (drawn[:of_first], drawn[of_first:]))
    if len(drawn) == of_first:
        return shown
    return f"{shown}<details><summary>More figures ({len(drawn) - of_first})</summary>{folded}</details>"


def picture(figure: Figure, description: str, caption: str) -> str:
    light = svg_bytes(figure).decode()
    # As attributes: the page has the picture's room before it is drawn, and nothing below it moves.
    width, height = (round(72 * inches) for inches in figure.get_size_inches())
    about = escape(description)
    tall = height > _TALL_PICTURE * width
    box = f' class="tall" tabindex="0" role="region" aria-label="{about}"' if tall else ""
    caption += " It scrolls in its box." * tall
    return (
        f'<figure><div{box}><picture><source media="(prefers-color-scheme: dark)" srcset="{_data(dark(light))}">'
        f'<img class="figure" width="{width}" height="{height}" alt="{about}" src="{_data(light)}"></picture></div>'
        f"<figcaption>{escape(caption)}</figcaption></figure>"
    )


def _data(svg: str) -> str:
    return f"data:image/svg+xml;base64,{base64.b64encode(svg.encode()).decode()}"


# Every replacement has a contrast of at least 3 with the page's dark ground, #16181b.
DARK: Mapping[str, str] = {
    "#ffffff": "#16181b",
    "#000000": "#ececec",
    "#dddddd": "#3a3f45",
    "#888888": "#a9a9a9",
    "#777777": "#a9a9a9",
    "#0072b2": "#4fa8e0",
    "#7f3c8d": "#c58bd2",
    "#8c6d31": "#b8975a",
}


def on_both(colour: str) -> str:
    """Make the CSS colour that is ``colour`` on a light page and its counterpart on a dark one."""
    return f"light-dark({colour}, {DARK.get(colour.lower(), colour)})"


def dark(svg: str) -> str:
    """Recolour a drawing for a dark ground; glyphs have no colour of their own, so the root gives them one."""
    for light, replaced in DARK.items():
        svg = svg.replace(light, replaced)
    return svg.replace("<svg ", f'<svg fill="{DARK["#000000"]}" ', 1)


SAMPLES_PER_PROBLEM = 2
MAX_PROBLEMS = 64
MAX_CHARACTERS = 4000
COLUMNS = (
    "problem_id",
    "sample_index",
    "max_response_tokens",
    "response_tokens",
    "finish_reason",
    "answer",
    "correct",
    "verdict",
    "second_correct",
    "response",
)


def browser_data(
    results: Results, store_root: Path | str, byte_limit: int = 6_000_000, *, so_far: bool = False
) -> dict[str, Any]:
    """Return ``{"seed", "so_far", "problems": [{"id", "text", "gold", "rates", "samples": [[...] per arm]}]}``.

    Text and gold are null where the data are not on this machine. One seed that most arms finished; problems in
    falling order of disagreement between the arms; the first ``SAMPLES_PER_PROBLEM`` sample indices of each,
    never picked by content. Problems are dropped from the end until the text fits ``byte_limit``.

    With ``so_far`` an unfinished run shows its newest evaluation; ``so_far`` of the answer has that step for each arm,
    null for an arm whose run finished or has no evaluation.
    """
    plan, store = results.experiment.plan, ResultStore(store_root)

    def rank(seed: int) -> tuple[int, int]:
        """Most arms to show, then most that finished."""
        shown = sum(shown_step(results, arm, seed, so_far) is not None for arm in plan.arms)
        return shown, sum(seed in results.scores(arm, "avg") for arm in plan.arms)

    seed = max(plan.seeds, key=rank)  # the first of several that are equal
    steps = [shown_step(results, arm, seed, so_far) for arm in plan.arms]
    of_arms = list(zip(plan.arms, steps, strict=True))
    open_steps = [None if seed in results.scores(arm, "avg") else step for arm, step in of_arms]
    keys = [(arm.runs.get(seed, ""), step or 0, plan.primary_cap) for arm, step in of_arms]
    problem_avg, problem_ids = results.experiment.problem_avg, results.experiment.problem_ids
    rates = [None if step is None else problem_avg.get(key) for key, step in zip(keys, steps, strict=True)]
    shown = [rate for rate in rates if rate is not None]
    if not shown or not problem_ids:
        return {"seed": seed, "so_far": open_steps, "problems": []}
    order = np.argsort(-np.ptp(np.array(shown), axis=0), kind="stable")[:MAX_PROBLEMS]
    # The samples of a foreign run were never here; what the first arm was asked, all were asked.
    samples = [
        {} if rate is None else _samples(_evaluation(store.run(run_id), plan, step))
        for rate, (run_id, step, _) in zip(rates, keys, strict=True)
    ]
    first = next(key[0] for key, step in zip(keys, steps, strict=True) if step is not None)
    try:
        texts = problem_texts(store.run(first), plan.benchmark)
    except StoreError:
        texts = {}
    problems, size = [], 0
    for index in order:
        name = problem_ids[index]
        problem = {
            "id": name,
            "text": _cut(texts[name].prompt) if name in texts else None,
            "gold": texts[name].gold if name in texts else None,
            "rates": [None if rate is None else round(float(rate[index]), 4) for rate in rates],
            "samples": [shown_samples.get(name, []) for shown_samples in samples],
        }
        size += len(str(problem).encode())
        if size > byte_limit:
            break
        problems.append(problem)
    return {"seed": seed, "so_far": open_steps, "problems": problems}


def shown_step(results: Results, arm: PlannedArm, seed: int, so_far: bool) -> int | None:
    """The step to show of a run: of a finished one its checkpoint, else with ``so_far`` its newest evaluation."""
    plan, frame = results.experiment.plan, results.per_seed
    rows = frame[(frame["arm"] == arm.name) & (frame["seed"] == seed) & (frame["cap"] == plan.primary_cap)]
    if len(rows):
        return int(rows["checkpoint"].iloc[0])
    key = (arm.runs.get(seed) if so_far else None, plan.primary_cap)
    return max((step for run, step, cap in results.experiment.problem_avg if (run, cap) == key), default=None)


def _cut(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]} … [{len(text)} characters]"


def _evaluation(run: RunDir, plan: Plan, step: int) -> pd.DataFrame:
    """The samples of a run at one step and the plan's cap, by problem and index."""
    table = run.samples(plan.benchmark, step, COLUMNS)
    return table[table["max_response_tokens"] == plan.primary_cap].sort_values(["problem_id", "sample_index"])


def _samples(table: pd.DataFrame) -> dict[str, list[dict[str, Any]]]:
    """The first samples of each problem, as the page shows them."""
    shown: dict[str, list[dict[str, Any]]] = {}
    for row in table[table["sample_index"] < SAMPLES_PER_PROBLEM].to_dict("records"):
        shown.setdefault(str(row["problem_id"]), []).append(
            {
                "right": bool(row["correct"]),
                "verdict": str(row["verdict"]),
                "answer": row["answer"] if isinstance(row["answer"], str) else None,
                "tokens": int(row["response_tokens"]),
                "truncated": row["finish_reason"] == "length",
                "text": _cut(str(row["response"])),
            }
        )
    return shown


HEADER = ("right by", "arm", "problem", "gold", "answer that the verifier read", "end of the response")
_OF_EACH = 4
_SHOWN_CHARACTERS = 300


def parting_samples(results: Results, store_root: Path | str) -> list[tuple[str, ...]]:
    """Return rows of `HEADER`: some samples that only the verifier holds right, then some that only the second grader does.

    Of the seed that the browser of samples shows, at each arm's checkpoint: the first in the order of problem and sample, one of each
    arm in turn.
    """
    plan = results.experiment.plan
    gaps = grader_gaps(results)
    if not any(gap.only_first or gap.only_second for gap in gaps.values()):
        return []
    seed = max(plan.seeds, key=lambda seed: sum(seed in results.scores(arm, "avg") for arm in plan.arms))
    frames, texts = list[pd.DataFrame](), dict[str, ProblemText]()
    for arm in plan.arms:
        step = shown_step(results, arm, seed, False)
        if step is None or arm.name not in gaps:
            continue
        run = ResultStore(store_root).run(arm.runs[seed])
        table = _evaluation(run, plan, step)
        frames.append(table[table["second_correct"].notna()].assign(arm=arm.label))
        texts = texts or problem_texts(run, plan.benchmark)
    if not frames:
        return []
    rows: list[tuple[str, ...]] = []
    for name, first in (("the verifier only", True), ("the second grader only", False)):
        parting = [frame[(frame["correct"] == first) & (frame["second_correct"] != first)] for frame in frames]
        placed = pd.concat([frame.assign(place=range(len(frame))) for frame in parting])
        in_turn = placed.sort_values("place", kind="stable")  # the first of each arm before the second of any
        for row in in_turn.head(_OF_EACH).to_dict("records"):
            text = texts.get(row["problem_id"])
            asked, gold = ("", "") if text is None else (text.prompt[-_SHOWN_CHARACTERS:], text.gold)
            answer = row["answer"] if isinstance(row["answer"], str) else "none"
            end = row["response"][-_SHOWN_CHARACTERS:]
            rows.append((name, row["arm"], asked or row["problem_id"], gold, answer, end))
    return rows

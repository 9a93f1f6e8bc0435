"""The page of an experiment, one file with nothing from outside."""

import json
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from importlib import resources
from itertools import chain
from pathlib import Path
from typing import Any

import jinja2
import numpy as np
import pandas as pd
from markupsafe import Markup, escape

from analysis.answer import Answer, answers, warnings_of
from analysis.colours import VERDICTS, is_hollow, kind_of
from analysis.figures import drawing
from analysis.figures.curves import FIGURES
from analysis.figures.drawing import Panel
from analysis.frames import Frames
from analysis.headline import capital
from analysis.line import Line, axis_ticks, interval_limits
from analysis.methods import Methods
from analysis.results import Results
from analysis.samples import is_evaluated, records
from analysis.tables.experiment import all_tables
from analysis.tables.table import Cell, Column, Table, cell_text
from analysis.tables.words import REFERENCE, interval_name, metric_name, seeds_text
from harness.configuration.identity import flatten
from harness.configuration.numbers import format_count, format_seconds
from harness.evaluation.metrics.names import TRAINING
from harness.evaluation.stored import problem_texts
from harness.experiment.as_declared import declared_line
from harness.experiment.plan import Plan
from harness.statistics.intervals import Estimate
from harness.store import ResultStore, StoreError
from harness.store.foreign_text import visible
from harness.store.reader import run_state
from harness.store.run import RunDir

Json = Mapping[str, Any]
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
_WARNINGS = 3  # that stand open; more of them unfold


@dataclass(frozen=True)
class Section:
    """One part of a page, by its anchor; a folded one shows its name until somebody opens it."""

    key: str
    name: str
    html: str
    folded: bool = False


def render_page(
    results: Results,
    store_root: Path | str,
    version: str = "",
    progress: Section | None = None,
) -> str:
    """Return the page as one string; with ``progress`` of its runs it follows them, and unfinished ones show their samples so far.

    ``version``: see `document`.
    """
    plan, store, so_far = results.experiment.plan, ResultStore(store_root), progress is not None
    rest = [replace(table, title=_own_title(table.title, plan.title)) for table in all_tables(results)]
    if so_far and results.experiment.unfinished:
        rest = [replace(table, title=f"{table.title} ({results.experiment.provisional})") for table in rest]
    plan_checks = store.plan(plan.name).get("checks") or []
    checks = [check if isinstance(check, str) else json.dumps(check) for check in plan_checks]
    setting = " ".join(filter(None, Methods(results, store).setting))
    sections = [
        *([progress] if progress else []),
        Section("answer", "Answer", f'{_answer(results, so_far=so_far)}<p class="small">{escape(setting)}</p>'),
        Section("chart", "Curves", render("chart.html", replicates=plan.replicate_name)),
        Section("samples", "Samples", _asset("samples.html")),
        Section("tables", "Further tables", "".join(map(table_html, rest)), folded=True),
        Section("configuration", "Changes by arm", _configuration(results), folded=True),
        Section("checks", "Checks", list_html(checks, len(checks), "") or "<p>None.</p>", folded=True),
        Section("provenance", "Provenance", _provenance(results, store), folded=True),
    ]
    samples = browser_data(results, store, so_far=so_far)
    data = {"chart-data": chart_data(results), "sample-data": samples}
    facts = _facts(results, store)
    return document(plan.title, plan.question, sections, data, ("page.js",), version, facts=facts)


def document(
    title: str, question: str, sections: Sequence[Section], data: Json, scripts: Sequence[str], version: str = "",
    *, facts: Sequence[str] = (),
) -> str:  # fmt: skip
    """Return a page of sections, with data for its scripts as JSON elements and nothing from outside.

    With the ``version`` of the store it asks its server (`harness.commands.view`) for a newer one, and loads itself again.
    ``facts`` stand under the title.
    """
    scripts = (*scripts, "live.js") if version else scripts
    return visible(render(
        "page.html", version=version, title=title, question=question, facts=facts, sections=sections,
        policy=f"{POLICY}; connect-src 'self'" if version else POLICY,
        style=verdict_style() + _asset("page.css"),
        data={key: _json(value) for key, value in data.items()},
        scripts=list(map(_asset, scripts)),
    ))  # fmt: skip


@cache
def _templates() -> jinja2.Environment:
    templates = jinja2.Environment(
        loader=jinja2.FunctionLoader(_asset),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        keep_trailing_newline=True,
    )
    templates.filters["linked"] = link_papers
    templates.filters["percents"] = lambda text: re.sub(r"(?<=\d) %", "\u00a0%", text)  # no line begins with "%"
    return templates


def link_papers(text: str) -> Markup:
    """Text as HTML, in which a paper's number leads to the paper."""
    return Markup(re.sub(r"arXiv:(\d{4}\.\d{5})", r'<a href="https://arxiv.org/abs/\1">\g<0></a>', escape(text)))


def render(template: str, **values: Any) -> Markup:
    """A template of this folder with these values, escaped but for what is markup already."""
    return Markup(_templates().get_template(template).render(**values))


def _asset(name: str) -> str:
    return resources.files("analysis.html").joinpath(name).read_text(encoding="utf-8")


def _json(value: Any) -> str:
    """JSON that cannot end its script element, whatever a model wrote."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return re.sub("[<>&\u2028\u2029]", lambda match: f"\\u{ord(match[0]):04x}", text)


def verdict_style() -> str:
    """The colours of verdicts as variables of a page, on light and on dark ground, with a class for each."""
    light = "".join(f"--{kind}:{look.colour};" for kind, look in VERDICTS.items())
    dark = "".join(f"--{kind}:{look.dark};" for kind, look in VERDICTS.items())
    classes = "".join(f".{kind}{{color:var(--{kind})}}" for kind in VERDICTS)
    return f":root{{{light}}}@media screen and (prefers-color-scheme: dark){{:root{{{dark}}}}}{classes}"


_WIDTH, _EDGE = 240, 8  # of a row's drawing, and what its arrows need on either side
_TICKS_APART = 34  # for the text of two ticks
_TALL = 16  # rows beyond which a table that stands open scrolls down in its box


def answer_html(answer: Answer, arms: Sequence[str] = ()) -> Markup:
    """One answer as the first screen of a page: a table whose rows draw their intervals, keyed as the curves of these arms."""
    lines = answer.lines
    estimates = [line.estimate.rescale(line.metric.scale) for line in lines]
    limits = interval_limits(estimates)
    rows = [_forest_row(*each, limits) for each in zip(lines, estimates, strict=True)]
    ticks, zero = _ticks(limits, estimates), _place(0, limits)
    places = {"rows": rows, "ticks": ticks, "zero": zero, "width": _WIDTH, "most": _TALL, "arms": arms}
    affected, interval = any(line.affected for line in lines), interval_name(estimates)
    spent = "" if answer.spent is None else table_html(answer.spent, fold_notes=True)
    return render("answer.html", answer=answer, affected=affected, interval=interval, spent=spent, **places)


def _place(value: float, limits: tuple[float, float]) -> float:
    low, high = limits
    return _EDGE + (min(max(value, low), high) - low) / (high - low) * (_WIDTH - 2 * _EDGE)


def _forest_row(line: Line, estimate: Estimate, limits: tuple[float, float]) -> Json:
    """What is drawn of a comparison, by places on its axis: margin, interval with an arrow where it leaves the axis, and value."""
    margin, ends = (-(estimate.margin or 0.0), estimate.margin or 0.0), (estimate.low, estimate.high)
    row: dict[str, Any] = {"line": line, "about": f"{line.points} {line.interval and f'({line.interval})'}".strip()}
    row["kind"] = kind_of(line.estimate.verdict) if line.known else "not"
    row["path"] = VERDICTS[row["kind"]].path
    row |= {"hollow": is_hollow(estimate.verdict), "value": _place(estimate.value, limits) if line.known else None}
    row["margin"] = [] if estimate.margin is None else [_place(end, limits) for end in margin]
    row["ends"] = [] if math.isnan(estimate.low) else [_place(end, limits) for end in ends]
    is_outside = ends[0] < limits[0], ends[1] > limits[1]
    row["arrows"] = [(x, way) for x, way, out in zip(row["ends"], (-1, 1), is_outside, strict=False) if out]
    return row


def _ticks(limits: tuple[float, float], estimates: Sequence[Estimate]) -> list[tuple[float, str]]:
    """Places and texts of the values of the axis for which there is room."""
    ticks: list[tuple[float, str]] = []
    for value, text in axis_ticks(limits, next((each.margin for each in estimates if each.margin), 0.0)):
        x = _place(value, limits)
        ticks += [(x, text)] * all(abs(x - other) > _TICKS_APART for other, _ in ticks)
    return ticks


def _answer(results: Results, *, so_far: bool) -> str:
    """The answer in the first metric; in further ones it unfolds, and so do what is missing."""
    first, *others = answers(results, so_far=so_far)
    arms = [arm.name for arm in results.experiment.plan.arms]
    parts: list[str] = [answer_html(first, arms)]
    parts += [
        f"<details><summary>{escape(' '.join(one.headline))}</summary>{answer_html(one, arms)}</details>"
        for one in others
    ]
    parts.append(list_html(warnings_of(results), _WARNINGS, "Warnings", "warning"))
    if len(results.experiment.finished_runs):
        parts.append(list_html((*results.experiment.notes, *results.notes), _WARNINGS, "What has not run", "warning"))
    return "".join(parts)


def _own_title(title: str, experiment: str) -> str:
    """The title of a table without that of its experiment, which stands on top of the page."""
    stem = title.removeprefix(experiment).strip().removeprefix("(").replace("):", ":")
    return capital(stem.removesuffix(")").removeprefix(": ")) or "Scores and differences"


def _facts(results: Results, store: ResultStore) -> list[str]:
    """What stands under the title: arms and seeds, runs, metric, and the commit and day of the newest run."""
    plan, runs = results.experiment.plan, results.experiment.runs
    finished_ids, pairs = results.experiment.finished_runs["run_id"], []
    for run_id in finished_ids.unique():
        with suppress(StoreError):
            manifest = store.run(run_id).manifest() or {}
            ends = [attempt.get("ended_at") or "" for attempt in manifest.get("attempts") or ()]
            pairs.append((max(ends, default=""), str((manifest.get("provenance") or {}).get("git_commit") or "")[:8]))
    newest, commit = max(pairs, default=("", ""))
    facts = [
        f"{format_count(len(plan.arms), 'arm')} × {seeds_text(plan.seed_counts)}",
        f"{len(finished_ids)} of {len(runs)} runs finished{' so far' * bool(plan.looks)}",
        ", ".join(filter(None, [metric_name(results), plan.benchmark.replace("_", " ")])),
        " · ".join(filter(None, [commit, newest[:10]])),
        declared_line(store, plan.name),
    ]
    return [fact for index, fact in enumerate(facts) if fact or index < 3]


def _configuration(results: Results) -> str:
    rows = []
    for arm in results.experiment.plan.arms:
        for key, change in (arm.changes or {"nothing": ""}).items():
            values = (change[0], change[-1]) if isinstance(change, list) else ("", change)
            rows.append((arm.label, key, *(json.dumps(value) if value != "" else "" for value in values)))
    return plain_table("Settings by arm", ("arm", "setting", "from", "to"), rows)


def _provenance(results: Results, store: ResultStore) -> str:
    plan, runs, facts = results.experiment.plan, results.experiment.runs, Counter[tuple[str, str]]()
    for run_id in runs.loc[runs["status"] != "not started", "run_id"].unique():
        with suppress(StoreError):
            provenance = flatten((store.run(run_id).manifest() or {}).get("provenance") or {})
            facts.update((key, fact if isinstance(fact, str) else json.dumps(fact)) for key, fact in provenance.items())
    # Sorted by key alone: the values of a key stay in the order of the runs.
    rows = [(*fact, str(count)) for fact, count in sorted(facts.items(), key=lambda item: item[0][0])]
    ids = [(arm.label, str(seed), run_id) for arm in plan.arms for seed, run_id in arm.runs.items()]
    return (
        f"<p>Command: <code>{escape(plan.command)}</code></p>"
        f"{plain_table('Recorded by the runs', ('what', 'value', 'runs'), rows)}"
        f"<details><summary>Run ids</summary>{plain_table('Run ids', ('arm', 'seed', 'run'), ids)}</details>"
    )


_WRAPS = 20  # characters beyond which text that is no number is broken into lines
_SENTENCE = 45  # characters beyond which a cell is a sentence: a protocol, a source


def table_html(table: Table, kind: str = "", *, fold_notes: bool = False) -> Markup:
    """Write a table; with ``fold_notes`` its notes unfold, and many rows scroll under their header."""
    first, texts = table.columns[0], zip(table.columns, *table.text(), strict=True)
    columns = {column: column != first and max(map(len, cells), default=0) > _SENTENCE for column, *cells in texts}
    rows = [[_cell(row.get(column.key), column, long) for column, long in columns.items()] for row in table.rows]
    notes = list_html(table.notes, 0 if fold_notes else len(table.notes), "How to read this table", "notes")
    tall = fold_notes and len(rows) > _TALL
    return render("table.html", table=table, kind=kind, columns=columns, rows=rows, tall=tall, notes=notes)


def plain_table(title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    """Write rows of text as a table whose rows become cards on a phone."""
    cells = [dict(zip(header, row, strict=True)) for row in rows]
    return table_html(Table(title, title, [Column(name, name) for name in header], cells), "left")


def progress_section(plan: Plan, store: ResultStore) -> Section:
    """What each run of a plan does now."""
    heads, rows = ("run", "status", "step", "doing", "left", "what went wrong"), []
    for arm in plan.arms:
        for seed, run_id in arm.runs.items():
            state = run_state(store, run_id)
            step = "" if state.step is None else f"{state.step}/{state.total or '?'}"
            left = "" if state.seconds_left is None else format_seconds(state.seconds_left)
            rows.append((f"{arm.label} seed {seed}", state.status, step, state.phase, left, state.problem))
    return Section("progress", "Progress", plain_table("Runs", heads, rows))


def list_html(items: Sequence[str], most: int, name: str, kind: str = "") -> Markup:
    """Write sentences as a list, folded under ``NAME (COUNT)`` where there are more than ``most``; nothing for none."""
    return render("list.html", items=[item.removeprefix("- ") for item in items], most=most, name=name, kind=kind)


def _cell(cell: Cell, column: Column, long: bool) -> dict[str, str]:
    """A table cell for its template; a verdict is marked by its first word: higher, lower, equivalent, not."""
    text, word, kind = cell_text(cell, column), "", ""
    if isinstance(cell, Estimate) and column.words and text.endswith(cell.words(column.scale)):
        word, kind = cell.words(column.scale), kind_of(cell.verdict)
    look = "long" if long else "text" if isinstance(cell, str) and len(text) > _WRAPS else ""
    return {"text": text.removesuffix(word), "word": word, "kind": kind, "look": look, "label": column.header}


DASHES = {"-": "none", "--": "7 4", ":": "2 3", "-.": "7 3 2 3"}


def chart_data(results: Results) -> dict[str, Any]:
    """Return ``{"arms", "charts": [{"title", "margin", "axes": {label: [line per arm]}}]}``; differences, metrics, score first."""
    experiment, looks = results.experiment, drawing.appearances(results.experiment.plan.arms)
    arms = [
        {"label": arm.label, "colour": looks[arm.name].colour, "dash": DASHES[str(looks[arm.name].line)]}
        for arm in experiment.plan.arms
    ]
    charts = [*_difference_charts(results), *_charts(experiment, _declared_panels(results))]
    for kind in ("pass", "maj"):
        lines = [drawing.k_curves(results, name).get(kind, drawing.EMPTY) for name in looks]
        if any(map(len, lines)):
            charts.append({"title": f"{kind.capitalize()}@k after RL, %", "axes": {"k": [*map(_line, lines)]}})
    charts += _charts(experiment, chain(*FIGURES.values()))
    return {"arms": arms, "charts": charts}


def _difference_charts(results: Results) -> Iterable[dict[str, Any]]:
    """Make a chart of the differences to the arms that are compared with, in each metric that has a curve of two points."""
    plan = results.experiment.plan
    reference = plan.references[0].label if len(plan.references) == 1 else f"the {REFERENCE[plan.design]}"
    for view in filter(lambda view: is_evaluated(view.metric), results.each_metric):
        axes = {
            drawing.AXES[axis]: [_line(drawing.difference_series(view, arm, axis)) for arm in plan.arms]
            for axis in ("step", "tokens")
        }
        if any(len(line["x"]) > 1 for lines in axes.values() for line in lines) and not results.attributions:
            title = f"difference to {reference}, {view.metric.unit} of {metric_name(view)}"
            yield {"title": title, "margin": view.shown_margin or 0, "axes": axes}


def _declared_panels(results: Results) -> Iterable[Panel]:
    """Make a panel of each declared metric and of the score, which need not be one of them."""
    plan = results.experiment.plan
    score = Panel("avg", f"evaluation {drawing.score_label(plan)}", scale=plan.score.scale, evaluated=True)
    panels = list[Panel]()
    for view in results.each_metric:
        metric, training = view.metric, view.metric.kind == TRAINING
        label = f"{metric.header}{' (training)' if training else f', cap {plan.primary_cap}'}"
        column = str(metric.parameter) if training else view.column
        panel = Panel(column, label, scale=metric.scale, evaluated=not training)
        panels.append(score if metric == plan.score else panel)
    return dict.fromkeys([*panels, score])


def _charts(experiment: Frames, panels: Iterable[Panel]) -> list[dict[str, Any]]:
    """Make a chart of each panel that a run has logged."""
    charts = []
    for panel in panels:
        if drawing.is_logged(experiment, panel):
            lines = {
                label: [_line(drawing.panel_series(experiment, arm.name, panel, axis)) for arm in experiment.plan.arms]
                for axis, label in drawing.AXES.items()
            }
            charts.append({"title": panel.label, "axes": lines})
    return charts


def _line(series: drawing.Series, most: int = 150) -> dict[str, list[float | None]]:
    """Make ``{x, mean, low, high}`` of five digits, null for no value, thinned to about ``most`` points with the last one."""
    # A run need not have logged what it is drawn against.
    known = np.flatnonzero(np.isfinite(series.x) & np.isfinite(series.mean))
    places = sorted({*known[:: max(1, len(known) // most)], *known[-1:]})
    return {
        name: [float(f"{value:.5g}") if np.isfinite(value) else None for value in getattr(series, name)[places]]
        for name in ("x", "mean", "low", "high")
    }


SAMPLES_PER_PROBLEM = 2
MAX_PROBLEMS = 64
MAX_CHARACTERS = 4000
_COLUMNS = "problem_id sample_index max_response_tokens response_tokens finish_reason answer correct verdict response"


def browser_data(results: Results, store: ResultStore, byte_limit: int = 6_000_000, *, so_far: bool = False) -> Json:
    """Return ``{"seed", "so_far", "problems": [{"id", "text", "gold", "rates", "samples": [[...] per arm]}]}`` of one seed.

    Text and gold are null where the data are not on this machine. Problems in falling order of disagreement between the arms, as many as
    fit ``byte_limit``, with their first samples. With ``so_far`` unfinished runs show their newest evaluation, whose step it then has.
    """
    plan, averages = results.experiment.plan, results.experiment.problem_avg
    cap, arms = plan.primary_cap, plan.arms
    per_seed = results.per_seed[results.per_seed["cap"] == cap]
    final = per_seed.set_index(["run_id", "arm"])["checkpoint"].to_dict()
    newest = {run: step for run, step, key_cap in sorted(averages) if key_cap == cap and so_far}
    places = {seed: [(arm.runs.get(seed, ""), arm.name) for arm in arms] for seed in plan.seeds}
    steps: dict[int, list[Any]] = {seed: [final.get(at, newest.get(at[0])) for at in places[seed]] for seed in places}
    # Most arms to show, then most that finished, then the first.
    seed = max(places, key=lambda seed: (len(arms) - steps[seed].count(None), len(final.keys() & places[seed])))
    runs = [(run, step, (run, arm) in final) for (run, arm), step in zip(places[seed], steps[seed], strict=True)]
    data: dict[str, Any] = {"seed": seed, "so_far": [None if last else step for _, step, last in runs], "problems": []}
    rates = [averages.get((run, step, cap)) for run, step, _ in runs]
    known_rates = [rate for rate in rates if rate is not None]
    if not known_rates:
        return data
    # What the first arm was asked, all were asked.
    samples = [_samples(store.run(run), step, plan) if (run, step, cap) in averages else {} for run, step, _ in runs]
    texts: dict[str, Any] = {}
    with suppress(StoreError):
        texts = problem_texts(store.run(next(run for run, step, _ in runs if step is not None)), plan.benchmark)
    for index in np.argsort(-np.ptp(known_rates, axis=0), kind="stable")[:MAX_PROBLEMS]:
        name = results.experiment.problem_ids[index]
        text = texts.get(name)
        problem = {
            "id": name,
            "text": text and _shorten(text.prompt),
            "gold": text and text.gold,
            "rates": [None if rate is None else round(float(rate[index]), 4) for rate in rates],
            "samples": [of_arm.get(name, []) for of_arm in samples],
        }
        byte_limit -= len(str(problem).encode())
        if byte_limit < 0:
            break
        data["problems"].append(problem)
    return data


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_CHARACTERS else f"{text[:MAX_CHARACTERS]} … [{len(text)} characters]"


def _samples(run: RunDir, step: int, plan: Plan) -> dict[str, list[dict[str, Any]]]:
    """The first samples of each problem at the plan's cap, as the page shows them."""
    table = run.samples(plan.benchmark, step, _COLUMNS.split())
    first = (table["max_response_tokens"] == plan.primary_cap) & (table["sample_index"] < SAMPLES_PER_PROBLEM)
    table = table[first].sort_values(["problem_id", "sample_index"])
    preview = pd.DataFrame(
        {
            "right": table["correct"].astype(bool),
            "verdict": table["verdict"].astype(str),
            "answer": table["answer"].astype(object).where(table["answer"].notna(), None),
            "tokens": table["response_tokens"],
            "truncated": table["finish_reason"] == "length",
            "text": table["response"].map(_shorten),
        }
    )
    return {str(name): records(rows) for name, rows in preview.groupby(table["problem_id"], observed=True)}

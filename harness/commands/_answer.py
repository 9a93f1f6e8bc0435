"""Calls of the analysis that several verbs make. It is imported where it is called: it loads pandas, and matplotlib for figures."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.commands._arguments import VerbAnswer
from harness.configuration.error import ConfigError
from harness.configuration.identity import content_hash
from harness.execution.progress import Terminal
from harness.experiment.as_declared import declarations
from harness.experiment.plan import Plan
from harness.store import ResultStore, StoreError, atomic, layout
from harness.store.layout import experiment_dir

if TYPE_CHECKING:
    from analysis.results import Results
    from harness.experiment.looks import Decisions


@dataclass(frozen=True)
class Report(VerbAnswer):
    """What an experiment found, and what was written of it.

    `metrics`: its numbers in each metric (`_metric_record`). `sentences`: the answer in words. `text`: the answer as a terminal
    shows it, or the methods paragraph. `written`: the files, below `folder`; nothing with `only=table`. `part`: what was asked for.
    """

    experiment: str
    metrics: list[dict[str, Any]]
    sentences: list[str]
    text: str
    part: str
    folder: str | None
    written: list[str]


def show_report(report: Report) -> None:
    """Print the answer, in colour where the terminal has it, and at last where its page lies."""
    if report.text and report.part == "methods":
        print(report.text)
    elif report.text:
        from analysis.terminal import colour_answer

        Terminal(width=max(map(len, report.text.splitlines()))).print(colour_answer(report.text), soft_wrap=True)
    if report.folder is not None:
        page = Path(report.folder).resolve() / PAGE
        has_page = report.part in ("all", "page")
        print(f"Page: {page.as_uri()}" if has_page else f"written: {report.folder} ({report.part})")


def formats_of(names: str) -> list[str]:
    """The figure formats of `formats=`. Raises `ConfigError` for one that is none."""
    from analysis.figures.drawing import FORMATS

    selection = [name for name in names.split(",") if name]
    if unknown := [name for name in selection if name not in FORMATS]:
        raise ConfigError(f"formats: no {', '.join(unknown)}; choose from {','.join(FORMATS)}")
    return selection


def _results(store: ResultStore, experiment: str, *, curves: bool) -> Results:
    from analysis.frames import load_experiment
    from analysis.results import results_of

    return results_of(load_experiment(store.root, experiment, curves=curves))


def report_of(
    store: ResultStore,
    experiment: str,
    *,
    only: str = "all",
    formats: str = "pdf,png",
    out: str | None = None,
    columns: str = "",
    **options: str,
) -> Report:
    """Read what an experiment found, and write its tables, figures and page, or `only` one of them (`table`: nothing).

    `options`: what else `analysis.report.write_answer` takes (figures, tables, style).
    """
    from analysis.answer import answer_sentences
    from analysis.terminal import terminal_text

    key = answer_key(store, experiment)  # a run that ends from here on may be missing
    stood = only in ("all", "page") and answer_stands(store, experiment)  # a new page is signed where the old one was
    is_stored_answer = not out and (only == "all" or (only == "page" and stood))
    replace = is_stored_answer and not stood
    results = _results(store, experiment, curves=only != "table")
    metrics, sentences = list(map(_metric_record, results.each_metric)), answer_sentences(results)
    if only == "table":
        return Report(experiment, metrics, sentences, terminal_text(results), only, None, [])
    from analysis.report import write_answer
    from analysis.tables.table import UnknownColumn

    folder = Path(out) if out else experiment_dir(store.root, experiment)
    try:
        paths = write_answer(
            store.root,
            experiment,
            folder,
            only=only,
            formats=formats_of(formats),
            columns=[name for name in columns.split(",") if name],
            results=results,
            replace=replace,
            **options,
        )
    except UnknownColumn as error:
        raise ConfigError(str(error)) from error
    if is_stored_answer:
        sign_answer(store, experiment, key)
    text = (folder / "methods" / "methods.md").read_text() if only == "methods" else terminal_text(results)
    return Report(experiment, metrics, sentences, text, only, str(folder), list(map(str, paths)))


def _metric_record(results: Results) -> dict[str, Any]:
    """What an experiment found in a metric, in its shown unit: means of arms, rows of `effects.csv`, the finding of its claim."""
    from analysis.answer import finding_of
    from analysis.effects import declared_effects

    metric, arms = results.metric, []
    for arm in results.experiment.plan.arms:
        mean = results.mean(arm).rescale(metric.scale)
        by_seed = {seed: metric.scale * value for seed, value in results.values(arm).items()}
        ends = {"mean": mean.value, "low": mean.low, "high": mean.high}
        arms.append({"name": arm.name, "label": arm.label, **ends, "by_seed": by_seed})
    return {
        **{name: getattr(metric, name) for name in ("name", "title", "unit", "better")},
        "margin": results.shown_margin,
        "arms": arms,
        "effects": [effect.row for effect in declared_effects(results)],
        "finding": str(finding_of(results) or ""),
    }


def table_so_far(store: ResultStore, experiment: str) -> str:
    """The answer of an experiment whose runs go on, marked as provisional."""
    from analysis.terminal import terminal_text

    return terminal_text(_results(store, experiment, curves=False), so_far=True)


def decide(plan: Plan, store: ResultStore) -> Decisions:
    """Judge a plan that has the runs of all seeds by the stored scores: what is decided, and which seeds come next."""
    from analysis.answer import decisions

    return decisions(plan, store)


def metrics_of(store: ResultStore, plan: Plan) -> list[float]:
    """What a plan of one finished run answers to each of its metrics, in the shown unit; NaN where the run has no such value."""
    from analysis.api import NoValueError, seed_frame
    from analysis.frames import load_plan
    from analysis.results import results_of

    try:
        frame = seed_frame(results_of(load_plan(store, plan, curves=False)))
    except NoValueError:
        return [float("nan")] * len(plan.metrics)
    return [float(frame[metric.name].iloc[0]) for metric in plan.metrics]


PAGE = "report.html"
_OF_THE_MOMENT = ("schema_version", "command", "checks", "decisions")  # the same question, asked another time


def answer_key(store: ResultStore, experiment: str) -> str:
    """Hash what an answer is made of: the stored question, and which of its runs are finished."""
    plan = store.plan(experiment)
    return content_hash(_question(plan), sorted(answered_runs(store, experiment)), declarations(store, experiment))


def sign_answer(store: ResultStore, experiment: str, key: str) -> None:
    """Note in the page, which is written last, what tables, figures and page were made of."""
    page = layout.experiment_dir(store.root, experiment) / PAGE
    atomic.write_file(page, page.read_bytes() + _signature(key))


def answer_stands(store: ResultStore, experiment: str) -> bool:
    """Say whether tables and page were made of the stored plan and of the runs that are finished now; no clock is asked."""
    page = layout.experiment_dir(store.root, experiment) / PAGE
    if not page.exists() or not any(page.with_name("tables").glob("*")):
        return False
    return page.read_bytes().endswith(_signature(answer_key(store, experiment)))


def headline_of(store: ResultStore, experiment: str) -> str:
    """The first sentence of the stored answer, where it is of the runs that are finished now; else empty. Loads no analysis."""
    path, text = layout.experiment_dir(store.root, experiment) / "tables" / "answer.md", ""
    with contextlib.suppress(StoreError, OSError):
        text = path.read_text(encoding="utf-8") if answer_stands(store, experiment) else ""
    return re.split(r"(?<=\.) |\*\*", text.removeprefix("**"))[0]


def _signature(key: str) -> bytes:
    return f"<!-- answer {key} -->\n".encode()


def _question(plan: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in plan.items() if key not in _OF_THE_MOMENT}


def answered_runs(store: ResultStore, experiment: str) -> frozenset[str]:
    """The finished runs of the answer that is stored under a name; none where there is no answer, or none that can be read."""
    try:
        plan = store.plan(experiment) if experiment in store.plans() else {"arms": []}
        run_ids = {str(run_id) for arm in plan["arms"] for run_id in arm["runs"].values()}
        return frozenset(run_id for run_id in run_ids if store.run(run_id).status == "finished")
    except (StoreError, ValueError, KeyError, TypeError, AttributeError):
        return frozenset()


def dropped_runs_line(plan: Plan, previous_runs: frozenset[str]) -> str:
    """Say what this plan takes out of the answer stored under its name, whose `answered_runs` are `previous_runs`; empty: nothing."""
    count = len(previous_runs.difference(spec.run_id for spec in plan.specs))
    if not count:
        return ""
    dropped_runs = f"{'up to ' * bool(plan.first)}{count} of the {len(previous_runs)} finished runs"
    fix = "runtime.results" if plan.claim else "experiment.name"
    return (
        f"{plan.name}: {dropped_runs} of the answer stored under this name are not asked for now, so tables, figures and page lose them; "
        f"the runs stay. To keep both answers, add {fix}=ANOTHER"
    )


def put_back(store: ResultStore, experiment: str, plan: Mapping[str, Any]) -> None:
    """Write a command's own plan again if another command has written another one meanwhile, and say so: an answer is read from it."""
    with contextlib.suppress(StoreError):
        if _question(store.plan(experiment)) == _question(json.loads(json.dumps(plan))):
            return
    print(
        f"{experiment}: another command wrote its plan over this one's meanwhile; this one's is written again, and the answer is of its "
        "runs. Give one of the two another experiment.name, and both keep theirs"
    )
    store.write_plan(experiment, plan)

"""Calls of the analysis that several verbs make. It is imported where it is called: it loads pandas, and matplotlib for figures."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.values import MetricRecord
from harness.commands._as_json import VerbAnswer
from harness.commands._previous_answer import answer_key, sign_answer
from harness.configuration.error import ConfigError
from harness.store import ResultStore
from harness.store.layout import experiment_dir

if TYPE_CHECKING:  # `harness report` needs no plan and no supervisor
    from harness.execution.supervisor import Decisions
    from harness.experiment.plan import Plan


@dataclass(frozen=True)
class Report(VerbAnswer):
    """What an experiment found, and what was written of it.

    `metrics`: its numbers; empty with `against=`. `sentences`: the answer in words. `text`: tables and sentences as a terminal shows them,
    or the methods paragraph. `written`: the files, below `folder`; nothing with `only=table`. `part`: what was asked for.
    """

    experiment: str
    metrics: list[MetricRecord]
    sentences: list[str]
    text: str
    part: str
    folder: str | None
    written: list[str]


def write_answer(store: ResultStore, experiment: str, *, only: str = "all") -> None:
    """Write the tables, figures and page of an experiment, or `only` one of them, and print what was found; raises `StoreError`."""
    show_report(report_of(store, experiment, only=only))


def show_report(found: Report) -> None:
    """Print tables and sentences, and where the files lie."""
    if found.text:
        print(found.text)
    if found.part == "figure":
        print(f"written: {', '.join(found.written)}")
    elif found.folder is not None:
        everything = " (the sentences: tables/answer.md; figures/; methods/; the page: report.html)"
        print(f"written: {found.folder}{everything if found.part == 'all' else f' ({found.part})'}")


def _formats(said: str) -> list[str]:
    from analysis.figures.style import FORMATS

    chosen = [name for name in said.split(",") if name]
    if unknown := [name for name in chosen if name not in FORMATS]:
        raise ConfigError(f"formats: no {', '.join(unknown)}; choose from {','.join(FORMATS)}")
    return chosen


def report_of(
    store: ResultStore,
    experiment: str,
    *,
    only: str = "all",
    figures: str = "main",
    tables: str = "main",
    style: str = "paper",
    formats: str = "pdf,png",
    out: str | None = None,
    columns: str = "",
) -> Report:
    """Read what an experiment found, and write its tables, figures and page, or `only` one of them (`table`: nothing).

    The arguments are those of `harness report`. Raises `StoreError`: it cannot be read.
    """
    from analysis.answer import answer_sentences, metric_records, terminal_text
    from analysis.evidence.load import load_experiment
    from analysis.evidence.results import results_of

    key = answer_key(store, experiment)  # a run that ends from here on may be missing
    # Written tables hold every k, with or without figures beside them.
    results = results_of(load_experiment(store.root, experiment, curves=only != "table", further=True))
    metrics, sentences = metric_records(results), answer_sentences(results)
    if only == "table":
        return Report(experiment, metrics, sentences, terminal_text(results), only, None, [])
    from analysis.report import write_parts
    from analysis.tables.latex import UnknownColumn

    folder = Path(out) if out else experiment_dir(store.root, experiment)
    chosen = _formats(formats)
    try:
        paths = write_parts(
            results,
            store.root,
            folder,
            only=only,
            figures=figures,
            tables=tables,
            style=style,
            formats=chosen,
            columns=[name for name in columns.split(",") if name],
        )
    except UnknownColumn as error:
        raise ConfigError(str(error)) from error
    if only == "all" and out is None:
        sign_answer(store, experiment, key)
    text = (folder / "methods" / "methods.md").read_text() if only == "methods" else terminal_text(results)
    return Report(experiment, metrics, sentences, text, only, str(folder), list(map(str, paths)))


def transfer_of(
    store: ResultStore,
    experiment: str,
    other: str,
    *,
    style: str = "paper",
    formats: str = "pdf,png",
    out: str | None = None,
    **unused: str,
) -> Report:
    """Draw what an experiment found against what another one did; raises `ConfigError` where they share no comparison."""
    from analysis.evidence.load import load_experiment
    from analysis.evidence.results import results_of
    from analysis.figures.effects import transfer_figure
    from analysis.figures.style import save, styled

    if unused:
        raise ConfigError(f"against= draws one figure; {', '.join(unused)} cannot be said with it")
    here, there = (
        results_of(load_experiment(store.root, name, curves=False)) for name in (experiment, other)
    )
    folder = Path(out) if out else experiment_dir(store.root, experiment)
    with styled(style):
        figure = transfer_figure(here, there)
        if figure is None:
            raise ConfigError(
                f"{experiment} and {other} share no comparison whose runs have finished: the same labels of arm and reference"
            )
        paths = save(figure, folder / "figures", f"transfer-{other}", _formats(formats))
    return Report(experiment, [], [], "", "figure", str(folder), list(map(str, paths)))


def table_so_far(store: ResultStore, experiment: str) -> str:
    """Make the tables of an experiment whose runs go on, marked as provisional, with the headlines alone."""
    from analysis.answer import terminal_text
    from analysis.evidence.load import load_experiment
    from analysis.evidence.results import results_of

    results = results_of(load_experiment(store.root, experiment, curves=False, further=True))
    return terminal_text(results, provisional=True)


def decide(plan: Plan, store: ResultStore) -> Decisions:
    """Judge a plan that has the runs of all seeds by the stored scores: what is decided, and which seeds come next."""
    from analysis.stopping import decisions
    from harness.execution.supervisor import Decisions

    return Decisions(**decisions(plan, store))

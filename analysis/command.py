"""``python -m analysis ROOT EXPERIMENT``: print the tables, write tables, figures and a page."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

from analysis.answer import answer_sentences, headlines
from analysis.evidence.load import load_experiment
from analysis.evidence.results import Results, results_of
from analysis.evidence.stored_plan import PlanError
from analysis.tables.benchmarks import benchmark_tables
from analysis.tables.experiment_tables import main_table, summary_table
from analysis.tables.table import to_terminal
from harness.store import StoreError

PARTS = ("all", "table", "tables", "figures", "page")
STYLES = ("paper", "screen")
FORMATS = "pdf,svg,png"


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0, or 2 with one line on standard error where the experiment cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m analysis", description=__doc__)
    parser.add_argument("root", type=Path, help="results root")
    parser.add_argument("experiment", help="name of the experiment")
    parser.add_argument("--out", type=Path, help="folder for tables/, figures/ and report.html")
    parser.add_argument("--only", choices=PARTS, default="all", help="table: print it and write nothing")
    parser.add_argument(
        "--provisional", action="store_true", help="with --only table: mark it, more runs are to come"
    )
    parser.add_argument(
        "--figures", choices=("all", "paper"), default="all", help="paper: redraw published figures"
    )
    parser.add_argument("--style", choices=STYLES, default="paper")
    parser.add_argument("--formats", default=FORMATS, help="comma-separated: pdf,svg,png; empty for none")
    options = parser.parse_args(arguments)
    try:
        curves = options.only != "table"  # written tables hold every k, with or without figures beside them
        results = results_of(load_experiment(options.root, options.experiment, curves=curves, further=True))
    except (StoreError, PlanError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    out = options.out or options.root / "experiments" / options.experiment
    said = [_text(results, provisional=options.provisional)]
    if options.only != "table":
        _write(results, options, out)
        said.append(f"written: {out} (the sentences: tables/answer.md; figures/; the page: report.html)\n")
    try:
        sys.stdout.write("".join(said))
        sys.stdout.flush()
    except BrokenPipeError:  # nobody reads it; what matters is written
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


def _text(results: Results, *, provisional: bool) -> str:
    terminal = sys.stdout.isatty()
    width = shutil.get_terminal_size((160, 40)).columns if terminal else 160
    tables = [*map(main_table, results.each_metric()), *benchmark_tables(results), summary_table(results)]
    if provisional:
        mark = results.experiment.provisional
        tables = [replace(table, title=f"{table.title} ({mark})") for table in tables]
    shown = [to_terminal(table, width) for table in tables]
    sentences = headlines(results) if provisional else answer_sentences(results)
    return "\n".join([*shown, *sentences]) + "\n"


def _write(results: Results, options: argparse.Namespace, out: Path) -> None:
    """The chosen parts; matplotlib is imported here, since a table needs none."""
    from analysis.report import write_parts

    formats = [name for name in options.formats.split(",") if name]
    only = "figures" if options.figures == "paper" else options.only
    write_parts(
        results, options.root, out, only=only, figures=options.figures, style=options.style, formats=formats
    )

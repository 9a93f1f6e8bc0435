"""What the scripts beside the experiments share that read one experiment and print one table."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from analysis.frames import load_experiment
from analysis.results import Results, results_of
from analysis.tables.table import Table, renderings, to_markdown, write_texts
from harness.experiment.plan import PlanError
from harness.store import StoreError


def script_parser(stem: str, description: str | None) -> argparse.ArgumentParser:
    """A parser with what all of them take; ``stem``: name of the files that ``--out`` writes."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("root", type=Path, help="results root")
    parser.add_argument("experiment", help="name of the experiment")
    parser.add_argument("--out", type=Path, help=f"folder for {stem}.md, {stem}.csv and {stem}.tex")
    parser.set_defaults(stem=stem)
    return parser


def print_table(options: argparse.Namespace, make: Callable[[Results], Table]) -> int:
    """Print the table as Markdown, and write it where ``--out`` says; 0, or 2 with one line where it cannot be made."""
    try:
        table = make(results_of(load_experiment(options.root, options.experiment, curves=False)))
        if options.out is not None:
            write_table(table, options.out, options.stem)
    except (StoreError, PlanError, ValueError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(to_markdown(table))
    return 0


def write_table(table: Table, folder: Path, stem: str) -> None:
    """Write ``stem.md``, ``stem.csv`` and ``stem.tex`` into the folder, which is made where it is missing."""
    texts = renderings([table]).items()
    write_texts(folder, {f"{stem}.{name.rpartition('.')[2]}": text for name, text in texts})

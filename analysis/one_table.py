"""What the commands that print one table of an experiment share: their arguments, the results they read, and what an error ends in."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from analysis.evidence.load import load_experiment
from analysis.evidence.results import Results, results_of
from analysis.evidence.stored_plan import PlanError
from analysis.tables.table import Table, renderings, to_markdown
from harness.store import StoreError
from harness.store.atomic import write_file


def arguments(command: str, description: str | None) -> argparse.ArgumentParser:
    """A parser with what all of them take; ``command``: the module's name below ``analysis``."""
    parser = argparse.ArgumentParser(prog=f"python -m analysis.{command}", description=description)
    parser.add_argument("root", type=Path, help="results root")
    parser.add_argument("experiment", help="name of the experiment")
    parser.add_argument(
        "--base-policies", type=int, help="seeds s and s + this share one; where the stored plan does not say"
    )
    parser.add_argument("--out", type=Path, help=f"folder for {command}.md, {command}.csv and {command}.tex")
    parser.set_defaults(command=command)
    return parser


def read(root: Path, experiment: str, base_policies: int | None = None) -> Results:
    """The results of an experiment; ``base_policies`` where its plan was stored before plans said it.

    Raises:
        StoreError: no such experiment.
        PlanError: a plan that cannot be read.
    """
    found = load_experiment(root, experiment, curves=False)
    if base_policies is not None and found.plan.base_policies is None:
        found = replace(found, plan=replace(found.plan, base_policies=base_policies))
    return results_of(found)


def print_table(options: argparse.Namespace, make: Callable[[Results], Table]) -> int:
    """Print the table as Markdown, and write it where ``--out`` says; 0, or 2 with one line where it cannot be made."""
    try:
        table = make(read(options.root, options.experiment, options.base_policies))
        if options.out is not None:
            write_table(table, options.out, options.command)
    except (StoreError, PlanError, ValueError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write(to_markdown(table))
    return 0


def write_table(table: Table, folder: Path, stem: str) -> None:
    """Write ``stem.md``, ``stem.csv`` and ``stem.tex`` into the folder, which is made where it is missing."""
    folder.mkdir(parents=True, exist_ok=True)
    for suffix, text in renderings(table).items():
        write_file(folder / f"{stem}.{suffix}", text.encode())

"""``python -m analysis ROOT EXPERIMENT``: print the table, write tables, figures and a page."""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

from analysis.answer import answer_sentences
from analysis.figures.style import FORMATS, STYLES
from analysis.load import load_experiment
from analysis.plan import PlanError
from analysis.report import write_results
from analysis.results import results_of
from analysis.table import to_terminal
from analysis.tables import main_table
from harness.store import StoreError


def main(arguments: list[str] | None = None) -> int:
    """Exit code 0, or 2 with one line on standard error where the experiment cannot be read."""
    parser = argparse.ArgumentParser(prog="python -m analysis", description=__doc__)
    parser.add_argument("root", type=Path, help="results root")
    parser.add_argument("experiment", help="name of the experiment")
    parser.add_argument("--out", type=Path, help="folder for tables/ and figures/")
    parser.add_argument("--style", choices=STYLES, default="paper")
    parser.add_argument("--formats", default=",".join(FORMATS), help="comma-separated: pdf,svg,png")
    options = parser.parse_args(arguments)
    try:
        results = results_of(load_experiment(options.root, options.experiment))
    except (StoreError, PlanError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    out = options.out or options.root / "experiments" / options.experiment
    write_results(results, options.root, out, style=options.style, formats=options.formats.split(","))
    width = shutil.get_terminal_size((160, 40)).columns if sys.stdout.isatty() else 160
    sys.stdout.write(to_terminal(main_table(results), width) + "\n")
    sys.stdout.write("\n".join(answer_sentences(results)[:1]) + "\n")
    sys.stdout.write(f"tables, figures and report.html: {out}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""``python -m analysis ROOT EXPERIMENT``: write tables and figures of an experiment."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from analysis.figures.style import FORMATS, STYLES
from analysis.plan import PlanError
from analysis.report import write_answer
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
        paths = write_answer(
            options.root,
            options.experiment,
            options.out,
            style=options.style,
            formats=options.formats.split(","),
        )
    except (StoreError, PlanError) as error:
        sys.stderr.write(f"{error}\n")
        return 2
    sys.stdout.write("".join(f"{path}\n" for path in paths))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

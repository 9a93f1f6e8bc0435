"""Check this machine: Python, packages, GPUs, Slurm, and whether the results root can be written and locked."""

from __future__ import annotations

import argparse

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from harness.commands._select import select
from harness.execution.machine import examine

_WORDS = {True: "[green]ok[/green]", False: "[red]problem[/red]", None: "optional"}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("overrides", nargs="*", help="runtime.results=DIR, runtime.device=cuda, ...")


def run(options: argparse.Namespace) -> int:
    """Execute the verb. 1 if something that is needed is not in order."""
    selection = select(options.overrides)
    table = Table(show_header=False, box=None, pad_edge=False)
    checks = list(examine(selection.store, selection.runtime))
    for check in checks:
        table.add_row(_WORDS[check.good], check.name, escape(check.found))
    Console().print(table)
    return int(any(check.good is False for check in checks))

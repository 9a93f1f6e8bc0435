"""Show the state of runs, from any terminal: harness status [experiment=NAME] [runtime.results=DIR] [--watch] [--runs]."""

from __future__ import annotations

import argparse
import time

from rich.console import Console
from rich.live import Live

from harness.commands._select import HELP, select
from harness.execution.progress import status_table


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("--watch", action="store_true", help="refresh every second until interrupted")
    parser.add_argument("--runs", action="store_true", help="list finished runs, too")
    parser.add_argument("overrides", nargs="*", help=HELP)


def run(options: argparse.Namespace) -> int:
    """Execute the verb."""
    selection = select(options.overrides)
    if not options.watch:
        console = Console()
        console.print(status_table(selection.store, selection.run_ids, finished=options.runs))
        for problem in selection.store.problems():
            console.print(f"skipped: {problem}", style="yellow", markup=False)
        return 0
    with Live(
        status_table(selection.store, selection.run_ids, finished=options.runs), refresh_per_second=2
    ) as live:
        try:
            while True:
                time.sleep(1.0)
                ids = select(options.overrides).run_ids
                live.update(status_table(selection.store, ids, finished=options.runs))
        except KeyboardInterrupt:
            return 0

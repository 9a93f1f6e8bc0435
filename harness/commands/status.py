"""Show the state of runs, from any terminal: harness status [experiment=NAME] [runtime.results=DIR] [--watch]."""

from __future__ import annotations

import argparse
import time

from rich.console import Console
from rich.live import Live

from harness.compose import compose_run
from harness.progress import status_table
from harness.store import ResultStore


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the verb's arguments."""
    parser.add_argument("--watch", action="store_true", help="refresh every second until interrupted")
    parser.add_argument(
        "overrides", nargs="*", help="experiment=NAME to show only its runs; runtime.results=DIR"
    )


def run(options: argparse.Namespace) -> int:
    """Execute the verb."""
    names = [item.partition("=")[2] for item in options.overrides if item.startswith("experiment=")]
    rest = [item for item in options.overrides if not item.startswith("experiment=")]
    store = ResultStore(compose_run(rest).runtime.results)

    def runs() -> list[str]:
        if not names:
            return store.run_ids()
        return [run_id for arm in store.plan(names[0])["arms"] for run_id in arm["runs"].values()]

    if not options.watch:
        console = Console()
        console.print(status_table(store, runs()))
        for problem in store.problems():
            console.print(f"skipped: {problem}", style="yellow", markup=False)
        return 0
    with Live(status_table(store, runs()), refresh_per_second=2) as live:
        try:
            while True:
                time.sleep(1.0)
                live.update(status_table(store, runs()))
        except KeyboardInterrupt:
            return 0
